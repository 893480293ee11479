package preview

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// fixedTarget wants what is declared, and shows always the same.
type fixedTarget struct{ live state.Set }

func (w fixedTarget) Desired(_ context.Context, declared state.Set) (state.Set, error) {
	return declared, nil
}

// Observe shows what goes with a thing only where it is not desired: no update here loses
// anything.
func (w fixedTarget) Observe(_ context.Context, desired state.Set) (state.Set, error) {
	items := w.live.Items()
	for i := range items {
		if _, stays := desired.Get(items[i].Key); stays {
			items[i].DeletionImpact = loss.DeletionImpact{}
		}
	}
	return state.NewSet(items...), nil
}

func (w fixedTarget) Apply(context.Context, plan.Change) error { return nil }

// poolItem is a pool as a revision declares it.
func poolItem(name string, weight int64) state.Item {
	return state.Item{
		Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: name}, Version: "v1",
		Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": name}, "spec": map[string]any{"weight": weight}},
	}
}

// liveItems are items as a world shows what we applied, with nodes that would go with them.
func liveItems(items ...state.Item) state.Set {
	items = slices.Clone(items)
	for i := range items {
		items[i].Applied = state.Hash(items[i].Object)
		items[i].Live = state.Preconditions{UID: "u" + items[i].Key.Name}
		items[i].Impact = "3 nodes, 7 pods"
	}
	return state.NewSet(items...)
}

// folderFiles is the one file of a folder.
type folderFiles struct {
	content    string
	kustomized bool
}

// steps are three revisions that were rendered already, and the target of the Sync that
// follows them.
type steps struct {
	mergeBase, base, head checked.Folder
	live                  state.Set
	forecast              forecasting.ForecastFunc
	sync                  v1alpha1.SyncSpec
	// folders are the files of base, parted and head.
	folders [3]folderFiles
}

func loaded(items ...state.Item) checked.Folder {
	return checked.Folder{Declared: declared.Declared{Set: state.NewSet(items...)}}
}

// tree is the files of a revision, with its id.
type tree struct {
	fstest.MapFS
	id string
}

// renderer returns what was rendered already of revisions, by their ids.
type renderer map[string]checked.Folder

func (r renderer) Render(_ context.Context, files fs.FS, _ string, _ substitute.Values) ([]byte, error) {
	revision, ok := files.(tree)
	if !ok {
		return nil, errors.New("there are no files")
	}
	return []byte(revision.id), nil
}

func (renderer) Proposal() bool { return true }

func (r renderer) Decode(id []byte) (checked.Folder, error) { return r[string(id)], nil }

// inProcess renders in this process, and checks nothing against schemas.
type inProcess struct{}

