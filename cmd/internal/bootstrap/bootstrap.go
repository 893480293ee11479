// Package bootstrap brings Poolwright into a cluster: what `poolwright bootstrap` and its
// --take-over do. An installation is planned, shown, and carried out when somebody has
// confirmed it.
//
// It refuses a cluster that is not proven to be the one that the folder names, a second
// installation beside another, and a take-over by which two Karpenters could run at a
// time. What was cut off is finished by the next run. Start reading at Plan. The way out
// is cmd/internal/uninstall, what both share cmd/internal/installation.
package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/offline"
	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// Request is what to install where.
type Request struct {
	// REST reaches the cluster.
	REST *rest.Config
	// Namespace is the controller's.
	Namespace string
	// Dir is the folder that the cluster will follow, in a working copy.
	Dir string
	// Image is the controller's. Default: the one that is installed already, or ReleasedImage.
	Image string
	// ReleasedImage is the image of the release that this program is of. Empty: it is of none.
	ReleasedImage string
	// Sync is what the Sync that is made follows.
	Sync SyncRequest
	// TakeOver requests to take over from a Karpenter that runs already.
	TakeOver bool
	// Progress receives what happens, a line at a time.
	Progress func(line string)
}

// Bootstrap is an installation that was planned and waits for confirmation: the AWS
// half that a folder declares, the controller, and its Sync. The folder's Kubernetes
// objects, its Cluster included, are not part of it: they have one writer, the Sync,
// which records what it applied.
type Bootstrap struct {
	// SyncName is the name of the Sync that is made or kept.
	SyncName string
	// Warnings are what a person should read before confirming.
	Warnings []string

	req     Request
	direct  client.Client
	targets map[string]targets.Target
	plan    plan.Plan
	// others are the Karpenters that run already, and CABundle what the engine
	// must be given for the sake of their nodes' drift hashes.
	others   []existingKarpenter
	caBundle string
	// stopped is the Karpenter that a take-over scaled to zero before, or nil.
	stopped *existingKarpenter
	// leader reports to a take-over whether a controller leads.
	leader leaderWatch
	// sync is the spec of the Sync that is made, and syncWarnings are what a person should read about it.
	sync         map[string]any
	syncWarnings []string
}

