package child

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// step is two snapshots.
type step struct {
	before, after provision.ClusterSnapshot
	settings      engine.Settings
}

// busy is a pool of three nodes with pods, one of them protected.
func busy(tb testing.TB, more ...string) provision.ClusterSnapshot {
	f := declare(tb, append([]string{gpuPool, gpuClass, agents}, more...)...)
	for i, name := range []string{"a", "b", "c"} {
		node := launch(&f, 0, name, time.Duration(i+1)*time.Hour)
		bind(&f, "train-"+name, node.Name, "1", "1")
	}
	f.Pods[0].Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	protect(&f, "train", 0)
	bind(&f, "waits-1", "", "2", "1")
	bind(&f, "waits-2", "", "2", "4")
	return f
}

func steps(t *testing.T) map[string]step {
	t.Helper()
	with := func(before provision.ClusterSnapshot, change func(after *provision.ClusterSnapshot)) step {
		after := before
		after.NodePools, after.NodeClasses = slices.Clone(before.NodePools), slices.Clone(before.NodeClasses)
		for i := range after.NodePools {
			after.NodePools[i] = after.NodePools[i].DeepCopy()
		}
		for i := range after.NodeClasses {
			after.NodeClasses[i] = after.NodeClasses[i].DeepCopy()
		}
		change(&after)
		return step{before: before, after: after, settings: settings()}
	}
	invalid := with(busy(t), func(f *provision.ClusterSnapshot) { f.NodePools = f.NodePools[:0] })
	invalid.settings.Scheduling.PreferencePolicy, invalid.settings.Scheduling.MinValuesPolicy = "Ignore", "BestEffort"
	invalid.settings.FeatureGates["SpotToSpotConsolidation"] = true
	return map[string]step{
		"nothing changes": with(busy(t), func(*provision.ClusterSnapshot) {}),
		"a class changes": with(busy(t), func(f *provision.ClusterSnapshot) { f.NodeClasses[0].Spec.Tags = map[string]string{"a": "b"} }),
		"a pool requires another type": with(busy(t), func(f *provision.ClusterSnapshot) {
			f.NodePools[0].Spec.Template.Spec.Requirements[1].Values = []string{"g5.xlarge"}
		}),
		"a limit grows": with(busy(t), func(f *provision.ClusterSnapshot) {
			f.NodePools[0].Spec.Limits = karpv1.Limits{"nvidia.com/gpu": resource.MustParse("64")}
		}),
		"a pool goes, under other settings": invalid,
		"an overlay comes":                  with(busy(t), func(f *provision.ClusterSnapshot) { f.Overlays = declare(t, pricierOverlay).Overlays }),
		"a workload comes":                  with(busy(t), func(f *provision.ClusterSnapshot) { f.Workloads = declare(t, deployment).Workloads }),
		"other pods wait, and no daemons": with(busy(t), func(f *provision.ClusterSnapshot) {
			f.Pods, f.DaemonSets = nil, []*appsv1.DaemonSet{}
			bind(f, "new-1", "", "500m", "1")
		}),
		"no pods after that are declared to be none": with(busy(t), func(f *provision.ClusterSnapshot) { f.Pods = []*corev1.Pod{} }),
		"a class that is not there":                  with(busy(t), func(f *provision.ClusterSnapshot) { f.NodeClasses = nil }),
		"nothing was observed":                       {before: declare(t), after: declare(t, gpuPool, gpuClass), settings: settings()},
		"an error: no region":                        {before: provision.ClusterSnapshot{}, after: declare(t, gpuPool), settings: settings()},
	}
}

