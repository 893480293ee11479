package startuptaint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
)

func decorate(t *testing.T, inner *cloud, sharing func(context.Context) (gpu.Sharing, error)) (cloudprovider.CloudProvider, *startuptaint.FailureBackoff) {
	t.Helper()
	book := startuptaint.NewFailureBackoff(clocktesting.NewFakeClock(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)))
	return startuptaint.Decorate(startuptaint.Config{Sharing: sharing, Backoff: book, Reader: kube(t, pool("gpu"), pool("plain"))})(inner), book
}

func held(claim *karpv1.NodeClaim) bool {
	return slices.Contains(claim.Spec.StartupTaints, corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule})
}

func TestANodeThatMayHaveSharedGPUsStartsHeld(t *testing.T) {
	unread := func(context.Context) (gpu.Sharing, error) { return gpu.Sharing{}, errors.New("no answer") }
	requesting := claim("gpu", "unknown")
	requesting.Spec.Resources.Requests = list(gpu.SharedResource, 1)
	requestsNone := claim("gpu", "plain")
	requestsNone.Spec.Resources.Requests = list(gpu.Resource, 0, corev1.ResourceCPU, 2)
	loose := claim("gpu", "one")
	loose.Labels = nil
	own := claim("gpu", "one")
	own.Spec.StartupTaints = []corev1.Taint{{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule}}
	for name, c := range map[string]struct {
		claim   *karpv1.NodeClaim
		sharing func(context.Context) (gpu.Sharing, error)
		types   error
		want    bool
	}{
		"whole GPUs":                              {claim("gpu", "one"), sharing("gpu"), nil, true},
		"renamed shares":                          {claim("gpu", "shared"), sharing("gpu"), nil, true},
		"one candidate of several":                {claim("gpu", "plain", "one"), sharing("gpu"), nil, true},
		"any type at all":                         {claim("gpu"), sharing("gpu"), nil, true},
		"no candidate has GPUs":                   {claim("gpu", "plain"), sharing("gpu"), nil, false},
		"no configuration serves the pool":        {claim("gpu", "one"), sharing("another"), nil, false},
		"nothing is shared":                       {claim("gpu", "one"), func(context.Context) (gpu.Sharing, error) { return gpu.Sharing{}, nil }, nil, false},
		"pods request shares, types are unknown":  {requesting, sharing("gpu"), errors.New("not evaluated"), true},
		"no pod requests GPUs, types are unknown": {requestsNone, sharing("gpu"), errors.New("not evaluated"), false},
		"pods request no GPU":                     {requestsNone, sharing("gpu"), nil, false},
		"the sharing cannot be read":              {claim("gpu", "one"), unread, nil, true},
		"neither can be read, no pod requests":    {requestsNone, unread, errors.New("not evaluated"), false},
		"a claim of no pool":                      {loose, sharing("gpu"), nil, false},
		"a pool that is gone":                     {claim("gone", "one"), sharing("gone"), nil, false},
		"the pool has the taint itself":           {own, sharing("gpu"), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &cloud{types: machines(), typesErr: c.types, created: &karpv1.NodeClaim{}}
			provider, _ := decorate(t, inner, c.sharing)
			before := c.claim.DeepCopy()
			created, err := provider.Create(t.Context(), c.claim)
			if err != nil || created != inner.created {
				t.Fatalf("returned %v, %v", created, err)
			}
			if held(inner.launched) != c.want {
				t.Errorf("launched with %v", inner.launched.Spec.StartupTaints)
			}
			if diff := cmp.Diff(before, c.claim); diff != "" {
				t.Errorf("the claim itself changed: %s", diff)
			}
			// Nothing but the one taint may tell the copy from the claim.
			launched := inner.launched.DeepCopy()
			launched.Spec.StartupTaints = before.Spec.StartupTaints
			if diff := cmp.Diff(before, launched); diff != "" {
				t.Errorf("the launched claim differs in more: %s", diff)
			}
			if n := strings.Count(fmt.Sprint(inner.launched.Spec.StartupTaints), gpu.StartupTaint); n > 1 {
				t.Errorf("it has the taint %d times", n)
			}
		})
	}
}

