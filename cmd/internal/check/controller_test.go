package check

import (
	"context"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/config/crd"
	"github.com/poolwright/poolwright/provision/engine/gate"
)

// installedCRDs are those of this program, as a cluster serves them.
func installedCRDs(t *testing.T, change func(*apiextensionsv1.CustomResourceDefinition)) []client.Object {
	t.Helper()
	known, err := crds.Known()
	if err != nil {
		t.Fatal(err)
	}
	var out []client.Object
	for _, c := range known {
		c.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		change(c)
		out = append(out, c)
	}
	return out
}

func TestCRDsAreThoseOfThisVersion(t *testing.T) {
	onSyncs := func(change func(*apiextensionsv1.CustomResourceDefinition)) func(*apiextensionsv1.CustomResourceDefinition) {
		return func(c *apiextensionsv1.CustomResourceDefinition) {
			if c.Name == "syncs.poolwright.dev" {
				change(c)
			}
		}
	}
	serial := func(n int) func(*apiextensionsv1.CustomResourceDefinition) {
		return onSyncs(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Annotations[crd.SerialAnnotation] = strconv.Itoa(n)
		})
	}
	for name, c := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   expected
	}{
		"those of this version": {func(*apiextensionsv1.CustomResourceDefinition) {}, expected{OK, "", "all 7 CRDs are installed; ours have the serial " + strconv.Itoa(crd.Serial), ""}},
		"an older one":          {serial(crd.Serial - 1), expected{Warning, "CRD syncs.poolwright.dev", "older release", "update the controller"}},
		"a newer one":           {serial(crd.Serial + 1), expected{Warning, "CRD syncs.poolwright.dev", "newer release", "update this program"}},
		"one without a serial":  {onSyncs(func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations = nil }), expected{Warning, "CRD syncs.poolwright.dev", "no serial", ""}},
		"one that is not served": {onSyncs(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions[0].Status = apiextensionsv1.ConditionFalse
		}),
			expected{Failed, "CRD syncs.poolwright.dev", "does not serve it", "describe crd syncs.poolwright.dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, []expected{c.want}, fixture{objects: installedCRDs(t, c.change)}.checker(t).crds(t.Context()))
		})
	}
	if got := (fixture{}).checker(t).crds(t.Context()); len(got) != 7 || got[0].Status != Failed || got[0].Message != "it is not installed" {
		t.Errorf("without any: %+v", got)
	}
}

func TestTheControllerIsAvailable(t *testing.T) {
	with := func(available, updated int32) *appsv1.Deployment {
		d := deployment(home, "poolwright", "registry.example.com/poolwright:v0.1.0", 2)
		d.Status.AvailableReplicas, d.Status.UpdatedReplicas = available, updated
		return d
	}
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "p", Labels: map[string]string{"app.kubernetes.io/name": "poolwright"}}}
	waiting.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	for name, c := range map[string]struct {
		has  []client.Object
		want expected
	}{
		"all replicas":      {[]client.Object{with(2, 2)}, expected{OK, "", "2 of 2 replicas are available", ""}},
		"one of two":        {[]client.Object{with(1, 2)}, expected{Warning, "", "1 of 2 replicas are available", "describe pods"}},
		"a rollout":         {[]client.Object{with(2, 1)}, expected{Warning, "", "2 of 2", ""}},
		"none":              {[]client.Object{with(0, 2), waiting}, expected{Failed, "", "0 of 2 replicas are available: ImagePullBackOff: no such image", "describe pods"}},
		"none is desired":   {[]client.Object{deployment(home, "poolwright", "x", 0)}, expected{Failed, "", "scaled to zero", ""}},
		"none is installed": {nil, expected{Failed, "", "no Deployment poolwright in namespace " + home, "-n"}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, []expected{c.want}, fixture{objects: c.has}.checker(t).controller(t.Context()))
		})
	}
}

func TestTheControllersVersionIsComparedWithThisProgram(t *testing.T) {
	for image, want := range map[string]expected{
		"registry.example.com:5000/poolwright:v0.1.0":           {OK, "", "0.1.0, as this program", ""},
		"registry.example.com/poolwright:v0.1.0@sha256:77":      {OK, "", "0.1.0, as this program", ""},
		"registry.example.com/poolwright:v0.2.0":                {Warning, "", "the controller is 0.2.0, this program 0.1.0", "same version"},
		"registry.example.com:5000/poolwright":                  {OK, "", "image is registry.example.com:5000/poolwright", ""},
		"registry.example.com/poolwright@sha256:77":             {OK, "", "sha256:77", ""},
		"111122223333.dkr.ecr.eu-west-1.amazonaws.com/pw:dev-1": {OK, "", "pw:dev-1, this program is v0.1.0", ""},
	} {
		t.Run(image, func(t *testing.T) {
			d := deployment(home, "poolwright", image, 2)
			d.Spec.Template.Spec.Containers[0].Name = "poolwright"
			compare(t, []expected{want}, fixture{objects: []client.Object{d}}.checker(t).controllerVersion(t.Context()))
		})
	}
}

// lease was renewed so long ago.
func lease(holder string, ago time.Duration) *coordinationv1.Lease {
	renewed := metav1.NewMicroTime(now().Add(-ago))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "poolwright", Labels: gate.LeaseLabels(true)},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}
}

func TestALeaderRenewsItsLease(t *testing.T) {
	for name, c := range map[string]struct {
		has  []client.Object
		want expected
	}{
		"a leader":            {[]client.Object{lease("pod-a", 2*time.Second)}, expected{OK, "", "pod-a leads, with the engine", ""}},
		"a lease that is old": {[]client.Object{lease("pod-a", 5*time.Minute)}, expected{Failed, "", "pod-a has not renewed the lease since 2026-11-24T11:55:00Z", "logs"}},
		"a lease of nobody":   {[]client.Object{lease("", time.Second)}, expected{Failed, "", "given up", ""}},
		"no lease":            {nil, expected{Failed, "", "no controller has led", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, []expected{c.want}, fixture{objects: c.has}.checker(t).leader(t.Context()))
		})
	}
}

func TestALeaderWithAnotherClockLeads(t *testing.T) {
	c := fixture{objects: []client.Object{lease("pod-a", time.Hour)}}.checker(t)
	reads := 0
	c.Kube = interceptor.NewClient(c.Kube.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, in client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := in.Get(ctx, key, object, options...)
			if l, is := object.(*coordinationv1.Lease); is && err == nil {
				reads++
				l.Spec.RenewTime = &metav1.MicroTime{Time: l.Spec.RenewTime.Add(time.Duration(reads) * time.Second)}
			}
			return err
		},
	})
	compare(t, []expected{{Warning, "", "its clock differs from this one by about 59m59s", "clock"}}, c.leader(t.Context()))
}
