package kubernetes_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

const controllerDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: poolwright, namespace: $HOME}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
`

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`

const gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: a, namespace: $NS}\n"

func TestAnUpdateOfTheInstallationOrOfAKindIsCounted(t *testing.T) {
	b := engineBench(t)
	own := strings.ReplaceAll(controllerDeployment, "$HOME", b.home)
	other := strings.ReplaceAll(controllerDeployment, "$HOME", "$NS")
	for _, tt := range []struct {
		name, declared, there, from, to string
		want                            loss.Counts
	}{
		{"the controller is scaled to zero", own, "", "replicas: 2", "replicas: 0", loss.Counts{"Object": 1}},
		{"it has one replica less", own, "", "replicas: 2", "replicas: 1", nil},
		{"a Deployment elsewhere is scaled to zero", other, "", "replicas: 2", "replicas: 0", nil},
		{"a version that objects are stored in is not served any more", gadgets, gadget,
			"v1, served: true", "v1, served: false", loss.Counts{"Gadget": 1}},
		{"a version that none is stored in is not served any more", gadgets, gadget, "v2, served: true", "v2, served: false", nil},
		{"there is no object", gadgets, "", "v1, served: true", "v1, served: false", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := b.declare(tt.declared)
			b.reconcile(before)
			if tt.there != "" {
				b.retry(func() error { b.make(tt.there, "hand"); return nil })
				t.Cleanup(func() { b.removeAll(tt.there) })
			}
			p := b.guarded(b.declare(strings.Replace(tt.declared, tt.from, tt.to, 1)), "")
			if len(p.Changes) != 1 || p.Changes[0].Action != plan.Update {
				t.Fatalf("planned %s", show(p))
			}
			c := p.Changes[0]
			if got := c.Before.EffectiveLosses(); !got.Covers(tt.want) || !tt.want.Covers(got) || !c.Admitted() != (tt.want != nil) {
				t.Errorf("loses %v (%s), want %v; held %q", got, c.Before.Impact, tt.want, c.Hold)
			}
		})
	}
}

// The pods on a Node are deleted with it, and Karpenter terminates its instance.
func TestADeclaredNodeIsNotDeletedUnconfirmed(t *testing.T) {
	b := newBench(t)
	node := "apiVersion: v1\nkind: Node\nmetadata: {name: $NS}\n"
	b.hasAccount(b.ns)
	b.reconcile(b.declare(node, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays, namespace: $NS}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: too, namespace: $NS}\n"))
	b.make("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: $NS}\nspec: {nodeName: $NS, containers: [{name: c, image: i}]}\n", "hand")
	p := b.guarded(b.declare("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stays, namespace: $NS}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: too, namespace: $NS}\n"), "")
	if len(p.Changes) != 1 || p.Changes[0].Action != plan.Delete {
		t.Fatalf("planned %s", show(p))
	}
	c, want := p.Changes[0], loss.Counts{"Node": 1, "Pod": 1}
	if got := c.Before.Losses; !got.Covers(want) || !want.Covers(got) || c.Admitted() {
		t.Errorf("loses %v (%s), want %v; held %q", got, c.Before.Impact, want, c.Hold)
	}
}

// What a commit's author wrote into a Sync that the next commit removes is in the message by which a
// person confirms: it must not read as a part of that, nor reorder it. Control characters do not get
// that far: the CRD refuses them.
func TestTheMessageOnARemovedSyncQuotesWhatACommitWroteIntoIt(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_syncs.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.reconcile(b.declare(`
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: `+b.sync+`, namespace: $NS, labels: {app.kubernetes.io/part-of: poolwright}}
spec: {path: "x; confirm with: kubectl create clusterrolebinding a --clusterrole=cluster-admin --user='mallory'; \"y\"\u202e", source: {git: {url: "https://git.example/a.git", ref: {branch: main}}}}
`, config, web))
	p := b.guarded(b.declare(config, web), "")
	if len(p.Changes) != 1 || p.Changes[0].Admitted() {
		t.Fatalf("planned %s", show(p))
	}
	for _, c := range p.Changes {
		if text := c.Hold.String(); strings.ContainsRune(text, '\u202e') || strings.Contains(text, "following x; confirm with: kubectl create") {
			t.Errorf("held: %q", text)
		}
	}
}
