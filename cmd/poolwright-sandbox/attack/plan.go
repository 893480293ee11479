package attack

import (
	"context"
	"io/fs"
	"strings"
	"testing/fstest"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/attack/grammar"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

const (
	// changes is how many objects a pull request may change to be planned, as package wire
	// has it.
	changes = 1000
	// comment is how many bytes a forge takes, and hours how many a month of its costs has.
	comment, hours = 65_536, 24
)

// rerender renders the head, which is rendered already, and has children render all else.
type rerender struct {
	*child.Runner
	tree fs.FS
	head []byte
}

// Render implements rendercache.Renderer.
func (k rerender) Render(ctx context.Context, tree fs.FS, folder string, values substitute.Values) ([]byte, error) {
	if tree == k.tree {
		return k.head, nil
	}
	return k.Runner.Render(ctx, tree, folder, values)
}

// plan plans the trial as the change of a pull request, without a cluster, and writes the
// comment; with simulation and targets as the product has them. It returns how long that is,
// and of an error in which stage it came about.
func plan(ctx context.Context, in *child.Runner, tree fs.FS, head []byte, values substitute.Values, followed bool) (size int64, stage string, err error) {
	base := fstest.MapFS{}
	for name, content := range grammar.Base() {
		base[name] = &fstest.MapFile{Data: []byte(content)}
	}
	refusals, observed := &validation.Errors{}, &preview.ObservedAt{}
	kube := connect.OfflineValidatedTarget{Target: kubernetes.Offline("main", nil), Errors: refusals}
	simulate, simulateErr := connect.Simulate(in), error(nil)
	p := &preview.Previewer{
		Renderer: rerender{in, tree, head}, Cache: &rendercache.Cache{}, SchemaErrors: refusals, Offline: true, Now: time.Now, ObservedAt: observed,
		Variables: &variables.Current{Read: func(context.Context) (substitute.Values, error) { return values, nil }},
		Targets:   connect.CachedTargets(aws.Offline(refusals.Of), kube, observed),
		Forecast: forecasting.Declared{Expand: kube.Desired, Simulate: func(ctx context.Context, spec v1alpha1.ClusterSpec, before, after provision.ClusterSnapshot) (provision.Forecast, error) {
			// The report has such an error as a text: a plan is useful without a forecast.
			out, err := simulate(ctx, spec, before, after)
			simulateErr = err
			return out, err
		}}.Forecast,
	}
	sync := &v1alpha1.Sync{}
	sync.Name, sync.Namespace = "main", "poolwright-system"
	p.SyncKey = connect.SyncKey(sync)
	if !followed {
		p.MaxChanges = changes
	}
	was := gitsource.Snapshot{FS: base, Revision: "base", TreeID: "base", Commit: strings.Repeat("a", 40)}
	out, _, err := p.Preview(ctx, preview.RevisionRange{
		Comparison: gitsource.Comparison{Base: was, MergeBase: was, UniqueMergeBase: true, Head: gitsource.Snapshot{FS: tree, Revision: "head", TreeID: "head", Commit: strings.Repeat("b", 40)}},
		BaseName:   "main", Path: grammar.Folder, Sync: sync,
	})
	if err != nil {
		return 0, "planning", err
	}
	var text strings.Builder
	if err := out.Markdown(&text, report.Options{HoursPerDay: hours, Limit: comment}); err != nil {
		return 0, "reporting", err
	}
	_ = out.Content() // By this the product decides whether to write the comment again.
	return int64(text.Len()), "forecasting", simulateErr
}
