package cluster

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func TestDesired(t *testing.T) {
	old := reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.CreationTimestamp = metav1.Unix(1, 0) })
	renamed := reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
		c.Name, c.CreationTimestamp, c.Spec.Engine.Mode = "a-newer-one", metav1.Unix(2, 0), v1alpha1.EngineOff
	})
	for name, c := range map[string]struct {
		objects     []client.Object
		on, invalid bool
		reason      string
	}{
		"without a Cluster object the engine is off":       {reason: "NoCluster"},
		"the default is the embedded engine":               {objects: []client.Object{reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Spec.Engine.Mode = "" })}, on: true},
		"Off is off":                                       {objects: []client.Object{reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Spec.Engine.Mode = v1alpha1.EngineOff })}, reason: "Off"},
		"External leaves nodes to another Karpenter":       {objects: []client.Object{reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Spec.Engine.Mode = v1alpha1.EngineExternal })}, reason: "External"},
		"of two Cluster objects the oldest decides":        {objects: []client.Object{renamed, old}, on: true},
		"the next oldest takes over from one that is gone": {objects: []client.Object{renamed}, reason: "Off"},
		"settings that cannot work keep the engine as is":  {objects: []client.Object{reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Spec.Engine.FeatureGates = map[string]bool{"Nonsense": true} })}, invalid: true, reason: "InvalidSettings"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadDesired(t.Context(), reconcilertest.Client(t, c.objects...))
			if err != nil {
				t.Fatal(err)
			}
			if got.EngineOn != c.on || got.Invalid != c.invalid || got.Reason != c.reason {
				t.Errorf("on %t, invalid %t, reason %q (%s)", got.EngineOn, got.Invalid, got.Reason, got.Message)
			}
		})
	}
}

func TestTheEnginesConditionIsOnlyForTheNewestSpec(t *testing.T) {
	got := func(generation int64) *v1alpha1.Cluster {
		return reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
			c.Generation = 2
			c.Status.Conditions = []metav1.Condition{
				{Type: "EngineBlocked", Status: metav1.ConditionFalse, Reason: "NotBlocked", ObservedGeneration: generation},
				{Type: "Ready", Status: metav1.ConditionTrue, Reason: EngineRunning, ObservedGeneration: generation},
			}
		})
	}
	for name, c := range map[string]struct {
		objects []client.Object
		runs    bool
	}{
		"without a Cluster nothing is reported":   {},
		"nothing was reported yet":                {objects: []client.Object{reconcilertest.Cluster(nil)}},
		"what was reported of an older spec":      {objects: []client.Object{got(1)}},
		"what was reported of the one that is it": {objects: []client.Object{got(2)}, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Ready(t.Context(), reconcilertest.Client(t, c.objects...))
			if err != nil || (got != nil) != c.runs || got != nil && got.Reason != EngineRunning {
				t.Errorf("condition %+v, %v", got, err)
			}
		})
	}
}

func TestOnlySettingsThatMatterRequireARestart(t *testing.T) {
	base := desiredOf(reconcilertest.Cluster(nil)).hash()
	idle := metav1.Duration{Duration: 200 * time.Millisecond}
	for name, c := range map[string]struct {
		edit func(*v1alpha1.Cluster)
		same bool
	}{
		"a label":                 {func(c *v1alpha1.Cluster) { c.Labels = map[string]string{"a": "b"} }, true},
		"a batch window":          {func(c *v1alpha1.Cluster) { c.Spec.Engine.BatchIdleDuration = &idle }, false},
		"a gate at its default":   {func(c *v1alpha1.Cluster) { c.Spec.Engine.FeatureGates = map[string]bool{"NodeOverlay": true} }, true},
		"a gate":                  {func(c *v1alpha1.Cluster) { c.Spec.Engine.FeatureGates = map[string]bool{"NodeRepair": true} }, false},
		"a queue":                 {func(c *v1alpha1.Cluster) { c.Spec.Engine.InterruptionQueue = "q" }, false},
		"unmet minValues":         {func(c *v1alpha1.Cluster) { c.Spec.Engine.MinValuesPolicy = v1alpha1.MinValuesBestEffort }, false},
		"minValues at default":    {func(c *v1alpha1.Cluster) { c.Spec.Engine.MinValuesPolicy = v1alpha1.MinValuesStrict }, true},
		"reserved interfaces":     {func(c *v1alpha1.Cluster) { c.Spec.Engine.ReservedENIs = 1 }, false},
		"an overhead":             {func(c *v1alpha1.Cluster) { c.Spec.Engine.VMMemoryOverheadPercent = "0.05" }, false},
		"the overhead at default": {func(c *v1alpha1.Cluster) { c.Spec.Engine.VMMemoryOverheadPercent = "0.0750" }, true},
		"a rate at its default":   {func(c *v1alpha1.Cluster) { c.Spec.Engine.KubeClientQPS = 200 }, true},
		"no dry run":              {func(c *v1alpha1.Cluster) { c.Spec.Engine.DisableDryRun = true }, false},
		"a declared queue":        {func(c *v1alpha1.Cluster) { c.Spec.InterruptionQueue = &v1alpha1.InterruptionQueue{} }, false},
		"off":                     {func(c *v1alpha1.Cluster) { c.Spec.Engine.Mode = v1alpha1.EngineOff }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := desiredOf(reconcilertest.Cluster(c.edit)).hash() == base; got != c.same {
				t.Errorf("same life: %t, want %t", got, c.same)
			}
		})
	}
}

