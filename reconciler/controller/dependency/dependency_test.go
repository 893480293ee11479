package dependency

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

const revision = "main@sha1:2"

// named is a Sync that is Ready at the revision, edited.
func named(name string, edits ...func(*v1alpha1.Sync)) *v1alpha1.Sync {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: name, Generation: 3}}
	sync.Spec.Source.Git.URL = "https://git.example/a.git"
	sync.Spec.Interval.Duration = time.Minute
	sync.Status = v1alpha1.SyncStatus{ObservedGeneration: 3, LastAppliedRevision: revision, Conditions: []metav1.Condition{
		{Type: fluxmeta.ReadyCondition, Status: metav1.ConditionTrue, Reason: fluxmeta.ReconciliationSucceededReason, ObservedGeneration: 3},
	}}
	for _, edit := range edits {
		edit(sync)
	}
	return sync
}

func on(names ...string) func(*v1alpha1.Sync) {
	return func(sync *v1alpha1.Sync) {
		for _, name := range names {
			sync.Spec.DependsOn = append(sync.Spec.DependsOn, v1alpha1.DependencyReference{Name: name})
		}
	}
}

// byFlux has a Sync follow a source of Flux, in a namespace.
func byFlux(namespace string) func(*v1alpha1.Sync) {
	return func(sync *v1alpha1.Sync) {
		sync.Spec.Source, sync.Spec.SourceRef = v1alpha1.Source{}, &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Namespace: namespace, Name: "nodes"}
	}
}

// withFiles has a Sync have applied the files of a tree.
func withFiles(treeID string) func(*v1alpha1.Sync) {
	return func(sync *v1alpha1.Sync) { sync.Status.LastAppliedTreeID = treeID }
}

func onceTrue(expr string) func(*v1alpha1.Sync) {
	return func(sync *v1alpha1.Sync) {
		sync.Spec.DependsOn = []v1alpha1.DependencyReference{{Name: "base", ReadyExpr: expr}}
	}
}

func unreadyFor(reason string) func(*v1alpha1.Sync) {
	return func(sync *v1alpha1.Sync) {
		sync.Status.Conditions[0].Status, sync.Status.Conditions[0].Reason = metav1.ConditionFalse, reason
	}
}

func checker(t *testing.T, all ...*v1alpha1.Sync) Checker {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, sync := range all {
		builder = builder.WithObjects(sync)
	}
	return Checker{Reader: builder.Build()}
}

