package kubernetes_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// A Sync takes over its own object from the installation, and nothing else.
func TestASyncTakesOverItselfFromTheInstallationAlone(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_syncs.yaml"}}); err != nil {
		t.Fatal(err)
	}
	const itself = `
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: SYNC, namespace: $HOME}
spec: {interval: 1m, source: {git: {url: "https://git.example/a.git", ref: {branch: main}}}}
`
	again := func(b *bench, labels map[string]string) {
		live := &unstructured.Unstructured{}
		for _, item := range b.declare(named(b.sync, itself)).Items() {
			live.SetUnstructuredContent(item.Object)
		}
		live.SetLabels(labels)
		if err := b.hand.Create(b.Context(), live); err != nil {
			b.Fatal(err)
		}
	}
	remove := func(b *bench) {
		live := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "poolwright.dev/v1alpha1", "kind": "Sync"}}
		live.SetNamespace(b.home)
		live.SetName(b.sync)
		if err := b.hand.Delete(b.Context(), live); err != nil {
			b.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		// made is what the installation makes, by the Sync maker.
		made, madeBy string
		// since is what happens to it afterwards.
		since func(b *bench)
		owner string
	}{
		{"its own object, made by bootstrap, is taken over", itself, kubernetes.Installation, nil, ""},
		{"another object of the installation is not", strings.Replace(itself, "name: SYNC", "name: other", 1), kubernetes.Installation, nil, "Sync " + kubernetes.Installation},
		{"one of its name in another namespace is not", strings.Replace(itself, "$HOME", "$NS", 1), kubernetes.Installation, nil, "Sync " + kubernetes.Installation},
		{"its own object that another Sync made is not", itself, "another", nil, "Sync another"},
		{"one that was made anew with a copied label is not", itself, kubernetes.Installation, func(b *bench) {
			remove(b)
			again(b, map[string]string{"poolwright.dev/sync": kubernetes.Installation})
		}, "Sync " + kubernetes.Installation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			name := b.sync
			b.sync = tt.madeBy
			b.restart()
			b.reconcile(b.declare(named(name, tt.made)))
			b.sync = name
			b.restart()
			if tt.since != nil {
				tt.since(b)
			}
			declared := b.declare(strings.Replace(named(name, tt.made), "1m", "2m", 1))
			p := b.plan(declared)
			if len(p.Changes) != 1 || p.Changes[0].Action != plan.Update || p.Changes[0].Before.Owner.String() != tt.owner {
				t.Fatalf("planned %s, owner %q, want %q", show(p), p.Changes[0].Before.Owner, tt.owner)
			}
			errs := b.apply(p)
			if refused := len(errs) > 0; refused != (tt.owner != "") {
				t.Fatalf("applied: %v", errs)
			}
			if tt.owner == "" {
				b.converged(declared)
				b.restart()
				b.converged(declared)
			}
		})
	}
}

// named is a manifest with the name of a Sync.
func named(name, manifest string) string { return strings.ReplaceAll(manifest, "SYNC", name) }

// Who may write ConfigMaps of a namespace can write one that looks like ours to the last
// field. It is not in the inventory, which is written before each object is.
func TestWhatATenantMarksAsOursNeedsNoConfirmation(t *testing.T) {
	const mine = `
apiVersion: v1
kind: ConfigMap
metadata: {name: mine, namespace: $NS}
`
	for _, tt := range []struct {
		name string
		// lost is true where the inventory was deleted, so that labels are all there is.
		lost bool
		want []string
	}{
		{"with the inventory it is nobody's", false, nil},
		{"without it, a token is required", true, []string{"delete ConfigMap/$NS/tenant"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(mine))
			forged := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			forged.SetNamespace(b.ns)
			forged.SetName("tenant")
			forged.SetLabels(b.get("v1", "ConfigMap", "mine").GetLabels())
			if err := b.hand.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(forged), client.FieldOwner("poolwright"), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
			if tt.lost {
				for _, shard := range b.shards() {
					if err := b.hand.Delete(t.Context(), &shard); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.restart()
			p := b.guarded(b.declare(mine), "")
			var got []string
			for _, c := range p.Changes {
				got = append(got, string(c.Action)+" "+strings.ReplaceAll(c.Key.String(), b.ns, "$NS"))
				if c.Admitted() {
					t.Errorf("%s is not held", c.Key)
				}
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("planned %v, want %v", got, tt.want)
			}
		})
	}
}

// Bootstrap, or a commit, that declares a Sync which is being deleted cannot wait for its end alone: that
// may be held until it is confirmed.
func TestASyncThatIsBeingDeletedNamesWhatLetsItGo(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_syncs.yaml"}}); err != nil {
		t.Fatal(err)
	}
	for kind, tt := range map[string]struct {
		yaml string
		want bool
	}{
		"Sync": {`
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: leaving, namespace: $NS, finalizers: [example.com/hold]}
spec: {source: {git: {url: "https://git.example/a.git", ref: {branch: main}}}}
`, true},
		"ConfigMap": {strings.Replace(config, "namespace: $NS", "namespace: $NS, finalizers: [example.com/hold]", 1), false},
	} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(tt.yaml))
			for _, item := range b.declare(tt.yaml).Items() {
				live := &unstructured.Unstructured{Object: item.Object}
				if err := b.hand.Delete(t.Context(), live); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					err := b.hand.Patch(context.Background(), live, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
					if err != nil {
						t.Error(err)
					}
				})
			}
			p := b.plan(b.declare(tt.yaml))
			for _, err := range b.apply(p) {
				_, reason, _ := state.Classify(err)
				named := strings.Contains(err.Error(), "condition Ready") && strings.Contains(err.Error(), "spec.deletionPolicy: Orphan")
				if reason != "Terminating" || named != tt.want {
					t.Errorf("%s: %v", reason, err)
				}
			}
			if len(p.Changes) != 1 {
				t.Errorf("planned %v", b.lines(p))
			}
		})
	}
}
