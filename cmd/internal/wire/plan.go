package wire

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/target/aws"
	"github.com/poolwright/poolwright/reconciler/target/cluster"
)

// PlanRequest says what to compare with what.
type PlanRequest struct {
	// REST reaches the live cluster.
	REST *rest.Config
	// Dir is the folder to plan, anywhere in a working copy.
	Dir string
	// Sync is the one as which to plan: its name decides what is ours, its
	// policies what would be held.
	Sync *v1alpha1.Sync
	// Namespace holds the Sync's inventory.
	Namespace string
}

// Plan says what applying a folder would change in the live cluster and in AWS,
// which is asked with the user's own credentials. It writes nothing. The mistakes
// that Lint finds without a cluster are problems of the report; of its advice, that
// about GPUs is among the warnings.
func Plan(ctx context.Context, req PlanRequest) (report.Report, error) {
	root, path, err := dir.Locate(req.Dir)
	if err != nil {
		return report.Report{}, err
	}
	world, err := cluster.New(cluster.Config{REST: req.REST, Sync: req.Sync.Name, Namespace: req.Namespace})
	if err != nil {
		return report.Report{}, err
	}
	said := onAll()
	sky, err := aws.New(aws.Config{AWS: engine.LoadAWS, REST: req.REST, Sync: req.Sync.Name, Namespace: req.Namespace, Check: said.of})
	if err != nil {
		return report.Report{}, err
	}
	var loaded declared.Declared
	loop := reconciler.NewLoop(dir.New(root, dir.Limits{}), remembering(said.listening(loader(declared.NewCache(1), path)), &loaded),
		reconciler.World{Name: aws.Name, Target: sky}, reconciler.World{Name: cluster.Name, Target: admitted{world, said}})
	result, err := loop.Plan(ctx, reconciler.Options{Policies: controller.Policies(req.Sync)})
	if err != nil {
		return report.Report{}, fmt.Errorf("planning %s: %w", req.Dir, err)
	}
	problems, notes, err := aboutGPUs(loaded)
	if err != nil {
		return report.Report{}, err
	}
	result.Plan.Notes = append(result.Plan.Notes, notes...)
	slices.SortStableFunc(result.Plan.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	out := report.New(result.Plan, lint.Sorted(append(result.Problems, problems...)))
	out.Forecast = forecast(ctx, req.REST, result.Plan)
	return out, nil
}

// load reads a folder of a working copy without a cluster.
func load(ctx context.Context, folder string) (declared.Declared, error) {
	root, path, err := dir.Locate(folder)
	if err != nil {
		return declared.Declared{}, err
	}
	snapshot, err := dir.New(root, dir.Limits{}).Fetch(ctx)
	if err != nil {
		return declared.Declared{}, err
	}
	return declared.Load(snapshot.FS, path, declared.Limits{})
}