func (inProcess) Render(_ context.Context, files fs.FS, folder string, values substitute.Values) ([]byte, error) {
	out, err := checked.Load(files, folder, values, nil, checked.Standards{
		CRDs:  func(func(string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) { return nil, nil },
		Types: catalog.Load,
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(encodedFolder{out.Set.Items(), out})
}

// encodedFolder is a folder with the items of its set, which has no JSON.
type encodedFolder struct {
	Items  []state.Item
	Folder checked.Folder
}

func (inProcess) Decode(encoded []byte) (checked.Folder, error) {
	var out encodedFolder
	err := utiljson.Unmarshal(encoded, &out)
	out.Folder.Set = state.NewSet(out.Items...)
	return out.Folder, err
}

func (inProcess) Proposal() bool { return true }

func (s steps) proposer() *Previewer {
	if s.forecast == nil {
		s.forecast = func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) {
			return &provision.Forecast{}, nil
		}
	}
	return &Previewer{
		ObservedAt: &ObservedAt{}, Variables: &variables.Current{}, SchemaErrors: &validation.Errors{}, Now: time.Now, Forecast: s.forecast, Targets: []reconciler.NamedTarget{{Name: "kubernetes", Target: fixedTarget{s.live}}},
		Renderer: renderer{"base": s.base, "parted": s.mergeBase, "head": s.head}, Cache: &rendercache.Cache{},
	}
}

// between is what Git knows of the three revisions, whose files are those of s.
func (s steps) between() gitsource.Comparison {
	at := func(id string, of folderFiles) gitsource.Snapshot {
		name := "p/a.yaml"
		if of.kustomized {
			name = "p/kustomization.yaml"
		}
		return gitsource.Snapshot{TreeID: id, Commit: id[:1], FS: tree{fstest.MapFS{name: {Data: []byte(of.content)}}, id}}
	}
	return gitsource.Comparison{Base: at("base", s.folders[0]), MergeBase: at("parted", s.folders[1]), Head: at("head", s.folders[2])}
}

// between is what Git knows of three revisions with equal files.
func between() gitsource.Comparison { return steps{}.between() }

func (s steps) preview(t *testing.T) report.Report {
	t.Helper()
	out, _ := s.reviewed(t)
	return out
}

// reviewed is the same with the consequences that the report shows.
func (s steps) reviewed(t *testing.T) (report.Report, *v1alpha1.ReviewedDisruption) {
	t.Helper()
	sync := &v1alpha1.Sync{Spec: s.sync}
	if sync.Spec.Prune == nil {
		sync.Spec.Prune = new(true)
	}
	if sync.Spec.Guard.MaxPrunePercent == nil {
		sync.Spec.Guard.MaxPrunePercent = new(int32(50))
	}
	out, reviewed, err := s.proposer().Preview(t.Context(), RevisionRange{Comparison: s.between(), BaseName: "main", Path: "p", Sync: sync})
	if err != nil {
		t.Fatal(err)
	}
	return out, reviewed
}

func TestWhatAReviewReportsOfNodes(t *testing.T) {
	lost := &provision.Forecast{Replaced: []provision.Node{{NodeClaim: "a-1", Pool: "a"}}}
	always := func(f *provision.Forecast, err error) forecasting.ForecastFunc {
		return func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) { return f, err }
	}
	tests := map[string]struct {
		head     checked.Folder
		forecast forecasting.ForecastFunc
		want     *v1alpha1.ReviewedDisruption
	}{
		"is nothing where a pool changes and the forecast failed": {loaded(poolItem("a", 2)), always(nil, errors.New("the child died")), nil},
		"is nothing where a pool changes and no Cluster is known": {loaded(poolItem("a", 2)), always(nil, nil), nil},
		"is that no pool changes where none does, whatever is in the forecast": {
			loaded(poolItem("a", 1)), always(nil, errors.New("the child died")), &v1alpha1.ReviewedDisruption{},
		},
		"is what is in the forecast": {loaded(poolItem("a", 2)), always(lost, nil), &v1alpha1.ReviewedDisruption{
			Objects: []v1alpha1.ReviewedObject{v1alpha1.ReviewedObject(plan.Change{Key: poolItem("a", 2).Key, After: new(poolItem("a", 2))}.Fingerprint())}, NodesReplaced: 1,
			Pools: []v1alpha1.ReviewedPool{{Name: "a", Nodes: 1}}, CostChange: &v1alpha1.HourlyCost{Min: "0", Max: "0"},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			was := loaded(poolItem("a", 1))
			_, reviewed := steps{mergeBase: was, base: was, head: tt.head, live: liveItems(poolItem("a", 1)), forecast: tt.forecast}.reviewed(t)
			if diff := cmp.Diff(tt.want, reviewed); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// changeLines are the changes of a report in a line each.
func changeLines(r report.Report) []string {
	out := []string{}
	for _, c := range r.Changes {
		line := c.Action + " " + c.Object.Name
		if c.ReadOnly {
			line += " compared"
		}
		out = append(out, line)
	}
	return out
}

func TestProblemsAreMergedAsObjectsAre(t *testing.T) {
	a, b, c, heavier := poolItem("a", 1), poolItem("b", 1), poolItem("c", 1), poolItem("a", 2)
	broken := func(l checked.Folder, files ...string) checked.Folder {
		for i, file := range files {
			l.Problems = append(l.Problems, state.Problem{Origin: state.Origin{File: file, Line: len(l.Set.Items()) + i + 1}, Message: "it is misspelled"})
		}
		return l
	}
	tests := map[string]struct {
		mergeBase, base, head checked.Folder
		want, blamed, old     []string
		foretold              []string
	}{
		"one that the base mended keeps nothing from being deleted": {
			broken(loaded(a, c), "b.yaml"), loaded(a, b, c), broken(loaded(a), "b.yaml"), []string{"delete c"}, nil, nil, []string{"c"},
		},
		"one that the base made hides what the head never touched": {
			loaded(a, b), broken(loaded(a), "b.yaml"), loaded(heavier, b), []string{"update a"}, nil, []string{"b.yaml"}, []string{"a"},
		},
		"one that the head mends is gone": {
			broken(loaded(a), "b.yaml"), broken(loaded(a), "b.yaml"), loaded(a, b), []string{"create b"}, nil, nil, []string{"b"},
		},
		"one that the head makes hides what it seems to take away, and is its own": {
			loaded(a, b), loaded(a, b), broken(loaded(heavier), "b.yaml"), []string{"update a"}, []string{"b.yaml"}, nil, []string{"a"},
		},
		"one that the head makes while it mends another hides as well": {
			broken(loaded(a, b), "c.yaml"), broken(loaded(a, b), "c.yaml"), broken(loaded(a, c), "b.yaml"), []string{"create c"}, []string{"b.yaml"}, nil, []string{"c"},
		},
		"one that all have is nobody's, and nothing is deleted": {
			broken(loaded(a, c), "b.yaml"), broken(loaded(a, c), "b.yaml"), broken(loaded(a), "b.yaml"), []string{"delete c compared"}, nil, []string{"b.yaml"}, nil,
		},
		"one that both made is the base's": {
			loaded(a, b), broken(loaded(a), "b.yaml"), broken(loaded(heavier), "b.yaml"), []string{"update a"}, nil, []string{"b.yaml"}, []string{"a"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var foretold []string
			out := steps{mergeBase: tt.mergeBase, base: tt.base, head: tt.head, live: liveItems(tt.base.Set.Items()...), forecast: func(_ context.Context, _, _ state.Set, changes []plan.Change) (*provision.Forecast, error) {
				for _, p := range forecasting.Pools(changes) {
					foretold = append(foretold, p.Key.Name)
				}
				return &provision.Forecast{}, nil
			}}.preview(t)
			var blamed, old []string
			for _, p := range out.Problems {
				blamed = append(blamed, p.File)
			}
			for _, g := range out.GuardResults {
				if g.Rule == "lint" && g.Result == "warning" {
					_, file, _ := strings.Cut(g.Text, "the first: ")
					file, _, _ = strings.Cut(file, ":")
					old = append(old, file)
				}
			}
			got := [][]string{changeLines(out), blamed, old, foretold}
			if diff := cmp.Diff([][]string{tt.want, tt.blamed, tt.old, tt.foretold}, got); diff != "" {
				t.Errorf("changes, blamed, old and foretold (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdviceAndRefusalsAreThoseThatTheStepBrings(t *testing.T) {
	a, heavier := poolItem("a", 1), poolItem("a", 2)
	advised := func(l checked.Folder, texts ...string) checked.Folder {
		for _, text := range texts {
			l.Notes = append(l.Notes, plan.Note{Key: a.Key, Severity: finding.Warning, Text: text})
			l.Refused = append(l.Refused, state.Problem{Origin: state.Origin{File: text + ".yaml", Line: 1}, Message: a.Key.String() + ": " + text})
		}
		return l
	}
	out := steps{
		mergeBase: advised(loaded(a), "known"), base: advised(loaded(a), "known", "newer"), head: advised(loaded(heavier), "known", "mine"),
		live: liveItems(a), forecast: func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) {
			return &provision.Forecast{}, nil
		},
	}.preview(t)
	var notes, refused []string
	for _, n := range out.Notes {
		notes = append(notes, n.Text)
	}
	for _, p := range out.Problems {
		refused = append(refused, p.File)
	}
	if diff := cmp.Diff([]string{"mine"}, notes); diff != "" {
		t.Errorf("advice: %s", diff)
	}
	if diff := cmp.Diff([]string{"mine.yaml"}, refused); diff != "" {
		t.Errorf("refusals: %s", diff)
	}
}

func TestAFolderThatCannotBeRenderedStopsAllLaterCommits(t *testing.T) {
	a := poolItem("a", 1)
	blank := checked.Folder{Declared: declared.Declared{Problems: []state.Problem{{Origin: state.Origin{File: "kustomization.yaml"}, Message: "kustomize: no such file"}}}}
	out := steps{
		mergeBase: loaded(a), base: loaded(a), head: blank,
		live: liveItems(a), forecast: func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) {
			return &provision.Forecast{}, nil
		},
	}.preview(t)
	if len(out.Changes) != 0 || len(out.GuardResults) != 1 || !strings.Contains(out.GuardResults[0].Text, "nor any later commit is applied") {
		t.Errorf("changes %v, guards %v", out.Changes, out.GuardResults)
	}
}

func TestADeletionIsHeldByTheRuleThatHoldsIt(t *testing.T) {
	a, b := poolItem("a", 1), poolItem("b", 1)
	out := steps{mergeBase: loaded(a, b), base: loaded(a, b), head: loaded(a), live: liveItems(a, b)}.preview(t)
	want := []report.GuardResult{{Rule: "DeletionLosses", Result: "held", Text: "deleting NodePool.karpenter.sh/b: 3 nodes, 7 pods"}}
	if diff := guardsDiffer(t, want, out); diff != "" {
		t.Errorf("below every percentage (-want +got):\n%s", diff)
	}
	out = steps{mergeBase: loaded(a, b), base: loaded(a, b), head: loaded(), live: liveItems(a, b)}.preview(t)
	want = []report.GuardResult{
		{Rule: "MaxPrunePercent", Result: "held", Text: "would delete all 2 objects (guard.maxPrunePercent)"},
		{Rule: "DeletionLosses", Result: "held", Text: "deleting NodePool.karpenter.sh/a: 3 nodes, 7 pods"},
		{Rule: "DeletionLosses", Result: "held", Text: "deleting NodePool.karpenter.sh/b: 3 nodes, 7 pods"},
	}
	if diff := guardsDiffer(t, want, out); diff != "" {
		t.Errorf("all of them, and each for what goes with it (-want +got):\n%s", diff)
	}
}

func TestWhatAStepKeepsSecretIsQuotedNowhere(t *testing.T) {
	a, heavier := poolItem("a", 1), poolItem("a", 2)
	secret := state.Item{Key: state.Key{Target: "kubernetes", Kind: "Secret", Name: "s"}, Version: "v1", Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s"}, "stringData": map[string]any{"password": "swordfish"},
	}}
	out := steps{
		mergeBase: loaded(a), base: loaded(a), head: loaded(heavier, secret), live: liveItems(a), sync: v1alpha1.SyncSpec{Guard: v1alpha1.Guard{MaxNodesReplaced: new(int32(1))}},
		forecast: func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) {
			return nil, errors.New("reading swordfish")
		},
	}.preview(t)
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if strings.Contains(text, "swordfish") || strings.Count(text, "reading (masked)") < 2 || len(out.GuardResults) != 1 || len(out.Forecast.Unknown) != 1 {
		t.Errorf("%s", text)
	}
}

func TestTheNodesThatTheBaseHasYetToReplaceCountAsWell(t *testing.T) {
	a, b, heavier := poolItem("a", 1), poolItem("b", 1), poolItem("a", 2)
	lost := func(_ context.Context, _, _ state.Set, changes []plan.Change) (*provision.Forecast, error) {
		f := &provision.Forecast{}
		for _, p := range forecasting.Pools(changes) {
			f.Replaced = append(f.Replaced, provision.Node{Pool: p.Key.Name}, provision.Node{Pool: p.Key.Name})
		}
		return f, nil
	}
	tests := map[string]struct {
		limit int32
		live  state.Set
		want  []report.GuardResult
		holds int
	}{
		"nothing waits, and the limit is kept": {2, liveItems(a, b), []report.GuardResult{
			{Rule: "MaxNodesReplaced", Result: "ok", Text: "at most 2 nodes may be replaced without confirmation"},
		}, 0},
		"nothing waits, and the change is beyond the limit": {1, liveItems(a, b), []report.GuardResult{
			{Rule: "MaxNodesReplaced", Result: "held", Text: "would replace 2 nodes; guard.maxNodesReplaced is 1"},
		}, 1},
		"another pool waits, and both are beyond the limit": {3, liveItems(a, poolItem("b", 7)), []report.GuardResult{
			{Rule: "MaxNodesReplaced", Result: "held", Text: "would replace 4 nodes; guard.maxNodesReplaced is 3"},
			{Rule: "MaxNodesReplaced", Result: "warning", Text: "the nodes of what the base branch declares and is not made yet count as well: NodePool b"},
		}, 1},
		"another pool waits, and both are within the limit": {4, liveItems(a, poolItem("b", 7)), []report.GuardResult{
			{Rule: "MaxNodesReplaced", Result: "ok", Text: "at most 4 nodes may be replaced without confirmation"},
			{Rule: "MaxNodesReplaced", Result: "warning", Text: "the nodes of what the base branch declares and is not made yet count as well: NodePool b"},
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := tt.live.Items()
			for i := range live {
				live[i].Applied = "of another revision" // What differs is asked for, and no drift.
			}
			out := steps{
				mergeBase: loaded(a, b), base: loaded(a, b), head: loaded(heavier, b), live: state.NewSet(live...), forecast: lost,
				sync: v1alpha1.SyncSpec{Guard: v1alpha1.Guard{MaxNodesReplaced: &tt.limit}},
			}.preview(t)
			if diff := guardsDiffer(t, tt.want, out); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(out.Holds) != tt.holds || len(out.Changes) != 1 || len(out.Forecast.Replaced) != 2 {
				t.Errorf("the change alone is reported: %+v, holds %+v", changeLines(out), out.Holds)
			}
		})
	}
}

func TestAStepThatExceedsAQuotaIsHeldInItsReport(t *testing.T) {
	quota := state.Item{Key: state.Key{Target: "aws", Group: "servicequotas", Kind: "Quota", Name: "Running On-Demand G and VT instances"}, Object: map[string]any{}}
	read := quota
	read.Quota = &state.Quota{Code: "L-DB2E81BA", LimitVCPUs: 64}
	pool := func(gpus int64) state.Item {
		in := func(key, value string) any {
			return map[string]any{"key": key, "operator": "In", "values": []any{value}}
		}
		out := poolItem("a", 1)
		out.Object = map[string]any{"spec": map[string]any{"limits": map[string]any{"nvidia.com/gpu": gpus}, "template": map[string]any{"spec": map[string]any{"requirements": []any{
			in("node.kubernetes.io/instance-type", "g5.xlarge"), in("karpenter.sh/capacity-type", "on-demand")}}}}}
		return out
	}
	const held = "NodePool a needs at least 68 vCPUs, the quota allows 64 (guard.quota): request a quota increase (quota code L-DB2E81BA) or lower a limit"
	for _, tt := range []struct {
		name       string
		policy     v1alpha1.QuotaPolicy
		base, head int64
		want       []report.GuardResult
	}{
		{"it raises a limit beyond the quota", v1alpha1.QuotaHold, 10, 17, []report.GuardResult{{Rule: "QuotaExceeded", Result: "held", Text: held}}},
		{"it lowers one that is beyond the quota", v1alpha1.QuotaHold, 20, 17, nil},
		{"the guard warns", v1alpha1.QuotaWarn, 10, 17, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := steps{
				mergeBase: loaded(pool(tt.base), quota), base: loaded(pool(tt.base), quota), head: loaded(pool(tt.head), quota),
				live: state.NewSet(append(liveItems(pool(tt.base)).Items(), read)...), sync: v1alpha1.SyncSpec{Guard: v1alpha1.Guard{Quota: tt.policy}},
			}.preview(t)
			if diff := guardsDiffer(t, tt.want, out); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(out.Holds) != len(tt.want) || len(out.Changes) != 1 {
				t.Errorf("changes %+v, holds %+v", changeLines(out), out.Holds)
			}
		})
	}
}

func TestAMergeOfTwoRenderingsIsUncertain(t *testing.T) {
	a, b, heavier := poolItem("a", 1), poolItem("b", 1), poolItem("a", 2)
	tests := map[string]struct {
		base, head  []state.Item
		files       [3]folderFiles
		wantsReport bool
	}{
		"where both sides changed a kustomized folder": {[]state.Item{heavier}, []state.Item{a, b}, [3]folderFiles{{"1", true}, {"0", true}, {"2", true}}, true},
		"where only files of it changed":               {[]state.Item{a}, []state.Item{a, b}, [3]folderFiles{{"1", true}, {"0", true}, {"2", true}}, true},
		"where both changed what lies beside it":       {[]state.Item{heavier}, []state.Item{a, b}, [3]folderFiles{{"0", true}, {"0", true}, {"0", true}}, true},
		"not where only the head did":                  {[]state.Item{a}, []state.Item{a, b}, [3]folderFiles{{"0", true}, {"0", true}, {"2", true}}, false},
		"not where only the base did":                  {[]state.Item{heavier}, []state.Item{a}, [3]folderFiles{{"1", true}, {"0", true}, {"0", true}}, false},
		"not in a folder of plain manifests":           {[]state.Item{heavier}, []state.Item{a, b}, [3]folderFiles{{"1", false}, {"0", false}, {"2", false}}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := steps{mergeBase: loaded(a), base: loaded(tt.base...), head: loaded(tt.head...), live: liveItems(tt.base...), folders: tt.files}.preview(t)
			warned := slices.ContainsFunc(out.GuardResults, func(g report.GuardResult) bool { return g.Rule == "merge" && g.Result == "warning" })
			if warned != tt.wantsReport {
				t.Errorf("%+v", out.GuardResults)
			}
		})
	}
}

func TestAReportIsAsOldAsItsOldestRead(t *testing.T) {
	a := poolItem("a", 1)
	p := steps{mergeBase: loaded(a), base: loaded(a), head: loaded(a), live: liveItems(a)}.proposer()
	p.Targets = []reconciler.NamedTarget{{Name: "kubernetes", Target: Cached(fixedTarget{liveItems(a)}, time.Hour, p.ObservedAt, time.Now)}}
	start := time.Now()
	later := start.Add(time.Minute)
	p.Now = func() time.Time { return later }
	var reported [2]time.Time
	for i := range reported {
		out, _, err := p.Preview(t.Context(), RevisionRange{Comparison: between(), BaseName: "main", Path: "p", Sync: &v1alpha1.Sync{}})
		if err != nil {
			t.Fatal(err)
		}
		reported[i] = out.Provenance.Observed
	}
	if reported[0].Before(start) || reported[0].After(time.Now()) || !reported[1].Equal(reported[0]) {
		t.Errorf("looked at once, at %s, told are %v", start, reported)
	}
}

// guardsDiffer compares the guards of a report with those that are desired, but for their keys. A guard that
// holds changes has the key of a hold with its rule.
func guardsDiffer(t *testing.T, want []report.GuardResult, got report.Report) string {
	t.Helper()
	for _, g := range got.GuardResults {
		of := slices.IndexFunc(got.Holds, func(h report.Hold) bool { return h.Key == g.Key })
		if holds := g.Result == report.GuardHeld && g.Rule != "lint"; holds != (of >= 0) || holds && string(got.Holds[of].Rule) != g.Rule {
			t.Errorf("guard %+v is not that of one of %+v", g, got.Holds)
		}
	}
	return cmp.Diff(want, got.GuardResults, cmpopts.IgnoreFields(report.GuardResult{}, "Key"))
}
