package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestAnInstallationIsRenderedForItsPlace(t *testing.T) {
	items, err := Manifests{Namespace: "gpu", Image: "registry.example.com/p@sha256:1", RoleARN: "arn:aws:iam::111122223333:role/p"}.Objects()
	if err != nil {
		t.Fatal(err)
	}
	set := state.NewSet(items...)
	find := func(kind, namespace, name string) *unstructured.Unstructured {
		for _, item := range set.Items() {
			if item.Key.Kind == kind && item.Key.Namespace == namespace && item.Key.Name == name {
				return &unstructured.Unstructured{Object: item.Object}
			}
		}
		t.Fatalf("there is no %s %s/%s", kind, namespace, name)
		return nil
	}
	find("Namespace", "", "gpu")
	find("Role", "kube-system", "poolwright-engine-dns")
	if got := find("ServiceAccount", "gpu", "poolwright").GetAnnotations()[RoleAnnotation]; got != "arn:aws:iam::111122223333:role/p" {
		t.Errorf("the role is %q", got)
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(find("Deployment", "gpu", "poolwright").Object, &d); err != nil {
		t.Fatal(err)
	}
	if got := d.Spec.Template.Spec.Containers[0].Image; got != "registry.example.com/p@sha256:1" {
		t.Errorf("the image is %q", got)
	}
	var b rbacv1.RoleBinding
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(find("RoleBinding", "kube-system", "poolwright-engine-dns").Object, &b); err != nil {
		t.Fatal(err)
	}
	if b.Subjects[0].Namespace != "gpu" {
		t.Errorf("the binding is for %+v", b.Subjects)
	}
	for _, item := range set.Items() {
		if raw := find(item.Key.Kind, item.Key.Namespace, item.Key.Name); strings.Contains(dumped(raw), "poolwright-system") && item.Key.Kind != "CustomResourceDefinition" || item.Key.Namespace == "poolwright-system" {
			t.Errorf("%s is still in the namespace of config/", item.Key)
		}
		labels := (&unstructured.Unstructured{Object: item.Object}).GetLabels()
		if labels[PartOfLabel] != Deployment {
			t.Errorf("%s does not say that it is part of Poolwright, so uninstall would not find it", item.Key)
		}
	}
	definition := find("CustomResourceDefinition", "", "syncs.poolwright.dev")
	if definition.GetAnnotations()[crd.SerialAnnotation] == "" {
		t.Error("the running controller would write the CRDs again")
	}
}

func TestTheDefinitionsOfANewerReleaseStay(t *testing.T) {
	items, err := Manifests{Namespace: "gpu", Image: "x"}.Objects()
	if err != nil {
		t.Fatal(err)
	}
	definition := func(name, serial string) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{crd.SerialAnnotation: serial}}}
	}
	kept, newer, err := WithoutNewerCRDs(t.Context(), reconcilertest.InstalledClient(t, definition("syncs.poolwright.dev", "9999"), definition("clusters.poolwright.dev", "1")), items)
	if d := cmp.Diff([]string{"syncs.poolwright.dev"}, newer); d != "" || err != nil || len(kept) != len(items)-1 {
		t.Errorf("kept %d of %d, %v: %s", len(kept), len(items), err, d)
	}
}