func TestAChildForecastsWhatThisProcessForecasts(t *testing.T) {
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	r := &Runner{}
	for name, s := range steps(t) {
		t.Run(name, func(t *testing.T) {
			want, wantErr := simulate.Compare(engine.Offline(t.Context(), s.settings), s.before, s.after, types)
			got, err := r.Forecast(t.Context(), s.settings, s.before, s.after)
			if d := cmp.Diff(classed(wantErr), classed(err)); d != "" {
				t.Fatal(d)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			// What a person is shown is this.
			if d := cmp.Diff(written(t, want), written(t, got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func written(t *testing.T, f provision.Forecast) string {
	t.Helper()
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// over sends through a buffer instead of a pipe.
func over(tb testing.TB, s step) (step, int) {
	tb.Helper()
	var pipe bytes.Buffer
	if err := send(&writer{to: &pipe, remaining: 1 << 30}, s.settings, s.before, s.after); err != nil {
		tb.Fatal(err)
	}
	size := pipe.Len()
	in := &reader{from: &pipe, remaining: 1 << 30}
	var got step
	var err error
	if got.settings, got.before, got.after, err = receive(in.expect); err != nil {
		tb.Fatal(err)
	}
	return got, size
}

func TestSettingsAndSnapshotsArriveInFull(t *testing.T) {
	full := busy(t, pricierOverlay, deployment)
	full.Cluster.PreferencePolicy = "Ignore"
	full.CapacityReservations = map[string][]provision.CapacityReservation{"gpu": {{
		CapacityReservation: awsv1.CapacityReservation{ID: "cr-1", InstanceType: "g5.xlarge", AvailabilityZone: "us-east-1a", ReservationType: awsv1.CapacityReservationTypeCapacityBlock},
		Available:           2,
	}}}
	s := step{before: full, after: provision.ClusterSnapshot{Pods: []*corev1.Pod{full.Pods[2], nil}, Nodes: full.Nodes}}
	fill(reflect.ValueOf(&s.settings).Elem())
	got, _ := over(t, s)
	if d := cmp.Diff(s.settings, got.settings); d != "" {
		t.Error(d)
	}
	for i := range reflect.TypeFor[provision.ClusterSnapshot]().NumField() {
		name := reflect.TypeFor[provision.ClusterSnapshot]().Field(i).Name
		if name != "RuntimeClasses" && reflect.ValueOf(full).Field(i).IsZero() {
			t.Errorf("the test's snapshot has no %s", name)
		}
	}
	opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreTypes([]struct{}{}), cmp.FilterPath(func(p cmp.Path) bool {
		last := p.Last().String()
		return last == ".ManagedFields" || last == ".TypeMeta"
	}, cmp.Ignore())}
	want := s.before
	want.Pods = nil
	for _, pod := range s.before.Pods {
		id, shape := reduce.Split(pod)
		want.Pods = append(want.Pods, id.Of(shape))
	}
	if d := cmp.Diff(want, got.before, opts); d != "" {
		t.Error(d)
	}
	if len(got.before.Nodes[0].ManagedFields)+len(got.before.NodeClaims[0].ManagedFields) > 0 {
		t.Error("managedFields were sent")
	}
	if len(full.Nodes[0].ManagedFields) == 0 {
		t.Error("the given snapshot was changed")
	}
	if got.after.Pods[0] != got.before.Pods[2] || got.after.Pods[1] != nil || got.after.Nodes[0] != got.before.Nodes[0] {
		t.Error("what both snapshots hold is not the same")
	}
	if got.after.DaemonSets != nil || got.after.NodePools != nil {
		t.Error("what is nil is not nil any more")
	}
}

// fill gives every field another value than its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1234567)
	case reflect.Float64:
		v.SetFloat(0.0751)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]bool{"A": true, "B": false}))
	default:
		panic("settings have a field of a new kind: " + v.Kind().String())
	}
}

// largeChange is a change of tags for 500 nodes, each of which is replaced.
func largeChange(tb testing.TB) step {
	tb.Helper()
	s := step{before: large(tb), settings: settings()}
	s.after = s.before
	s.after.NodeClasses = large(tb).NodeClasses
	for _, c := range s.after.NodeClasses {
		c.Spec.Tags = map[string]string{"cost": "1"}
	}
	return s
}

func TestAChildForecastsALargeClusterAsItsParentWould(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it takes seconds")
	}
	s := largeChange(t)
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	want, err := simulate.Compare(engine.Offline(t.Context(), s.settings), s.before, s.after, types)
	if err != nil || len(want.Replaced) != 500 {
		t.Fatalf("%d nodes, %v", len(want.Replaced), err)
	}
	got, err := (&Runner{}).Forecast(t.Context(), s.settings, s.before, s.after)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(written(t, want), written(t, got)); d != "" {
		t.Error(d)
	}
}

// BenchmarkForecastInAChild compares what a large forecast takes in a child, its start
// and what is sent included, with the same in process.
func BenchmarkForecastInAChild(b *testing.B) {
	s := largeChange(b)
	types, err := catalog.Load()
	if err != nil {
		b.Fatal(err)
	}
	r := &Runner{}
	var here, there time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := simulate.Compare(engine.Offline(b.Context(), s.settings), s.before, s.after, types); err != nil {
			b.Fatal(err)
		}
		here += time.Since(begin)
		begin = time.Now()
		if _, err := r.Forecast(b.Context(), s.settings, s.before, s.after); err != nil {
			b.Fatal(err)
		}
		there += time.Since(begin)
	}
	b.ReportMetric(float64(there)/float64(here), "child/in-process")
}

func TestPricesAndOfferingsOfAWSArriveWithBothSnapshots(t *testing.T) {
	listed := func(usd float64) *pricelist.List {
		return &pricelist.List{Region: "us-east-1", OnDemand: map[string]float64{"g5.xlarge": usd}, OnDemandAt: time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC),
			Refused: []pricelist.Refusal{{InstanceType: "g5.xlarge", Zone: "us-east-1a", CapacityType: "spot", Code: "InsufficientInstanceCapacity", At: time.Date(2026, 11, 24, 1, 0, 0, 0, time.UTC)}}}
	}
	one, other := listed(1), listed(2)
	for _, test := range []struct {
		name          string
		before, after *pricelist.List
	}{
		{"the same", one, one},
		{"others", one, other},
		{"none before", nil, one},
		{"none", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := func(of *pricelist.List) provision.ClusterSnapshot {
				return provision.ClusterSnapshot{Cluster: provision.Cluster{Region: "us-east-1", Offerings: of}}
			}
			got, _ := over(t, step{before: snapshot(test.before), after: snapshot(test.after)})
			if diff := cmp.Diff([]*pricelist.List{test.before, test.after}, []*pricelist.List{got.before.Cluster.Offerings, got.after.Cluster.Offerings}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if same := got.before.Cluster.Offerings == got.after.Cluster.Offerings; same != (test.before == test.after) {
				t.Errorf("sent once: %t", same)
			}
		})
	}
}
