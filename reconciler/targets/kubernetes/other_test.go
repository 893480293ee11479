package kubernetes_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plugin makes a DevicePlugin by hand, with labels, until the test ends.
func (b *bench) plugin(t *testing.T, name, labels string) {
	t.Helper()
	b.make(strings.NewReplacer("metadata: {name: $NS}", "metadata: {name: "+name+", labels: {"+labels+"}}").Replace(timeSlices(2)), "kubectl-create")
	t.Cleanup(func() { b.removePlugin(t, name) })
}

func (b *bench) removePlugin(t *testing.T, name string) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "poolwright.dev/v1alpha1", "kind": "DevicePlugin"}}
	u.SetName(strings.ReplaceAll(name, "$NS", b.ns))
	if err := client.IgnoreNotFound(b.hand.Delete(context.WithoutCancel(t.Context()), u)); err != nil {
		t.Error(err)
	}
}

func TestADevicePluginIsRefusedBesideAnother(t *testing.T) {
	for name, c := range map[string]struct{ live, labels, want string }{
		"there is none":         {"", "", ""},
		"nobody's of that name": {"$NS", "", ""},
		"that of a Sync that is gone": {
			"$NS", "poolwright.dev/sync: gone", ""},
		"that of another Sync": {
			"$NS", "poolwright.dev/sync: other", "the cluster has it from the Sync other already: declare it in one of the two"},
		"another name of another Sync": {
			"x-$NS", "poolwright.dev/sync: other", "the cluster has the DevicePlugin x-$NS of the Sync other, and with two of them it would be unclear how GPUs are shared: declare the configurations there, or delete it"},
		"another name of nobody's": {
			"x-$NS", "", "the cluster has the DevicePlugin x-$NS, which no Sync manages, and with two of them it would be unclear how GPUs are shared: give this one its name, or delete it"},
		"another name of our own": {
			"x-$NS", "poolwright.dev/sync: sync-$NS", "the cluster has the DevicePlugin x-$NS, which this Sync made, and with two of them it would be unclear how GPUs are shared: keep that name"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newPluginBench(t)
			b.make("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: $HOME, labels: {poolwright.dev/inventory: other}}", "kubectl-create")
			if c.live != "" {
				b.plugin(t, c.live, c.labels)
			}
			set := b.declare(timeSlices(10))
			if c.want == "" {
				b.applyAll(b.plan(set))
				b.converged(set)
				return
			}
			got := b.problems(set)
			if len(got) != 1 || got[0] != "file0.yaml:1: DevicePlugin.poolwright.dev/$NS: "+c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			desired, _ := b.target.Desired(t.Context(), set)
			if desired.Len() != 0 {
				t.Errorf("it makes %v", desired.Items())
			}
			// Once the other is gone, this one is made without another word.
			b.removePlugin(t, c.live)
			b.applyAll(b.plan(set))
			b.converged(set)
		})
	}
}

func TestTheFirstOwnerStaysWithoutAConfirmation(t *testing.T) {
	b := newPluginBench(t)
	set := b.declare(timeSlices(10))
	b.applyAll(b.plan(set))
	b.converged(set)
	b.plugin(t, "x-$NS", "poolwright.dev/sync: other")
	for _, again := range []func(){func() {}, b.restart} {
		again()
		b.converged(set)
		b.wire.take()
		b.want(set)
		if log := b.wire.take(); len(log) != 0 {
			t.Errorf("it asks %v", log)
		}
	}
}