func TestTheEngineTakesTheClustersSettingsOfScheduling(t *testing.T) {
	spec := reconcilertest.Cluster(nil).Spec
	stock := EngineSettings(spec)
	if stock.Scheduling.MinValuesPolicy != "Strict" || stock.Nodes.ReservedENIs != 0 || stock.AWS.DisableDryRun || stock.Pace != engine.PaceFast {
		t.Errorf("by default: %+v", stock)
	}
	spec.Engine.MinValuesPolicy, spec.Engine.ReservedENIs, spec.Engine.DisableDryRun = v1alpha1.MinValuesBestEffort, 2, true
	spec.Engine.Pace = v1alpha1.EnginePaceStock
	got := EngineSettings(spec)
	if got.Scheduling.MinValuesPolicy != "BestEffort" || got.Nodes.ReservedENIs != 2 || !got.AWS.DisableDryRun || got.Pace != engine.PaceStock {
		t.Errorf("as declared: %+v", got)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func TestTheEngineReadsTheDeclaredQueue(t *testing.T) {
	for name, c := range map[string]struct{ engine, declared, want string }{
		"by the cluster's name":              {want: "dev"},
		"by its own name":                    {declared: "events", want: "events"},
		"unless the engine is given another": {engine: "mine", declared: "events", want: "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := reconcilertest.Cluster(nil).Spec
			spec.Engine.InterruptionQueue = c.engine
			spec.InterruptionQueue = &v1alpha1.InterruptionQueue{Name: c.declared}
			if got := EngineSettings(spec).InterruptionQueue; got != c.want {
				t.Errorf("the engine reads %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheConfirmationOfGarbageCollectionIsReadFromTheLiveCluster(t *testing.T) {
	for _, value := range []string{"", "3-1a2b3c4d"} {
		c := reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
			c.Annotations = map[string]string{v1alpha1.ConfirmGarbageCollectionAnnotation: value}
		})
		if got := confirmedGarbageCollection(t.Context(), reconcilertest.Client(t, c)); got != value {
			t.Errorf("%q confirms %q", value, got)
		}
	}
	if got := confirmedGarbageCollection(t.Context(), reconcilertest.Client(t)); got != "" {
		t.Errorf("a Cluster that cannot be read confirms %q", got)
	}
}

// A manager starts what only its leader runs before it calls itself elected. Whoever
// looked at the Cluster in between wrote nothing, and nothing woke it again.
func TestTheFirstCheckOfANewLeaderWaitsUntilItMayWrite(t *testing.T) {
	reads := 0
	elected := make(chan struct{})
	read := onceElected(elected, func() { reads++ })
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := read(stopped); err != nil || reads != 0 {
		t.Errorf("a replica that never led looked %d times, %v", reads, err)
	}
	close(elected)
	if err := read(t.Context()); err != nil || reads != 1 {
		t.Errorf("a leader looked %d times, %v", reads, err)
	}
}

func TestAHoldNamesEveryClosedGateAndItsRemedy(t *testing.T) {
	held := blockedByGates([]gate.ClosedGate{
		{Gate: gate.Account, Message: "another account", Remedy: "correct it"},
		{Gate: gate.GarbageCollection, Message: "3 instances", Remedy: "confirm them"},
	})
	if held == nil || held.Reason != "AccountMismatch" {
		t.Fatalf("hold = %+v", held)
	}
	for _, text := range []string{"another account", "correct it", "3 instances", "confirm them"} {
		if !strings.Contains(held.Message, text) {
			t.Errorf("%q lacks %q", held.Message, text)
		}
	}
	if blockedByGates(nil) != nil {
		t.Error("open gates hold")
	}
}

// Whoever takes over from another Karpenter scales it down where it is the reason.
func TestAnotherKarpenterIsTheReasonOnlyAlone(t *testing.T) {
	other, leaked := gate.ClosedGate{Gate: gate.OtherKarpenter}, gate.ClosedGate{Gate: gate.GarbageCollection}
	unproven := func(r gate.ClosedGate) gate.ClosedGate { r.Unproven = true; return r }
	for name, c := range map[string]struct {
		closed []gate.ClosedGate
		want   string
	}{
		"it is found":                                            {[]gate.ClosedGate{other}, "OtherKarpenterRunning"},
		"it is found, and leaked instances are":                  {[]gate.ClosedGate{other, leaked}, "InstancesWithoutNodeClaim"},
		"it is found, and they cannot be listed":                 {[]gate.ClosedGate{other, unproven(leaked)}, "GarbageCollectionUnknown"},
		"its leases cannot be listed":                            {[]gate.ClosedGate{unproven(other)}, "OtherKarpenterUnknown"},
		"the account is another, and leaked instances are found": {[]gate.ClosedGate{{Gate: gate.Account}, leaked}, "AccountMismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := blockedByGates(c.closed).Reason; got != c.want {
				t.Errorf("the reason is %s, want %s", got, c.want)
			}
		})
	}
}

// A Cluster that is renamed in Git is there under both names until a person confirms the
// deletion of the old one: the engine goes on, and the new one reports why nothing follows it.
func TestTheEngineGoesOnWhileAClusterIsRenamed(t *testing.T) {
	old := reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Name, c.CreationTimestamp = "old", metav1.Unix(1, 0) })
	twin := reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
		c.Name, c.CreationTimestamp = "older-by-its-name", metav1.Unix(1, 0)
		c.Spec.Region, c.Annotations = "eu-west-2", map[string]string{v1alpha1.ConfirmGarbageCollectionAnnotation: "3-1a2b3c4d"}
	})
	newer := reconcilertest.Cluster(func(c *v1alpha1.Cluster) {
		c.Name, c.CreationTimestamp = "a-newer-one", metav1.Unix(2, 0)
		c.Spec.Region, c.Annotations = "eu-west-2", map[string]string{v1alpha1.ConfirmGarbageCollectionAnnotation: "3-1a2b3c4d"}
	})
	fakeReader := reconcilertest.Client(t, newer, twin, old)
	if got := confirmedGarbageCollection(t.Context(), fakeReader); got != "" {
		t.Errorf("another Cluster confirms %q", got)
	}
	scheme := fakeReader.Scheme()
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(newer, twin, old).WithStatusSubresource(&v1alpha1.Cluster{}).Build()
	elected := make(chan struct{})
	close(elected)
	running := New(Config{Restart: func() { t.Error("the process is started anew") }}, desiredOf(old), time.Now())
	w := &reconciler{Supervisor: running, reader: live, writer: live, elected: elected}
	ready := func() map[string]string {
		t.Helper()
		if _, err := w.Reconcile(t.Context(), ctrl.Request{}); err != nil {
			t.Fatal(err)
		}
		all, err := Clusters(t.Context(), live)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, c := range all {
			out[c.Name] = meta.FindStatusCondition(c.Status.Conditions, "Ready").Reason
		}
		return out
	}
	want := map[string]string{"old": EngineRunning, "older-by-its-name": "SeveralClusters", "a-newer-one": "SeveralClusters"}
	if diff := cmp.Diff(want, ready()); diff != "" {
		t.Errorf("Ready of each (-want +got):\n%s", diff)
	}
	for _, gone := range []client.Object{old, twin} {
		if err := live.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	// What the next oldest asks for is another region: the process follows it.
	if diff := cmp.Diff(map[string]string{"a-newer-one": "Restarting"}, ready()); diff != "" {
		t.Errorf("Ready after the old one went (-want +got):\n%s", diff)
	}
}

func TestAnOverheadThatIsNoShareNamesItsField(t *testing.T) {
	for _, text := range []string{"seven", "NaN", "Inf", "1e999", "1", "7.5", "-0.1"} {
		got := desiredOf(reconcilertest.Cluster(func(c *v1alpha1.Cluster) { c.Spec.Engine.VMMemoryOverheadPercent = text }))
		if !got.Invalid || !strings.Contains(got.Message, "spec.engine.vmMemoryOverheadPercent is ") || !strings.Contains(got.Message, "0.075 is the default") {
			t.Errorf("%s: %+v", text, got)
		}
		if _, err := json.Marshal(got.Settings); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
