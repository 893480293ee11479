package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

func TestAWaitThatEndsNamesWhatEndedIt(t *testing.T) {
	for name, c := range map[string]struct {
		// interrupt ends the command once it waits.
		interrupt bool
		timeout   time.Duration
		code      int
		message   string
	}{
		"a person": {interrupt: true, timeout: time.Hour, code: exitInterrupted, message: "kubectl -n poolwright-system get syncs.poolwright.dev dev -w"},
		"the time": {timeout: time.Millisecond, code: exitError, message: "was not handled within 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			scheme := runtime.NewScheme()
			if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			sync := &v1alpha1.Sync{}
			sync.Namespace, sync.Name = "poolwright-system", "dev"
			cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).WithInterceptorFuncs(interceptor.Funcs{
				Watch: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
					w := watch.NewFake()
					if c.interrupt {
						interrupt()
					}
					context.AfterFunc(ctx, w.Stop)
					return w, nil
				},
			}).Build()
			var out bytes.Buffer
			err := request(ctx, cl, sync, waitFlags{wait: true, timeout: c.timeout}, &out, func(*v1alpha1.Sync) {})
			code := exitError
			if e, ok := errors.AsType[*exit](err); ok {
				code = e.code
			}
			if err == nil || code != c.code || !strings.Contains(err.Error(), c.message) {
				t.Errorf("exit code %d: %v", code, err)
			}
		})
	}
}

// A request on a Sync that is being deleted is answered by the deletion: by what it waits for, or
// by its end.
func TestARequestOnASyncThatIsBeingDeletedEndsWithTheDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		deleting bool
		response watch.EventType
		want     string
	}{
		"the deletion waits for a confirmation": {true, watch.Modified, "Sync dev is not ready: PruneHeld: 2 nodes go with it"},
		"the deletion is done":                  {true, watch.Deleted, ""},
		"somebody deletes it after the request": {false, watch.Deleted, "Sync dev was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			sync := &v1alpha1.Sync{}
			sync.Namespace, sync.Name, sync.Finalizers = "poolwright-system", "dev", []string{v1alpha1.Finalizer}
			if c.deleting {
				sync.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).WithInterceptorFuncs(interceptor.Funcs{
				Watch: func(ctx context.Context, cl client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
					var now v1alpha1.Sync
					if err := cl.Get(ctx, client.ObjectKeyFromObject(sync), &now); err != nil {
						return nil, err
					}
					now.Status.LastHandledReconcileAt = now.Annotations[fluxmeta.ReconcileRequestAnnotation]
					now.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "PruneHeld", Message: "2 nodes go with it"}}
					w := watch.NewFakeWithChanSize(1, false)
					w.Action(c.response, &now)
					return w, nil
				},
			}).Build()
			var out bytes.Buffer
			err := request(t.Context(), cl, sync, waitFlags{wait: true, timeout: time.Minute}, &out, func(*v1alpha1.Sync) {})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Who quoted a wrong token reads that beside what waits, and also where nothing waits any more.
func TestARequestAfterAWrongTokenPrintsThatItFitsNothing(t *testing.T) {
	const text = "poolwright.dev/confirm has x, which matches no pending change; what waits is confirmed by y"
	for name, c := range map[string]struct {
		ready      metav1.Condition
		err, wrote string
	}{
		"what waits": {metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "PruneHeld", Message: "2 nodes go with it"},
			"Sync dev is not ready: PruneHeld: 2 nodes go with it\nConfirmationMismatch: " + text, "requested a run of Sync dev\n"},
		"nothing waits": {metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Message: "Applied"},
			"", "requested a run of Sync dev\nApplied\nConfirmationMismatch: " + text + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			sync := &v1alpha1.Sync{}
			sync.Namespace, sync.Name = "poolwright-system", "dev"
			cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).WithInterceptorFuncs(interceptor.Funcs{
				Watch: func(ctx context.Context, cl client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
					var now v1alpha1.Sync
					if err := cl.Get(ctx, client.ObjectKeyFromObject(sync), &now); err != nil {
						return nil, err
					}
					now.Status.LastHandledReconcileAt = now.Annotations[fluxmeta.ReconcileRequestAnnotation]
					now.Status.Conditions = []metav1.Condition{c.ready, {Type: "ConfirmationMismatch", Status: metav1.ConditionTrue, Reason: "TokenNotPending", Message: text}}
					w := watch.NewFakeWithChanSize(1, false)
					w.Modify(&now)
					return w, nil
				},
			}).Build()
			var out bytes.Buffer
			err := request(t.Context(), cl, sync, waitFlags{wait: true, timeout: time.Minute}, &out, func(*v1alpha1.Sync) {})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if d := cmp.Diff([]string{c.err, c.wrote}, []string{got, out.String()}); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Nobody handles a request of a Sync that the controller does not select: the command ends without waiting for it.