func TestWhatTheProviderReturnsPassesThrough(t *testing.T) {
	refused := cloudprovider.NewInsufficientCapacityError(errors.New("none left"))
	inner := &cloud{types: machines(), createErr: refused}
	provider, _ := decorate(t, inner, sharing("gpu"))
	if created, err := provider.Create(t.Context(), claim("gpu", "one")); created != nil || !cloudprovider.IsInsufficientCapacityError(err) {
		t.Errorf("returned %v, %v", created, err)
	}
	// A provider that hands back what it was given does not hand back the taint.
	back := claim("gpu", "one")
	back.Spec.StartupTaints = append(back.Spec.StartupTaints, corev1.Taint{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule})
	inner.created, inner.createErr = back, nil
	created, err := provider.Create(t.Context(), claim("gpu", "one"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(claim("gpu", "one"), created); diff != "" {
		t.Error(diff)
	}
	if len(back.Spec.StartupTaints) != 2 {
		t.Error("the provider's own object was changed")
	}
}

func TestAnUnreadableDevicePluginIsLoggedOnce(t *testing.T) {
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	var err error
	provider, _ := decorate(t, &cloud{types: machines()}, func(context.Context) (gpu.Sharing, error) { return gpu.Sharing{}, err })
	for _, err = range []error{errors.New("first"), errors.New("first"), nil, errors.New("first")} {
		if _, created := provider.Create(ctx, claim("gpu", "one")); created != nil {
			t.Fatal(created)
		}
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "cannot read the DevicePlugin") {
		t.Errorf("said %q", lines)
	}
}

func TestAHeldPoolHasNoGPUsToAdvertise(t *testing.T) {
	inner := &cloud{types: append(machines(), nil)}
	provider, book := decorate(t, inner, sharing("gpu"))
	inner.types[2].ApplyCapacityOverlay(list(gpu.SharedResource, 40))
	inner.types[1].Offerings[0].ApplyPriceOverlay("7")
	if got, _ := provider.GetInstanceTypes(t.Context(), pool("gpu")); &got[0] != &inner.types[0] {
		t.Error("without a hold, the list is another")
	}
	book.Failed("gpu", "no driver")
	book.Failed("gpu", "no driver")
	got, err := provider.GetInstanceTypes(t.Context(), pool("gpu"))
	if err != nil || len(got) != len(inner.types) {
		t.Fatalf("%d types, %v", len(got), err)
	}
	if got[0] != inner.types[0] || got[3] != nil {
		t.Error("a type without GPUs is another")
	}
	for i := 1; i <= 2; i++ {
		was, is := inner.types[i], got[i]
		if len(is.Offerings) != len(was.Offerings) || len(is.Offerings.Available()) != 0 || len(was.Offerings.Available()) != len(was.Offerings) {
			t.Errorf("%s: %d of %d offerings are available, %d of the provider's", is.Name, len(is.Offerings.Available()), len(is.Offerings), len(was.Offerings.Available()))
		}
		if is.Name != was.Name || is.IsCapacityOverlayApplied() != was.IsCapacityOverlayApplied() || is.IsPricingOverlayApplied() != was.IsPricingOverlayApplied() {
			t.Errorf("%s lost an overlay's mark", was.Name)
		}
		if diff := cmp.Diff(was.Allocatable(), is.Allocatable()); diff != "" {
			t.Errorf("%s: %s", was.Name, diff)
		}
		for j, o := range is.Offerings {
			if o == was.Offerings[j] || o.Price != was.Offerings[j].Price || o.Zone() != was.Offerings[j].Zone() || o.CapacityType() != was.Offerings[j].CapacityType() {
				t.Errorf("%s: offering %d became %+v", is.Name, j, o)
			}
		}
	}
	if other, _ := provider.GetInstanceTypes(t.Context(), pool("plain")); &other[0] != &inner.types[0] {
		t.Error("another pool is held, too")
	}
	book.Reset("gpu")
	if after, _ := provider.GetInstanceTypes(t.Context(), pool("gpu")); &after[0] != &inner.types[0] {
		t.Error("held after a node advertised its GPUs")
	}
}

func TestUntilTheBookIsKnownEveryPoolOfAConfigIsHeld(t *testing.T) {
	known, book := false, startuptaint.NewFailureBackoff(clocktesting.NewFakeClock(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)))
	provider := startuptaint.Decorate(startuptaint.Config{
		Sharing: sharing("gpu"), Backoff: book, Restored: func() bool { return known }, Reader: kube(t),
	})(&cloud{types: machines()})
	advertised := func(name string) []string {
		t.Helper()
		types, err := provider.GetInstanceTypes(t.Context(), pool(name))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, it := range types {
			if len(it.Offerings.Available()) > 0 {
				out = append(out, it.Name)
			}
		}
		return out
	}
	for _, want := range []map[string][]string{
		{"gpu": {"plain"}, "unserved": {"plain", "one", "shared"}},
		{"gpu": {"plain", "one", "shared"}, "unserved": {"plain", "one", "shared"}},
	} {
		if diff := cmp.Diff(want, map[string][]string{"gpu": advertised("gpu"), "unserved": advertised("unserved")}); diff != "" {
			t.Errorf("while it is known %t: %s", known, diff)
		}
		known = true
	}
}

func TestAPoolThatNoConfigServesIsNotHeld(t *testing.T) {
	served := []string{"gpu"}
	provider, book := decorate(t, &cloud{types: machines()}, func(ctx context.Context) (gpu.Sharing, error) { return sharing(served...)(ctx) })
	book.Failed("gpu", "no driver")
	book.Failed("gpu", "no driver")
	available := func() int {
		t.Helper()
		types, err := provider.GetInstanceTypes(t.Context(), pool("gpu"))
		if err != nil {
			t.Fatal(err)
		}
		return len(types[1].Offerings.Available())
	}
	if available() != 0 {
		t.Error("not held")
	}
	if served = nil; available() == 0 {
		t.Error("held though its configuration was taken away")
	}
}

func TestAProviderThatFailsIsNotHeldBack(t *testing.T) {
	broken := errors.New("broken")
	provider, book := decorate(t, &cloud{typesErr: broken}, sharing("gpu"))
	book.Failed("gpu", "no driver")
	book.Failed("gpu", "no driver")
	if _, err := provider.GetInstanceTypes(t.Context(), pool("gpu")); !errors.Is(err, broken) {
		t.Error(err)
	}
}
