package benchmark

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/worktree"
	"github.com/poolwright/poolwright/internal/golden"
)

func TestARepositoryDeclaresItsObjectsInKustomizationsOfTwoHundred(t *testing.T) {
	for name, c := range map[string]struct{ objects, units, files int }{
		"one kustomization":             {200, 1, 11},
		"several":                       {600, 3, 33},
		"one that is not full":          {250, 2, 15},
		"one file that is not full":     {10, 1, 2},
		"a number that no file divides": {205, 2, 13},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Repository{Namespace: "apps", Objects: c.objects, tree: &worktree.Tree{Dir: t.TempDir()}}
			if err := r.write(); err != nil {
				t.Fatal(err)
			}
			units, files, objects := map[string]bool{}, 0, map[string]int{}
			err := filepath.WalkDir(r.tree.Dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				units[filepath.Dir(path)] = true
				files++
				content, err := os.ReadFile(path)
				if err != nil || e.Name() == "kustomization.yaml" {
					return err
				}
				for doc := range strings.SplitSeq(strings.TrimPrefix(string(content), "---\n"), "---\n") {
					var object unstructured.Unstructured
					if err := yaml.Unmarshal([]byte(doc), &object.Object); err != nil {
						return err
					}
					if object.GetNamespace() != "apps" {
						t.Errorf("%s is in namespace %q", object.GetName(), object.GetNamespace())
					}
					objects[object.GetName()]++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]int{c.units, c.files, c.objects}, []int{len(units), files, len(objects)}); d != "" {
				t.Errorf("units, files and names (-want +got):\n%s", d)
			}
			if len(r.units()) != c.units {
				t.Errorf("%d units are reported", len(r.units()))
			}
		})
	}
}

func TestTheObjectsAreOfFiveKindsInTheirProportions(t *testing.T) {
	r, kinds := &Repository{Namespace: "apps", Objects: 200}, map[string]int{}
	for i := range r.Objects {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(r.manifest(i, "v1")), &object.Object); err != nil {
			t.Fatal(err)
		}
		kinds[object.GetKind()]++
	}
	want := map[string]int{"ConfigMap": 140, "Deployment": 20, "ServiceAccount": 20, "Role": 10, "Example": 10}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAChangeChangesTheFirstObjectAlone(t *testing.T) {
	r := &Repository{Namespace: "apps", Objects: 40}
	for first, want := range map[int]bool{0: true, 20: true} {
		before, after := strings.Split(r.manifests(first, "v1"), "---\n"), strings.Split(r.manifests(first, "v2"), "---\n")
		changed := 0
		for i := range before {
			if before[i] != after[i] {
				changed++
			}
		}
		if (changed == 1) != want {
			t.Errorf("from object %d on, %d objects have changed", first, changed)
		}
	}
}

