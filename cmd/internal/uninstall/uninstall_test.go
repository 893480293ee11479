package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/history/store"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

func claim(name, group string, leaving bool) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{karpv1.TerminationFinalizer}}}
	c.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: group, Kind: "X", Name: "x"}
	c.Status.ProviderID = "aws:///eu-west-1a/i-" + name
	if leaving {
		c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return c
}

func nodePool(name, group string, limits karpv1.Limits, replicas *int64) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{karpv1.TerminationFinalizer}}}
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: group, Kind: "X", Name: "x"}
	p.Spec.Limits, p.Spec.Replicas = limits, replicas
	return p
}

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: []string{karpv1.TerminationFinalizer, "example.com/other"}}}
}

func removal(t *testing.T, objects ...client.Object) *Uninstall {
	t.Helper()
	return &Uninstall{
		req:    Request{Namespace: "gpu", Timeout: time.Minute, Progress: func(string) {}},
		direct: reconcilertest.InstalledClient(t, objects...),
	}
}

// installedTraces are those of a whole installation.
func installedTraces() installedState {
	thing := func(kind string) state.Item {
		return state.Item{Key: state.Key{Target: "kubernetes", Kind: kind, Name: "poolwright"}, Version: "v1", Object: map[string]any{}}
	}
	f := installedState{
		namespace:   "gpu",
		installed:   state.NewSet(thing("Deployment"), thing("ClusterRole"), thing("CustomResourceDefinition"), thing("Namespace")),
		syncs:       []v1alpha1.Sync{{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}, {ObjectMeta: metav1.ObjectMeta{Name: "dev"}}},
		clusters:    []v1alpha1.Cluster{*reconcilertest.Cluster(nil)},
		inventories: []client.Object{&corev1.ConfigMap{}},
		lease:       installation.Lease{Exists: true, Holder: "pod-1", Engine: true, Renewed: time.Now()},
		claims:      []karpv1.NodeClaim{*claim("a", nodeClassGroup, false), *claim("b", nodeClassGroup, true)},
		holding:     map[string]finalizerCount{"NodeClaim": {all: 2}, "Node": {all: 1}, "EC2NodeClass": {all: 2}},
	}
	f.clusters[0].Spec.NodeRole = &v1alpha1.NodeRole{Name: "nodes", InstanceProfile: "profile"}
	f.clusters[0].Spec.InterruptionQueue = &v1alpha1.InterruptionQueue{}
	f.clusters[0].Spec.ControllerRole = &v1alpha1.ControllerRole{}
	return f
}

func TestARemovalIsPrintedAsInItsGolden(t *testing.T) {
	var all strings.Builder
	for _, c := range []struct {
		name  string
		drain bool
		edit  func(*installedState)
	}{
		{"everything is there and runs", false, func(*installedState) {}},
		{"nodes are drained first", true, func(*installedState) {}},
		{"the engine does not run", false, func(f *installedState) { f.lease = installation.Lease{} }},
		{"another Karpenter leads", false, func(f *installedState) { f.otherKarpenter = "another Karpenter leads in this cluster" }},
		{"another Poolwright has Syncs", false, func(f *installedState) {
			f.elsewhere = []v1alpha1.Sync{{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "dev"}}}
			f.installed = state.NewSet(f.installed.Items()[0])
		}},
		{"nothing records that the engine was ours", false, func(f *installedState) { f.lease, f.clusters = installation.Lease{}, nil }},
		{"a drain was cut off, and the nodes are on their way", false, func(f *installedState) {
			f.lowered, f.holding = 2, map[string]finalizerCount{"NodeClaim": {2, 2}, "Node": {1, 1}, "EC2NodeClass": {all: 2}}
			f.claims = []karpv1.NodeClaim{*claim("a", nodeClassGroup, true), *claim("b", nodeClassGroup, true)}
		}},
		{"a drain was cut off after the last node", true, func(f *installedState) {
			f.lowered, f.claims, f.holding = 2, nil, map[string]finalizerCount{"NodePool": {all: 2}}
		}},
		{"only the inventory is left", false, func(f *installedState) { *f = installedState{own: true} }},
	} {
		u := removal(t)
		u.req.Drain, u.found = c.drain, installedTraces()
		c.edit(&u.found)
		if err := u.check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		u.schedule()
		fmt.Fprintf(&all, "# %s\n", c.name)
		for i, s := range u.Steps() {
			fmt.Fprintf(&all, "%d. %s\n", i+1, s)
		}
		for _, s := range u.found.remaining(u.releases()) {
			fmt.Fprintf(&all, "stays: %s\n", s)
		}
		for _, s := range u.found.warnings(c.drain, u.releases()) {
			fmt.Fprintf(&all, "warning: %s\n", s)
		}
		all.WriteString("\n")
	}
	golden.Compare(t, "testdata/uninstall.golden", all.String())
}