func TestARequestOnASyncThatIsNotSelectedEndsAtOnce(t *testing.T) {
	for _, waits := range []bool{true, false} {
		scheme := runtime.NewScheme()
		if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
			t.Fatal(err)
		}
		sync, d := &v1alpha1.Sync{}, &appsv1.Deployment{}
		sync.Namespace, sync.Name = "poolwright-system", "dev"
		d.Namespace, d.Name = sync.Namespace, installation.Deployment
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: installation.Deployment, Args: []string{"run", "--watch-label-selector=stage=canary"}}}
		cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync, d).WithInterceptorFuncs(interceptor.Funcs{
			Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
				t.Error("it waits")
				return nil, errors.New("it waits")
			},
		}).Build()
		err := request(t.Context(), cl, sync, waitFlags{wait: waits, timeout: time.Hour}, io.Discard, func(*v1alpha1.Sync) {})
		if err == nil || !strings.Contains(err.Error(), "--watch-label-selector=stage=canary") {
			t.Errorf("got %v", err)
		}
	}
}

// Whoever may not read the Deployment waits for what becomes of the request, and is warned.
func TestARequestOfWhichItIsNotKnownWhetherItIsHandledIsAWarning(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	sync := &v1alpha1.Sync{}
	sync.Namespace, sync.Name = "poolwright-system", "dev"
	cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*appsv1.Deployment); is {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, key.Name, nil)
			}
			return cl.Get(ctx, key, o, opts...)
		},
	}).Build()
	var out bytes.Buffer
	err := request(t.Context(), cl, sync, waitFlags{timeout: time.Hour}, &out, func(*v1alpha1.Sync) {})
	if err != nil || !strings.Contains(out.String(), "\nWarning: it is not known whether the controller reconciles Sync dev: reading Deployment poolwright-system/poolwright") {
		t.Errorf("%v, with %q", err, out.String())
	}
}

func TestASuspensionHasTheReasonOfThisTime(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	sync := &v1alpha1.Sync{}
	sync.Namespace, sync.Name = "poolwright-system", "dev"
	sync.Annotations = map[string]string{"team": "gpu"}
	cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sync).Build()
	live := func() *v1alpha1.Sync {
		var got v1alpha1.Sync
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(sync), &got); err != nil {
			t.Fatal(err)
		}
		return &got
	}
	until := time.Date(2026, 11, 28, 18, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		reason string
		until  time.Time
		want   map[string]string
		text   string
	}{
		{"EKS is being\x1b[2J upgraded", until, map[string]string{"team": "gpu", v1alpha1.SuspendReasonAnnotation: "EKS is being\x1b[2J upgraded", v1alpha1.SuspendUntilAnnotation: "2026-11-28T18:00:00Z"},
			`suspended until 2026-11-28T18:00:00Z: EKS is being\x1b[2J upgraded; `},
		{"", time.Time{}, map[string]string{"team": "gpu"}, "suspended; "},
		{"another one", time.Time{}, map[string]string{"team": "gpu", v1alpha1.SuspendReasonAnnotation: "another one"}, "suspended: another one; "},
	} {
		if err := suspension.Suspend(t.Context(), cl, live(), c.reason, c.until, true); err != nil {
			t.Fatal(err)
		}
		got := live()
		if diff := cmp.Diff(c.want, got.Annotations); diff != "" || !got.Spec.Suspend || !strings.Contains(suspension.Message(got), c.text) {
			t.Errorf("suspended for %q: %v, %q, annotations (-want +got):\n%s", c.reason, got.Spec.Suspend, suspension.Message(got), diff)
		}
	}
	if err := request(t.Context(), cl, live(), waitFlags{}, &bytes.Buffer{}, suspension.End); err != nil {
		t.Fatal(err)
	}
	if got := live(); got.Spec.Suspend || suspension.Reason(got) != "" {
		t.Errorf("resumed it has %v, %v", got.Spec.Suspend, got.Annotations)
	}
}