func TestStatistics(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   Statistics
	}{
		"of nothing":            {nil, Statistics{}},
		"of one":                {[]float64{2}, Statistics{2, 2, 2}},
		"of three values":       {[]float64{9, 1, 4}, Statistics{4, 1, 9}},
		"of four values":        {[]float64{9, 1, 4, 2}, Statistics{3, 1, 9}},
		"of values in disorder": {[]float64{5, 5, 1, 7, 3}, Statistics{5, 1, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, statistics(c.values)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestCountersAreAddedUp(t *testing.T) {
	const text = `# HELP rest_client_requests_total Number of HTTP requests
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="h",method="GET"} 41
rest_client_requests_total{code="200",host="h",method="PATCH"} 1e+03
rest_client_requests_total_of_others{code="200"} 7
client_go_request_total{code="200",method="GET"} 5
other{a="b c"} 1
`
	for name, c := range map[string]struct {
		names []string
		want  int
	}{
		"of one name":   {[]string{"rest_client_requests_total"}, 1041},
		"of two names":  {[]string{"rest_client_requests_total", "client_go_request_total"}, 1046},
		"of no counter": {[]string{"absent"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := sumOf(strings.NewReader(text), c.names...)
			if err != nil || got != c.want {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
	if _, err := sumOf(strings.NewReader("a{} x\n"), "a"); err == nil {
		t.Error("what is no number was added")
	}
}

// usages are made up.
func usages(wall ...time.Duration) []Usage {
	var all []Usage
	for i, w := range wall {
		all = append(all, Usage{Wall: w, CPU: w / 2, Requests: 10 * (i + 1), Peak: int64(i+90) << 20, Private: int64(i+60) << 20})
	}
	return all
}

func TestPrivateMemoryIsThatOfTheSampledOnly(t *testing.T) {
	all := []Usage{{CPU: time.Second, Private: 60 << 20}, {CPU: time.Second}, {CPU: time.Second}}
	for _, column := range columns() {
		if got, want := len(column.measured(all)), map[bool]int{true: 1, false: 3}[column.sampled]; got != want {
			t.Errorf("%s has %d values, want %d", column.name, got, want)
		}
	}
	if all[1].Private != 0 || len(all) != 3 {
		t.Error("the usages have changed")
	}
}

func TestThePageHasMediansSpreadsAndRatios(t *testing.T) {
	ours := Round{FirstApply: usages(time.Second), NoChange: usages(time.Second/10, time.Second/5), OneChange: usages(time.Second / 2), LiveEdit: usages(20 * time.Millisecond)}
	flux := Round{FirstApply: usages(3 * time.Second), NoChange: usages(time.Second, 3*time.Second), OneChange: usages(2 * time.Second), LiveEdit: usages(time.Second)}
	c := newComparison(2000, []System{{Name: "Poolwright"}, {Name: "Flux"}})
	c.Rounds = map[string][]Round{"Poolwright": {ours, ours}, "Flux": {flux, flux}}
	c.Bare, c.Load = []time.Duration{time.Second, 800 * time.Millisecond}, []float64{1.5, 2}
	node := func(launch, end time.Duration) NodeUsage {
		return NodeUsage{Launch: launch, Terminate: end, Usage: usages(time.Minute)[0]}
	}
	page := &Page{Machine: "a machine", Processors: 2, Versions: "some versions", Head: "# Head\n", Foot: "## Foot\n",
		Comparisons: []*Comparison{c, newComparison(10_000, []System{{Name: "Poolwright"}})}}
	page.AddNodes(20, []NodeSystem{{Name: "Poolwright"}, {Name: "Karpenter"}})
	nodes := page.Nodes
	nodes.Single["Poolwright"] = []NodeUsage{node(100*time.Millisecond, 6*time.Second), node(200*time.Millisecond, 7*time.Second)}
	nodes.Single["Karpenter"] = []NodeUsage{node(time.Second, 26*time.Second), node(1100*time.Millisecond, 20*time.Second)}
	nodes.Owned["Poolwright"], nodes.Owned["Karpenter"] = []NodeUsage{node(150*time.Millisecond, 0)}, []NodeUsage{node(1200*time.Millisecond, 0)}
	nodes.Together["Poolwright"], nodes.Together["Karpenter"] = []NodeUsage{node(0, 7*time.Second)}, []NodeUsage{node(0, 28*time.Second)}
	nodes.Load = []float64{0.5, 12}
	var out bytes.Buffer
	if err := page.Write(&out); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/page.md", out.Bytes())
}

func TestARunGoesOnWithWhatAnEarlierOneMeasured(t *testing.T) {
	systems := []System{{Name: "Poolwright"}, {Name: "Flux"}}
	page := &Page{}
	first := page.Comparison(200, systems)
	first.Load = []float64{1}
	raw, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	var again Page
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, again.Comparison(200, systems)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := again.Comparison(200, systems[:1]); len(got.Load) != 0 || len(again.Comparisons) != 1 {
		t.Errorf("with other systems %d rounds are kept, and there are %d comparisons", len(got.Load), len(again.Comparisons))
	}
	if got := again.Comparison(2000, systems); got.Objects != 2000 || len(again.Comparisons) != 2 {
		t.Errorf("another number of objects is %d, of %d", got.Objects, len(again.Comparisons))
	}
}

func TestTheLoadAverageOfThisMachineIsRead(t *testing.T) {
	if average, err := Load(); err != nil || average < 0 {
		t.Errorf("got %v, %v", average, err)
	}
}

func TestAPageThatCannotBeWrittenIsAnError(t *testing.T) {
	if err := (&Page{}).Write(full{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

type full struct{}

var errFull = errors.New("the disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestThousandsHaveCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 200: "200", 2000: "2,000", 10_005: "10,005", 1_234_567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}

func TestAProcessIsAwaitedUntilItLeads(t *testing.T) {
	name := types.NamespacedName{Namespace: "system", Name: "lease"}
	if err := leads(t.Context(), fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), name); err == nil {
		t.Error("nobody leads without a lease")
	}
}

func TestAnObjectIsAwaitedByItsWatch(t *testing.T) {
	admin := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	e := &Environment{Admin: admin, Timeout: time.Minute}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m"}}
	found := make(chan error, 1)
	go func() {
		found <- awaitObject(t.Context(), e, object.DeepCopy(), &corev1.ConfigMapList{}, func(m *corev1.ConfigMap) error {
			if m.Data["b"] != "v2" {
				return errors.New("not yet")
			}
			return nil
		})
	}()
	written := object.DeepCopy()
	if err := admin.Create(t.Context(), written); err != nil {
		t.Fatal(err)
	}
	// Until the watch has the value, which it may have begun after any of these writes.
	for n := 0; ; n++ {
		select {
		case err := <-found:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		written.Data = map[string]string{"b": "v2"}
		written.Labels = map[string]string{"n": thousands(n)}
		if err := admin.Update(t.Context(), written); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAWaitEndsWithItsTimeout(t *testing.T) {
	why := errors.New("it is not there")
	e := &Environment{Timeout: time.Nanosecond}
	if err := e.await(t.Context(), "it is there", func() error { return why }); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	calls := 0
	e.Timeout = time.Minute
	err := e.await(t.Context(), "it is there", func() error {
		if calls++; calls < 3 {
			return why
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}

func TestAKustomizationIsReadyByItsCondition(t *testing.T) {
	f := &Flux{Namespace: "flux-system"}
	for status, want := range map[string]bool{"True": true, "False": false, "Unknown": false} {
		object := f.object(kustomizations, "k", nil)
		object.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Reconciling", "status": "True"}, map[string]any{"type": "Ready", "status": status}}}
		if got := isReady(object); got != want {
			t.Errorf("%s: %v", status, got)
		}
	}
	if isReady(f.object(kustomizations, "k", nil)) {
		t.Error("one without a status is ready")
	}
}

func TestARequestIsAnAnnotation(t *testing.T) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	object.SetNamespace("n")
	object.SetName("m")
	admin := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(object).Build()
	token, err := request(t.Context(), admin, object.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	var now corev1.ConfigMap
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(object), &now); err != nil {
		t.Fatal(err)
	}
	if got := now.Annotations["reconcile.fluxcd.io/requestedAt"]; got != token || token == "" {
		t.Errorf("%q was returned and %q written", token, got)
	}
}

func TestTheUsageOfThisProcess(t *testing.T) {
	if private(os.Getpid()) == 0 {
		t.Error("this process has no memory")
	}
	if private(-1) != 0 {
		t.Error("a process that is not there has some")
	}
	if _, err := stat(-1); err == nil {
		t.Error("a process that is not there was read")
	}
	address, err := freeAddress(t.Context())
	if err != nil || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("got %q, %v", address, err)
	}
	if _, err := sentRequests(t.Context(), address); err == nil {
		t.Error("metrics were read where nobody serves any")
	}
}