func TestAnUninstallThatStopsHalfwayPrintsHowToGoOn(t *testing.T) {
	for name, c := range map[string]struct {
		at   string
		want []string
		not  string
	}{
		"while Syncs are suspended":  {"suspend", []string{"Syncs are suspended:", "uninstall again", "poolwright resume"}, "NodePools"},
		"while nodes are drained":    {"drain", []string{"NodePools may launch no node", "uninstall --drain again", "poolwright resume"}, ""},
		"while the controller stops": {"stop", []string{"run poolwright uninstall again to finish"}, "resume"},
		"after that":                 {"delete the installation", []string{"run poolwright uninstall again to finish"}, "resume"},
	} {
		t.Run(name, func(t *testing.T) {
			u := removal(t)
			u.req.Drain, u.found = true, installedTraces()
			u.schedule()
			for i := range u.steps {
				u.steps[i].do = func(context.Context) error { return nil }
				if strings.HasPrefix(u.steps[i].text, c.at) {
					u.steps[i].do = func(context.Context) error { return context.Canceled }
				}
			}
			err := u.Run(t.Context())
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			for _, text := range c.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q lacks %q", err, text)
				}
			}
			if c.not != "" && strings.Contains(err.Error(), c.not) {
				t.Errorf("%q says %q", err, c.not)
			}
		})
	}
}

func TestFinalizersStayWhereTheyMayBeAnothers(t *testing.T) {
	for name, c := range map[string]struct {
		mode   v1alpha1.EngineMode
		lease  installation.Lease
		forced bool
		other  string
		want   bool
	}{
		"the Cluster has Embedded":          {mode: v1alpha1.EngineEmbedded, want: true},
		"which is the default":              {want: true},
		"the engine is off":                 {mode: v1alpha1.EngineOff},
		"but has run":                       {mode: v1alpha1.EngineOff, lease: installation.Lease{Exists: true, Engine: true}, want: true},
		"our lease is one without engine":   {mode: v1alpha1.EngineOff, lease: installation.Lease{Exists: true}},
		"somebody insists":                  {mode: v1alpha1.EngineOff, forced: true, want: true},
		"not where another Karpenter leads": {mode: v1alpha1.EngineOff, forced: true, other: "it leads"},
	} {
		t.Run(name, func(t *testing.T) {
			u := removal(t)
			u.req.ReleaseFinalizers, u.found = c.forced, installedTraces()
			u.found.clusters[0].Spec.Engine.Mode, u.found.lease, u.found.otherKarpenter = c.mode, c.lease, c.other
			if got := u.releases(); got != c.want {
				t.Errorf("released: %t, want %t", got, c.want)
			}
		})
	}
}

func TestWhatCannotEndWellIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		drain bool
		edit  func(*installedState)
		want  string
	}{
		"an installation of Flux": {false, func(f *installedState) {
			item := f.installed.Items()[0]
			item.Owner = owner.Reference{Kind: owner.FluxKustomization, Name: "flux-system/apps"}
			f.installed = state.NewSet(item)
		}, "managed by Flux Kustomization flux-system/apps"},
		"draining without an engine":          {true, func(f *installedState) { f.lease.Engine = false }, "--drain needs the engine"},
		"draining with a dead leader":         {true, func(f *installedState) { f.lease.Renewed = time.Unix(0, 0) }, "--drain needs the engine"},
		"draining another Karpenter's nodes":  {true, func(f *installedState) { f.otherKarpenter = "another one leads" }, "another one leads; leave --drain out"},
		"an installation of a Sync is no one": {false, func(f *installedState) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := removal(t)
			u.req.Drain, u.found = c.drain, installedTraces()
			c.edit(&u.found)
			err := u.check()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestANodeThatWaitsForItsGPUsIsLetIn(t *testing.T) {
	waiting := node("waiting", nil)
	waiting.Annotations = map[string]string{gpu.AllocatableAnnotation: "nvidia.com/gpu=4", gpu.PluginUpdateAnnotation: "r u t", "example.com/mine": "stays"}
	waiting.Spec.Taints = []corev1.Taint{
		{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule},
	}
	u := removal(t, waiting)
	if err := u.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got corev1.Node
	if err := u.direct.Get(t.Context(), client.ObjectKey{Name: "waiting"}, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "nvidia.com/gpu" {
		t.Errorf("its taints are %v", got.Spec.Taints)
	}
	if diff := cmp.Diff(map[string]string{"example.com/mine": "stays"}, got.Annotations); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyFinalizersThatNobodyElseRemovesGo(t *testing.T) {
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Finalizers: []string{awsv1.TerminationFinalizer}}}
	u := removal(t, claim("ours", nodeClassGroup, false), claim("leaving", nodeClassGroup, true), claim("auto", "eks.amazonaws.com", false),
		nodePool("ours", nodeClassGroup, nil, nil), nodePool("auto", "eks.amazonaws.com", nil, nil), class,
		node("ours", nil), node("auto", map[string]string{"eks.amazonaws.com/compute-type": "auto"}))
	for range 2 {
		if err := u.release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, list := range []client.ObjectList{&karpv1.NodeClaimList{}, &karpv1.NodePoolList{}, &corev1.NodeList{}, &awsv1.EC2NodeClassList{}} {
		if err := u.direct.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		switch list := list.(type) {
		case *karpv1.NodeClaimList:
			for _, o := range list.Items {
				got = append(got, fmt.Sprint("claim ", o.Name, o.Finalizers))
			}
		case *karpv1.NodePoolList:
			for _, o := range list.Items {
				got = append(got, fmt.Sprint("pool ", o.Name, o.Finalizers))
			}
		case *corev1.NodeList:
			for _, o := range list.Items {
				got = append(got, fmt.Sprint("node ", o.Name, o.Finalizers))
			}
		case *awsv1.EC2NodeClassList:
			for _, o := range list.Items {
				got = append(got, fmt.Sprint("class ", o.Name, o.Finalizers))
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"claim auto[karpenter.sh/termination]", "claim ours[]", "class c[]",
		"node auto[karpenter.sh/termination example.com/other]", "node ours[example.com/other]",
		"pool auto[karpenter.sh/termination]", "pool ours[]",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDrainingLowersPoolsAndGivesThemBackWhatTheyHad(t *testing.T) {
	three := int64(3)
	limits := karpv1.Limits{"nvidia.com/gpu": resource.MustParse("4"), corev1.ResourceCPU: resource.MustParse("64")}
	u := removal(t, nodePool("limited", nodeClassGroup, limits, nil), nodePool("free", nodeClassGroup, nil, nil),
		nodePool("static", nodeClassGroup, karpv1.Limits{"nodes": resource.MustParse("9")}, &three),
		nodePool("auto", "eks.amazonaws.com", nil, nil), claim("ours", nodeClassGroup, false), claim("auto", "eks.amazonaws.com", false))
	show := func() string {
		var pools karpv1.NodePoolList
		if err := u.direct.List(t.Context(), &pools); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, p := range pools.Items {
			line := p.Name
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, "nvidia.com/gpu", "nodes"} {
				if v, ok := p.Spec.Limits[name]; ok {
					line += fmt.Sprintf(" %s=%s", name, v.String())
				}
			}
			if p.Spec.Replicas != nil {
				line += fmt.Sprintf(" replicas=%d", *p.Spec.Replicas)
			}
			if p.Annotations[beforeDrain] != "" {
				line += " noted"
			}
			out = append(out, line)
		}
		return strings.Join(out, "\n")
	}
	before := show()
	// The claims of the fake API server have a finalizer that the engine would
	// remove: let the deletion stand for its end.
	engine := claim("ours", nodeClassGroup, false)
	if err := u.edit(t.Context(), engine, "changing the engine with", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := u.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as after a cut
		if err := u.drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := "auto\nfree cpu=0 noted\nlimited cpu=0 nvidia.com/gpu=4 noted\nstatic nodes=9 replicas=0 noted"
	if d := cmp.Diff(want, show()); d != "" {
		t.Errorf("drained: %s", d)
	}
	var claims karpv1.NodeClaimList
	if err := u.direct.List(t.Context(), &claims); err != nil || len(claims.Items) != 1 || claims.Items[0].Name != "auto" {
		t.Errorf("%d NodeClaims are left, %v", len(claims.Items), err)
	}
	for range 2 {
		if err := u.restorePools(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(before, show()); d != "" {
		t.Errorf("restored: %s", d)
	}
}

func TestALeaseRecordsWhetherTheEngineRuns(t *testing.T) {
	now := metav1.NowMicro()
	old := metav1.NewMicroTime(now.Add(-2 * time.Minute))
	holder, nobody := "pod-1", ""
	lease := func(holder *string, renewed *metav1.MicroTime, labels map[string]string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: leaderelection.LeaseName, Labels: labels},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: holder, RenewTime: renewed},
		}
	}
	for name, c := range map[string]struct {
		objects []client.Object
		runs    bool
	}{
		"no lease":            {},
		"a leader with it":    {[]client.Object{lease(&holder, &now, gate.LeaseLabels(true))}, true},
		"a leader without it": {[]client.Object{lease(&holder, &now, gate.LeaseLabels(false))}, false},
		"a leader long ago":   {[]client.Object{lease(&holder, &old, gate.LeaseLabels(true))}, false},
		"given up":            {[]client.Object{lease(&nobody, &now, gate.LeaseLabels(true))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := removal(t, c.objects...)
			got, err := u.lease(t.Context())
			if err != nil || got.EngineRuns() != c.runs || got.Exists != (len(c.objects) > 0) {
				t.Errorf("%+v, %v", got, err)
			}
			if got.Holder == "" {
				if err := u.leaseFree(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestSyncsGoWithoutTheirFinalizers(t *testing.T) {
	sync := func(namespace, name string) *v1alpha1.Sync {
		return &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{v1alpha1.Finalizer}}}
	}
	u := removal(t, sync("gpu", "dev"), sync("gpu", "prod"), sync("other", "dev"))
	if err := u.suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	syncs, err := u.syncs(t.Context())
	if err != nil || len(syncs) != 2 || !syncs[0].Spec.Suspend || !syncs[1].Spec.Suspend {
		t.Fatalf("%+v, %v", syncs, err)
	}
	for range 2 {
		if err := u.deleteSyncs(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var left v1alpha1.SyncList
	if err := u.direct.List(t.Context(), &left); err != nil || len(left.Items) != 1 || left.Items[0].Namespace != "other" || left.Items[0].Spec.Suspend {
		t.Errorf("left: %+v, %v", left.Items, err)
	}
}

func TestWhatEarlierReleasesNamedOtherwiseIsExpected(t *testing.T) {
	items, err := expected("gpu")
	if err != nil {
		t.Fatal(err)
	}
	set, names := state.NewSet(items...), map[string][]string{}
	for _, item := range set.Items() {
		if item.Key.Group == "rbac.authorization.k8s.io" {
			names[item.Key.Name] = append(names[item.Key.Name], item.Key.Kind)
		}
	}
	for _, name := range []string{"poolwright-cluster-reconciler", "poolwright-loop"} {
		if diff := cmp.Diff([]string{"ClusterRole", "ClusterRoleBinding"}, names[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestTheHistoryAndThePriceListGoWithTheInstallation(t *testing.T) {
	labels := map[string]string{"app.kubernetes.io/name": "poolwright", "app.kubernetes.io/component": "history"}
	var objects []client.Object
	for i, name := range store.Names() {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: name, Labels: labels}}
		if i == 1 {
			c.Labels = nil
		}
		objects = append(objects, c)
	}
	objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: store.Names()[0], Labels: labels}})
	prices, err := published.Content{}.ConfigMap("gpu")
	if err != nil {
		t.Fatal(err)
	}
	reservations, err := published.Content{}.ReservationsConfigMap("gpu")
	if err != nil {
		t.Fatal(err)
	}
	u := removal(t, append(objects, prices, reservations)...)
	for range 2 {
		if err := u.deleteRecords(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var left corev1.ConfigMapList
	if err := u.direct.List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range left.Items {
		names = append(names, c.Namespace+"/"+c.Name)
	}
	if d := cmp.Diff([]string{"gpu/" + store.Names()[1], "other/" + store.Names()[0]}, names); d != "" {
		t.Errorf("ConfigMaps (-want +got):\n%s", d)
	}
}

func TestARemovalForProgramsIsAsInItsGolden(t *testing.T) {
	u := removal(t)
	u.found = installedTraces()
	u.schedule()
	u.Remaining, u.Warnings = u.found.remaining(true), u.found.warnings(false, true)
	var out strings.Builder
	if err := document.Value(&out, "json", document.Removal, u.Removal()); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/removal-json.golden", out.String())
	out.Reset()
	if err := document.WriteNames(&out, u.Removal().Objects); err != nil || !strings.HasPrefix(out.String(), "sync.poolwright.dev/prod\nsync.poolwright.dev/dev\n") {
		t.Errorf("the names are %s, %v", out.String(), err)
	}
	empty := removal(t).Removal()
	if empty.Steps == nil || empty.Objects == nil || empty.Remaining == nil || empty.Warnings == nil {
		t.Errorf("a list without entries is null: %+v", empty)
	}
}

// A suspension with an end would end while nodes are drained, and the controller restore the limits of the pools.
func TestTheSuspensionOfAnUninstallDoesNotEndByItself(t *testing.T) {
	sync := &v1alpha1.Sync{}
	sync.Namespace, sync.Name = "gpu", "dev"
	suspension.Start(sync, "EKS is upgraded", time.Now().Add(time.Minute))
	u := removal(t, sync)
	if err := u.suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	syncs, err := u.syncs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !syncs[0].Spec.Suspend || !suspension.Until(&syncs[0]).IsZero() || suspension.Reason(&syncs[0]) != "EKS is upgraded" {
		t.Errorf("it is suspended %t, with %v", syncs[0].Spec.Suspend, syncs[0].Annotations)
	}
}

func TestDrainingWaitsOnlyForSyncsThatTheControllerReconciles(t *testing.T) {
	pending := func(name string, labels map[string]string) *v1alpha1.Sync {
		s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: name, Generation: 2, Labels: labels}}
		s.Status.ObservedGeneration = 1
		return s
	}
	observed := pending("canary", map[string]string{"stage": "canary"})
	observed.Status.ObservedGeneration = 2
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: installation.Deployment}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: installation.Deployment, Args: []string{"run", "--watch-label-selector=stage=canary"}}}
	for name, c := range map[string]struct {
		objects []client.Object
		named   []string
		waits   bool
	}{
		"the others are named, and not waited for": {objects: []client.Object{d, observed, pending("prod", nil), pending("dev", nil)}, named: []string{"Syncs dev, prod"}},
		"one that is reconciled is waited for":     {objects: []client.Object{d, pending("canary", map[string]string{"stage": "canary"})}, named: []string{"Sync canary"}, waits: true},
		"without the flag each is waited for":      {objects: []client.Object{observed, pending("prod", nil)}, named: []string{"Sync prod"}, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			u := removal(t, c.objects...)
			u.req.Timeout, u.req.Progress = 10*time.Millisecond, func(line string) { lines = append(lines, line) }
			err := u.awaitSuspension(t.Context())
			if _, waits := errors.AsType[installation.Timeout](err); waits != c.waits || (err != nil) != c.waits {
				t.Errorf("%v", err)
			}
			for _, part := range c.named {
				if !strings.Contains(strings.Join(lines, "\n"), part) {
					t.Errorf("%q does not name %s", lines, part)
				}
			}
		})
	}
}