func TestARevisionIsAppliedOnceAllDependenciesAreReady(t *testing.T) {
	appliedBefore := func(sync *v1alpha1.Sync) { sync.Status.LastAppliedRevision = "main@sha1:1" }
	elsewhere := func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.URL = "https://git.example/b.git" }
	changed := func(sync *v1alpha1.Sync) { sync.Generation++ }
	suspended := func(sync *v1alpha1.Sync) {
		changed(sync)
		sync.Spec.Suspend, sync.Status.ObservedGeneration = true, sync.Generation
	}
	byTag := func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.Ref.Tag = "v1" }
	// A commit alone names neither branch nor tag.
	rolledBackTo := func(commit string) func(*v1alpha1.Sync) {
		return func(sync *v1alpha1.Sync) { sync.Status.LastAppliedRevision = "sha1:" + commit }
	}
	deleting := func(sync *v1alpha1.Sync) {
		sync.Finalizers, sync.DeletionTimestamp = []string{v1alpha1.Finalizer}, &metav1.Time{Time: time.Unix(1, 0)}
	}
	tests := []struct {
		name string
		all  []*v1alpha1.Sync
		// reason and has are of the error; empty where the revision may be applied.
		reason string
		has    []string
	}{
		{"it depends on none", []*v1alpha1.Sync{named("dev"), named("base", unreadyFor("ApplyFailed"))}, "", nil},
		{"it does not exist any more", nil, "", nil},
		{"it is ready", []*v1alpha1.Sync{named("dev", on("base")), named("base")}, "", nil},
		{"it does not exist", []*v1alpha1.Sync{named("dev", on("base"))}, fluxmeta.DependencyNotReadyReason, []string{"Sync base: it does not exist in namespace poolwright-system"}},
		{"it is not ready", []*v1alpha1.Sync{named("dev", on("base")), named("base", unreadyFor("ApplyFailed"))}, fluxmeta.DependencyNotReadyReason, []string{"Sync base: it is not ready, with reason ApplyFailed"}},
		{"it has no status", []*v1alpha1.Sync{named("dev", on("base")), named("base", func(sync *v1alpha1.Sync) { sync.Status = v1alpha1.SyncStatus{} })},
			fluxmeta.DependencyNotReadyReason, []string{"it is not reconciled yet as its spec is now"}},
		{"it was ready for another spec", []*v1alpha1.Sync{named("dev", on("base")), named("base", changed)}, fluxmeta.DependencyNotReadyReason, []string{"it is not reconciled yet as its spec is now"}},
		{"it was not ready for another spec", []*v1alpha1.Sync{named("dev", on("base")), named("base", changed, unreadyFor("ApplyFailed"))}, fluxmeta.DependencyNotReadyReason, []string{"it is not reconciled yet as its spec is now"}},
		{"only its status is of the spec", []*v1alpha1.Sync{named("dev", on("base")), named("base", changed, func(sync *v1alpha1.Sync) { sync.Status.ObservedGeneration = sync.Generation })},
			fluxmeta.DependencyNotReadyReason, []string{"it is not reconciled yet as its spec is now"}},
		{"it is suspended", []*v1alpha1.Sync{named("dev", on("base")), named("base", suspended)}, fluxmeta.DependencyNotReadyReason, []string{"it is suspended"}},
		{"it is being deleted", []*v1alpha1.Sync{named("dev", on("base")), named("base", deleting)}, fluxmeta.DependencyNotReadyReason, []string{"it is being deleted"}},
		{"of the same source it has applied another revision", []*v1alpha1.Sync{named("dev", on("base")), named("base", appliedBefore)},
			fluxmeta.DependencyNotReadyReason, []string{"Sync base: it has not applied revision main@sha1:2"}},
		{"the same branch by name is the same source", []*v1alpha1.Sync{named("dev", on("base")), named("base", appliedBefore, func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.Ref.Branch = "main" })},
			fluxmeta.DependencyNotReadyReason, []string{"it has not applied revision"}},
		{"of another repository it has applied another revision", []*v1alpha1.Sync{named("dev", on("base")), named("base", appliedBefore, elsewhere)}, "", nil},
		{"of another branch it has applied another revision", []*v1alpha1.Sync{named("dev", on("base")), named("base", appliedBefore, func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.Ref.Branch = "next" })}, "", nil},
		{"of the same source of Flux it has applied another revision", []*v1alpha1.Sync{named("dev", on("base"), byFlux("")), named("base", appliedBefore, byFlux("poolwright-system"))},
			fluxmeta.DependencyNotReadyReason, []string{"it has not applied revision"}},
		{"of the same source of Flux it has applied other files of the revision", []*v1alpha1.Sync{named("dev", on("base"), byFlux("")), named("base", withFiles("other"), byFlux(""))},
			fluxmeta.DependencyNotReadyReason, []string{"it has applied other files of revision"}},
		{"of the same source of Flux it has applied the files of the revision", []*v1alpha1.Sync{named("dev", on("base"), byFlux("")), named("base", withFiles("tree"), byFlux(""))}, "", nil},
		{"of another source of Flux it has applied other files", []*v1alpha1.Sync{named("dev", on("base"), byFlux("")), named("base", withFiles("other"), byFlux("flux-system"))}, "", nil},
		{"of a source of Flux in another namespace it has applied another revision", []*v1alpha1.Sync{named("dev", on("base"), byFlux("")), named("base", appliedBefore, byFlux("flux-system"))}, "", nil},
		{"of the same tag it is rolled back to the commit of that", []*v1alpha1.Sync{named("dev", on("base"), byTag), named("base", byTag, rolledBackTo("2"))}, "", nil},
		{"of the same tag it is rolled back to another commit", []*v1alpha1.Sync{named("dev", on("base"), byTag), named("base", byTag, rolledBackTo("1"))},
			fluxmeta.DependencyNotReadyReason, []string{"it has not applied revision"}},
		{"two of three are not ready", []*v1alpha1.Sync{named("dev", on("a", "b", "c")), named("a"), named("b", unreadyFor("NotReady"))},
			fluxmeta.DependencyNotReadyReason, []string{"waiting for Sync b: it is not ready, with reason NotReady; Sync c: it does not exist"}},
		{"many do not exist", []*v1alpha1.Sync{named("dev", on("a", "b", "c", "d", "e", "f", "g"))}, fluxmeta.DependencyNotReadyReason, []string{"Sync e: ", "; and 2 more"}},
		{"an expression is true of one that is not ready", []*v1alpha1.Sync{named("dev", onceTrue("dep.metadata.name == 'base' && self.metadata.name == 'dev'")), named("base", unreadyFor("ApplyFailed"), appliedBefore)}, "", nil},
		{"an expression is not true of one that is ready", []*v1alpha1.Sync{named("dev", onceTrue("dep.metadata.name == 'other'")), named("base")},
			fluxmeta.DependencyNotReadyReason, []string{"Sync base: its readyExpr is not true"}},
		{"an expression fails", []*v1alpha1.Sync{named("dev", onceTrue("dep.metadata.labels.a == 'b'")), named("base")}, fluxmeta.DependencyNotReadyReason, []string{"its readyExpr cannot be evaluated"}},
		{"an expression is none", []*v1alpha1.Sync{named("dev", onceTrue("dep.")), named("base")}, fluxmeta.InvalidCELExpressionReason, []string{"readyExpr of Sync base"}},
		{"an expression is of another type", []*v1alpha1.Sync{named("dev", onceTrue("'a'")), named("base")}, fluxmeta.InvalidCELExpressionReason, []string{"readyExpr of Sync base"}},
		{"it is of another namespace", []*v1alpha1.Sync{named("dev", func(sync *v1alpha1.Sync) {
			sync.Spec.DependsOn = []v1alpha1.DependencyReference{{Name: "base", Namespace: "elsewhere"}}
		}), named("base")}, "InvalidDependency", []string{"Sync elsewhere/base, and only Syncs of namespace poolwright-system are reconciled"}},
		{"its namespace is written out", []*v1alpha1.Sync{named("dev", func(sync *v1alpha1.Sync) {
			sync.Spec.DependsOn = []v1alpha1.DependencyReference{{Name: "base", Namespace: "poolwright-system"}}
		}), named("base")}, "", nil},
		{"it depends on itself", []*v1alpha1.Sync{named("dev", on("dev"))}, "CircularDependency", []string{": dev -> dev;"}},
		{"a cycle is of three", []*v1alpha1.Sync{named("dev", on("other", "a")), named("other"), named("a", on("b")), named("b", on("a", "dev"))}, "CircularDependency", []string{": dev -> a -> b -> dev;"}},
		{"a cycle leads not to it", []*v1alpha1.Sync{named("dev", on("a")), named("a", on("b"), unreadyFor("CircularDependency")), named("b", on("a"), unreadyFor("CircularDependency"))},
			fluxmeta.DependencyNotReadyReason, []string{"Sync a: it is not ready, with reason CircularDependency"}},
		{"two ways lead to one", []*v1alpha1.Sync{named("dev", on("a", "b")), named("a", on("base")), named("b", on("base")), named("base")}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checker(t, tt.all...).Check(t.Context(), types.NamespacedName{Namespace: "poolwright-system", Name: "dev"}, revision, "tree")
			if tt.reason == "" {
				if err != nil {
					t.Errorf("it waits: %v", err)
				}
				return
			}
			class, reason, after := state.Classify(err)
			waits := tt.reason == fluxmeta.DependencyNotReadyReason
			if err == nil || reason != tt.reason || (class == state.Wait) != waits || (class == state.Stalled) == waits || waits && after != time.Minute {
				t.Fatalf("got %v: class %s, reason %s, after %s", err, class, reason, after)
			}
			for _, part := range tt.has {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

func TestAFingerprintChangesWithWhatTheRevisionMustBe(t *testing.T) {
	of := func(edits ...func(*v1alpha1.Sync)) string {
		return checker(t, named("dev", on("base")), named("base", edits...)).Fingerprint(t.Context(), named("dev", on("base")))
	}
	if got := checker(t).Fingerprint(t.Context(), named("dev")); got != "" {
		t.Errorf("without dependencies it is %q", got)
	}
	other := func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.URL += "/" }
	next := func(sync *v1alpha1.Sync) { sync.Status.LastAppliedRevision = "main@sha1:3" }
	if of() == of(next) || of() == of(unreadyFor("ApplyFailed")) {
		t.Error("another revision of the same source, or that it is not ready, makes no difference")
	}
	if of(other) != of(other, next) || of() != of(func(sync *v1alpha1.Sync) { sync.Status.Objects++ }) {
		t.Error("what no check depends on makes a difference")
	}
}

func TestSyncsThatCannotBeListedLetNothingPass(t *testing.T) {
	broken := errors.New("no cache")
	c := checker(t, named("dev", on("base")), named("base"))
	with, ok := c.Reader.(client.WithWatch)
	if !ok {
		t.Fatal("the reader is no client")
	}
	c.Reader = interceptor.NewClient(with, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken }})
	if err := c.Check(t.Context(), types.NamespacedName{Namespace: "poolwright-system", Name: "dev"}, revision, "tree"); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if c.Fingerprint(t.Context(), named("dev", on("base"))) == "" {
		t.Error("it is as one without dependencies")
	}
}