func TestWithoutAnImageTheInstalledOneStays(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: "poolwright"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "s"}, {Name: "poolwright", Image: "p:1", Env: []corev1.EnvVar{{Name: CABundleVariable, Value: "Y2E="}}}}
	if got, err := ReadLive(t.Context(), reconcilertest.InstalledClient(t, d), "gpu"); got != (Live{Image: "p:1", CABundle: "Y2E="}) || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := ReadLive(t.Context(), reconcilertest.InstalledClient(t), "gpu"); got != (Live{}) || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTheInstalledControllerWatchesTheSyncsOfItsFlag(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
		not  bool
	}{
		"without the flag all":              {args: []string{"run", "--history=false"}},
		"behind an equals sign":             {args: []string{"run", "--watch-label-selector=stage in (canary,dev)"}, want: "stage in (canary,dev)"},
		"as the next argument":              {args: []string{"run", "--watch-label-selector", "stage=canary", "--history"}, want: "stage=canary"},
		"the last of two":                   {args: []string{"--watch-label-selector=a=b", "--watch-label-selector=stage=canary"}, want: "stage=canary"},
		"an empty one is all":               {args: []string{"--watch-label-selector="}},
		"another flag that begins the same": {args: []string{"--watch-label-selector-x=a=b"}},
		"one that is invalid is an error":   {args: []string{"--watch-label-selector=$(SELECTOR)"}, not: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: Deployment}}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Args: []string{"--watch-label-selector=x=y"}}, {Name: Deployment, Args: c.args}}
			got, err := Watched(t.Context(), reconcilertest.InstalledClient(t, d), "gpu")
			if (err != nil) != c.not || err == nil && got.String() != c.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if got, err := Watched(t.Context(), reconcilertest.InstalledClient(t), "gpu"); err != nil || !got.Empty() {
		t.Errorf("without a Deployment: %v, %v", got, err)
	}
}

func TestASyncCountsAsReconciledOnlyWhereTheInstalledControllerSelectsIt(t *testing.T) {
	const selected, notSelected, notKnown = "selected", "not selected", "not known"
	for name, c := range map[string]struct {
		labels map[string]string
		flag   string
		get    error
		want   string
		// has is in the error.
		has string
	}{
		"all are selected":           {want: selected},
		"its labels match":           {labels: map[string]string{"stage": "canary"}, flag: "--watch-label-selector=stage=canary", want: selected},
		"its labels do not":          {labels: map[string]string{"stage": "dev"}, flag: "--watch-label-selector=stage=canary", want: notSelected, has: "--watch-label-selector=stage=canary of Deployment gpu/poolwright"},
		"it has none":                {flag: "--watch-label-selector=stage=canary", want: notSelected, has: "Sync dev"},
		"the Deployment is not read": {labels: map[string]string{"stage": "canary"}, flag: "--watch-label-selector=stage=canary", get: apierrors.NewForbidden(schema.GroupResource{}, Deployment, nil), want: notKnown, has: "reading Deployment gpu/poolwright"},
		"an outage":                  {get: apierrors.NewServiceUnavailable("no leader"), want: notKnown, has: "no leader"},
		"a variable of the kubelet":  {labels: map[string]string{"stage": "canary"}, flag: "--watch-label-selector=$(SELECTOR)", want: notKnown, has: "--watch-label-selector of Deployment gpu/poolwright"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: Deployment}}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: Deployment, Args: []string{"run", c.flag}}}
			cl := interceptor.NewClient(reconcilertest.InstalledClient(t, d).(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if c.get != nil {
					return c.get
				}
				return cl.Get(ctx, key, o, opts...)
			}})
			err := CheckWatched(t.Context(), cl, &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: "dev", Labels: c.labels}})
			got := notKnown
			if _, is := errors.AsType[NotWatchedError](err); is {
				got = notSelected
			} else if err == nil {
				got = selected
			}
			if got != c.want || err != nil && !strings.Contains(err.Error(), c.has) {
				t.Errorf("it is %s, want %s: %v", got, c.want, err)
			}
		})
	}
}

func TestWaitingReportsEachObjectOnceAndEndsWithTheLast(t *testing.T) {
	var got []string
	report := func(line string) { got = append(got, line) }
	calls := 0
	err := Await(t.Context(), time.Minute, report, func(context.Context) (bool, string, error) {
		calls++
		return calls > 1, "half", nil
	})
	if err != nil || !slices.Equal(got, []string{"half"}) {
		t.Errorf("said %q, %v", got, err)
	}
	err = Await(t.Context(), time.Millisecond, report, func(context.Context) (bool, string, error) { return false, "1 of 2", nil })
	if err == nil || !strings.Contains(err.Error(), "after 1ms still: 1 of 2") {
		t.Errorf("got %v", err)
	}
	broken := errors.New("broken")
	if err := Await(t.Context(), time.Minute, report, func(context.Context) (bool, string, error) { return false, "", broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Await(ctx, time.Minute, report, func(context.Context) (bool, string, error) { return false, "", ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func dumped(o *unstructured.Unstructured) string { return fmt.Sprint(o.Object) }