// Plan compares what a folder needs with AWS and the cluster, what costs least first. It
// writes nothing. The repository's problems are a *targets.ProblemsError.
func Plan(ctx context.Context, req Request) (*Bootstrap, error) {
	root, sub, err := dir.Locate(req.Dir)
	if err != nil {
		return nil, err
	}
	if err := req.Sync.checkGiven(); err != nil {
		return nil, err
	}
	var folder declaredFolder
	err = req.step("checking the folder", func() (err error) {
		if folder, err = req.declares(ctx, req.Sync.Variables); err != nil {
			return err
		}
		return folder.eks.checkAccount(req.Namespace)
	})
	if err != nil {
		return nil, err
	}
	b := &Bootstrap{req: req, leader: leaderWatch{now: time.Now}}
	if b.direct, err = connect.DirectClient(req.REST); err != nil {
		return nil, err
	}
	if err := req.step("reading what is installed", func() error { return b.readInstalled(ctx, root, sub) }); err != nil {
		return nil, err
	}
	err = req.step("checking that the kubeconfig and AWS are of EKS cluster "+folder.eks.spec.Name, func() error {
		warnings, err := folder.eks.prove(ctx, req.REST, b.direct, req.Namespace)
		b.Warnings = append(b.Warnings, warnings...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if read, err := b.parameters(ctx, folder.eks.spec.Region, sub); err != nil {
		return nil, err
	} else if !read.Empty() {
		if folder, err = req.declares(ctx, read); err != nil {
			return nil, err
		}
	}
	b.Warnings = append(b.Warnings, folder.budgets...)
	if err := b.findOthers(ctx, folder.eks); err != nil {
		return nil, err
	}
	ours, err := b.installation(ctx, folder.eks)
	if err != nil {
		return nil, err
	}
	return b, b.compute(ctx, folder.set, ours)
}

// readInstalled refuses an installation in another namespace, and has the image where the request names none, and what the Sync
// follows. That comes before AWS is read, since the controller cannot follow every repository.
func (b *Bootstrap) readInstalled(ctx context.Context, root, sub string) error {
	if err := onlyHere(ctx, b.direct, b.req.Namespace); err != nil {
		return err
	}
	if err := b.chooseImage(ctx); err != nil {
		return err
	}
	var err error
	b.sync, b.syncWarnings, err = b.req.Sync.follow(ctx, b.direct, b.req.Namespace, root, sub)
	b.SyncName = b.req.Sync.Name
	return err
}

// chooseImage has the image where the request names none, and warns of another one that is installed.
func (b *Bootstrap) chooseImage(ctx context.Context) error {
	live, err := installation.ReadLive(ctx, b.direct, b.req.Namespace)
	if err != nil {
		return err
	}
	if warning := imageWarning(live.Image, b.req.Image, b.req.ReleasedImage); warning != "" {
		b.Warnings = append(b.Warnings, warning)
	}
	if b.req.Image = cmp.Or(b.req.Image, live.Image, b.req.ReleasedImage); b.req.Image == "" {
		return errors.New("which image is the controller's? Build and push it with make image PUSH=REGISTRY/poolwright VERSION=TAG, and name it with --image")
	}
	return nil
}

// declaredFolder is what a folder declares.
type declaredFolder struct {
	set state.Set
	eks declaredEKS
	// budgets are lint's warnings of budgets by which idle nodes stay: the engine applies them
	// from its first hour on.
	budgets []string
}

// declares is what the folder declares with variables. Problems are a *targets.ProblemsError.
func (r Request) declares(ctx context.Context, variables variables.Input) (declaredFolder, error) {
	linted, err := offline.Lint(ctx, r.Dir, variables)
	if err != nil {
		return declaredFolder{}, err
	}
	if len(linted.Problems) > 0 {
		return declaredFolder{}, &targets.ProblemsError{Problems: linted.Problems}
	}
	d, err := offline.Load(ctx, r.Dir, variables)
	if err != nil {
		return declaredFolder{}, err
	}
	out := declaredFolder{set: d.Set}
	for _, p := range linted.Warnings {
		if strings.HasPrefix(p.Field, "spec.disruption.budgets") {
			out.budgets = append(out.budgets, p.String())
		}
	}
	out.eks, err = declaredCluster(r.Dir, d.Set)
	return out, err
}

// installation are the objects of the installation, the Sync among them.
func (b *Bootstrap) installation(ctx context.Context, eks declaredEKS) (state.Set, error) {
	in := installation.Manifests{Namespace: b.req.Namespace, Image: b.req.Image, RoleARN: eks.roleARN(), CABundle: b.caBundle}
	items, err := in.Objects()
	if err != nil {
		return state.Set{}, err
	}
	items, newer, err := installation.WithoutNewerCRDs(ctx, b.direct, items)
	if err != nil {
		return state.Set{}, err
	}
	for _, name := range newer {
		b.Warnings = append(b.Warnings, fmt.Sprintf("CRD %s is a newer release's and stays as it is; this poolwright is older than what is installed", name))
	}
	b.Warnings = append(b.Warnings, b.syncWarnings...)
	itself, err := declaresItself(ctx, b.direct, in.Namespace, b.SyncName)
	if err != nil {
		return state.Set{}, err
	}
	if itself {
		b.Warnings = append(b.Warnings, fmt.Sprintf("Sync %s is declared in the repository that it follows, and bootstrap does not change it: change it there", b.SyncName))
		return state.NewSet(items...), nil
	}
	return state.NewSet(append(items, installation.SyncItem(in.Namespace, b.SyncName, b.sync))...), nil
}

// compute makes the plan over both targets.
func (b *Bootstrap) compute(ctx context.Context, declared, ours state.Set) error {
	theirs, err := aws.New(aws.Config{
		AWS: engine.LoadAWS, REST: b.req.REST,
		Sync: b.SyncName, Namespace: b.req.Namespace, Bootstrap: true, Live: connect.LiveCluster(b.direct),
	})
	if err != nil {
		return err
	}
	here, err := kubernetes.New(kubernetes.Config{REST: b.req.REST, Sync: installation.Name, Namespace: b.req.Namespace})
	if err != nil {
		return err
	}
	b.targets = map[string]targets.Target{aws.Name: theirs, kubernetes.Name: here}
	var desired, observed []state.Item
	for _, half := range []struct {
		name     string
		declared state.Set
	}{{aws.Name, declared}, {kubernetes.Name, ours}} {
		err := b.req.step("comparing with "+map[string]string{aws.Name: "AWS", kubernetes.Name: "the cluster"}[half.name], func() error {
			want, err := b.targets[half.name].Desired(ctx, half.declared)
			if err != nil {
				return err
			}
			found, err := b.targets[half.name].Observe(ctx, want)
			if err != nil {
				return fmt.Errorf("observing %s: %w", half.name, err)
			}
			desired, observed = append(desired, want.Items()...), append(observed, found.Items()...)
			return nil
		})
		if err != nil {
			return err
		}
	}
	b.plan = plan.Compute(state.NewSet(desired...), state.NewSet(observed...), onlyBuild)
	return nil
}

// onlyBuild drops the deletions that are not bootstrap's: in AWS the Sync
// deletes, under its guard; another Sync that bootstrap made before goes on; and
// what defines things goes only by uninstall. What is left are objects that a
// newer release of the installation no longer has.
func onlyBuild(p plan.Plan) plan.Plan {
	p.Changes = slices.DeleteFunc(slices.Clone(p.Changes), func(c plan.Change) bool {
		return c.Action == plan.Delete &&
			(c.Key.Target != kubernetes.Name || slices.Contains([]string{"Sync", "CustomResourceDefinition", "Namespace"}, c.Key.Kind))
	})
	return p
}

// Report shows the plan.
func (b *Bootstrap) Report() report.Report { return report.New(b.plan, nil) }

// ChangeCount is how many changes Apply would make: those that nothing holds.
func (b *Bootstrap) ChangeCount() int {
	n := 0
	for _, c := range b.plan.Changes {
		if c.Admitted() {
			n++
		}
	}
	return n
}

// Apply makes the planned changes, AWS first, so that the controller finds its
// role when it starts. The report has the result of each; the error is nil when all
// that was not held is done.
func (b *Bootstrap) Apply(ctx context.Context) (report.Report, error) {
	made := b.Report()
	err := b.req.step("making "+plural.Count(b.ChangeCount(), "change"), func() error {
		if err := b.ensureNamespace(ctx); err != nil {
			return err
		}
		reporting := map[string]targets.Target{}
		for name, w := range b.targets {
			reporting[name] = installation.WithProgress(w, b.req.Progress)
		}
		outcome := apply.Run(ctx, b.plan, reporting, apply.Options{
			Order: []string{aws.Name, kubernetes.Name},
			// A new role takes its time to reach all of AWS.
			ReadyTimeout: 5 * time.Minute, ChangeTimeout: 5 * time.Minute,
		})
		made = report.NewOutcome(b.plan, nil, outcome)
		return outcome.Err()
	})
	return made, err
}