func TestAChangeConcernsWhomItMakesADifferenceFor(t *testing.T) {
	tests := []struct {
		name    string
		was, is *v1alpha1.Sync
		others  []*v1alpha1.Sync
		want    []string
	}{
		{"it becomes ready", named("base", unreadyFor("ApplyFailed")), named("base"), []*v1alpha1.Sync{named("dev", on("base")), named("prod", on("base")), named("other"), named("apps", on("dev"))}, []string{"dev", "prod"}},
		{"it applies another revision", named("base", func(sync *v1alpha1.Sync) { sync.Status.LastAppliedRevision = "main@sha1:1" }), named("base"), []*v1alpha1.Sync{named("dev", on("base"))}, []string{"dev"}},
		{"its status changes otherwise", named("base"), named("base", func(sync *v1alpha1.Sync) { sync.Status.Objects = 7 }), []*v1alpha1.Sync{named("dev", on("base"))}, nil},
		{"an expression becomes true", named("base"), named("base", func(sync *v1alpha1.Sync) { sync.Status.Objects = 7 }),
			[]*v1alpha1.Sync{named("dev", onceTrue("has(dep.status.objects) && dep.status.objects == 7"))}, []string{"dev"}},
		{"it comes", nil, named("base"), []*v1alpha1.Sync{named("dev", on("base"))}, []string{"dev"}},
		{"it goes", named("base"), nil, []*v1alpha1.Sync{named("dev", on("base"))}, []string{"dev"}},
		{"a cycle ends elsewhere", named("base", on("dev")), named("base"), []*v1alpha1.Sync{named("dev", on("mid")), named("mid", on("base"))}, []string{"dev", "mid"}},
		{"itself is changed", named("dev"), named("dev", on("base")), []*v1alpha1.Sync{named("base")}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := slices.Clone(tt.others)
			if tt.is != nil {
				all = append(all, tt.is)
			}
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			h := checker(t, all...).Handler()
			switch {
			case tt.was == nil:
				h.Create(t.Context(), event.CreateEvent{Object: tt.is}, queue)
			case tt.is == nil:
				h.Delete(t.Context(), event.DeleteEvent{Object: tt.was}, queue)
			default:
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: tt.was, ObjectNew: tt.is}, queue)
			}
			var got []string
			for queue.Len() > 0 {
				next, _ := queue.Get()
				got = append(got, next.Name)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