// The end of a suspension does not end a rollback: what was kept from being applied stays so.
func TestASyncThatIsSuspendedAndRolledBackIsResumedOneByOne(t *testing.T) {
	const commit = "0123456789012345678901234567890123456789"
	sync := &v1alpha1.Sync{}
	change, err := rollback.To(sync, commit, "nodes hang")
	if err != nil {
		t.Fatal(err)
	}
	change(sync)
	sync.Spec.Suspend = true
	if _, err := resume(sync, true); err == nil {
		t.Error("a rollback is ended while the Sync is suspended")
	}
	to, err := resume(sync, false)
	if err != nil {
		t.Fatal(err)
	}
	to(sync)
	if sync.Spec.Suspend || rollback.Of(sync) != commit || rollback.Reason(sync) != "nodes hang" {
		t.Fatalf("after the first: suspended %v, %v", sync.Spec.Suspend, sync.Annotations)
	}
	// Somebody who resumes it once more, or after the suspension has ended by itself, does not apply what was rolled back.
	if _, err := resume(sync, false); err == nil || !strings.Contains(err.Error(), rollback.Message(sync)) {
		t.Errorf("the rollback is ended by a resume that does not name it: %v", err)
	}
	if to, err = resume(sync, true); err != nil {
		t.Fatal(err)
	}
	to(sync)
	if rollback.Of(sync) != "" || len(sync.Annotations) > 0 {
		t.Errorf("after the second: %v", sync.Annotations)
	}
}

// .ci/argocd records what the actions of config/argocd make of Syncs.
func TestTheActionsForArgoCDWriteWhatTheCommandsWrite(t *testing.T) {
	type named struct {
		Name   string
		Object v1alpha1.Sync
	}
	var cases []named
	var actions []struct {
		Name, Sync, Action string
		Patch              json.RawMessage
	}
	for file, into := range map[string]any{"syncs.yaml": &cases, "actions.yaml": &actions} {
		raw, err := os.ReadFile("../../../.ci/argocd/testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	compared := map[string]bool{}
	for _, action := range actions {
		at := slices.IndexFunc(cases, func(one named) bool { return one.Name == action.Sync })
		scheme := runtime.NewScheme()
		if err := errors.Join(v1alpha1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
			t.Fatal(err)
		}
		live := cases[at].Object.DeepCopy()
		live.Spec.SubstituteFrom = []v1alpha1.SubstituteReference{{Kind: v1alpha1.SubstituteSSMParameter}}
		byArgoCD, byCommand := live.DeepCopy(), &v1alpha1.Sync{}
		cl := fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).Build()
		if err := cl.Patch(t.Context(), byArgoCD, client.RawPatch(types.MergePatchType, action.Patch)); err != nil {
			t.Fatal(err)
		}
		cl = fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).Build()
		err := cl.Get(t.Context(), client.ObjectKeyFromObject(live), byCommand)
		if err != nil {
			t.Fatal(err)
		}
		switch action.Action {
		case "reconcile":
			err = request(t.Context(), cl, byCommand, waitFlags{}, io.Discard, func(*v1alpha1.Sync) {})
		case "update-parameters":
			err = updateParameters(t.Context(), cl, byCommand, waitFlags{}, io.Discard)
		case "resume":
			err = request(t.Context(), cl, byCommand, waitFlags{}, io.Discard, suspension.End)
		case "suspend":
			err = suspension.Suspend(t.Context(), cl, byCommand, byArgoCD.Annotations[v1alpha1.SuspendReasonAnnotation], time.Time{}, true)
		default:
			continue // No command confirms.
		}
		if err != nil {
			t.Fatal(err)
		}
		compared[action.Action] = true
		for _, sync := range []*v1alpha1.Sync{byArgoCD, byCommand} {
			sync.ResourceVersion = ""
			for _, now := range []string{fluxmeta.ReconcileRequestAnnotation, v1alpha1.UpdateParametersAnnotation} {
				if _, err := time.Parse(time.RFC3339Nano, sync.Annotations[now]); err == nil {
					sync.Annotations[now] = "now"
				}
			}
		}
		if diff := cmp.Diff(byCommand, byArgoCD, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-command +Argo CD):\n%s", action.Name, diff)
		}
	}
	if len(compared) != 4 {
		t.Errorf("only these are compared: %v", compared)
	}
}
