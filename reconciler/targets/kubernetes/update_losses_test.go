package kubernetes_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets"
)

const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: $NS}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /none}
`

const database = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: $NS}
spec:
  replicas: 3
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}
  serviceName: db
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
  volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`

// The first claim is made by the StatefulSet's controller, at any time.
const claimsOfDatabase = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: d-db-1, namespace: $NS}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: d-db-2, namespace: $NS}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

const engine = `
apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: $NS}
spec: {name: c, region: eu-west-1, account: "111122223333", engine: {mode: Embedded}, tags: {a: b}}
`

// What a commit can do to nodes and data without deleting anything waits as the deletion
// does, and is counted again before it is sent.
func TestAnUpdateThatLosesNodesOrDataIsCounted(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	static := strings.Replace(pool, "spec:\n", "spec:\n  replicas: 3\n", 1)
	for _, tt := range []struct {
		name, declared string
		// there is what is live beside it.
		there    string
		from, to string
		want     loss.Counts
	}{
		{"the engine is switched off", engine, claim, "mode: Embedded", `mode: "Off"`, loss.Counts{"Engine": 1, "NodeClaim": 1}},
		{"the engine is left to another", engine, claim, "mode: Embedded", "mode: External", loss.Counts{"Engine": 1, "NodeClaim": 1}},
		{"the Cluster becomes another, so that the gates close", engine, claim, "name: c,", "name: d,", loss.Counts{"Engine": 1, "NodeClaim": 1}},
		{"the Cluster moves to another region", engine, claim, "eu-west-1", "eu-west-2", loss.Counts{"Engine": 1, "NodeClaim": 1}},
		{"the queue leaves, and stays in AWS", strings.Replace(engine, "tags", "interruptionQueue: {name: q}, tags", 1), claim, "interruptionQueue: {name: q}, ", "", loss.Counts{"NodeClaim": 1}},
		{"the queue is left to the engine's own name", strings.Replace(engine, "tags", "interruptionQueue: {name: q}, tags", 1), claim,
			"engine: {mode: Embedded}, interruptionQueue: {name: q}", "engine: {mode: Embedded, interruptionQueue: q}", nil},
		{"the engine's own queue leaves", strings.Replace(engine, "{mode: Embedded}", "{mode: Embedded, interruptionQueue: q}", 1), claim,
			", interruptionQueue: q", "", loss.Counts{"NodeClaim": 1}},
		{"a tag of the Cluster changes", engine, claim, "a: b", "a: c", nil},
		{"a static pool becomes smaller", static, nodeWithPod + "---" + anotherNode, "replicas: 3", "replicas: 1", loss.Counts{"Node": 1}},
		{"a static pool becomes larger", static, nodeWithPod, "replicas: 3", "replicas: 4", nil},
		{"a StatefulSet that deletes claims becomes smaller", database, claimsOfDatabase, "replicas: 3", "replicas: 1", loss.Counts{"PersistentVolumeClaim": 2}},
		{"one that begins to delete claims becomes smaller", strings.Replace(database, "whenScaled: Delete", "whenScaled: Retain", 1), claimsOfDatabase,
			"replicas: 3\n  persistentVolumeClaimRetentionPolicy: {whenScaled: Retain}", "replicas: 2\n  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}", loss.Counts{"PersistentVolumeClaim": 1}},
		{"a StatefulSet that keeps claims becomes smaller", strings.Replace(database, "whenScaled: Delete", "whenScaled: Retain", 1), claimsOfDatabase, "replicas: 3", "replicas: 1", nil},
		{"a StatefulSet that deletes claims begins at a later ordinal", strings.Replace(database, "replicas: 3", "replicas: 0", 1), claimsOfDatabase,
			"replicas: 0", "replicas: 1\n  ordinals: {start: 2}", loss.Counts{"PersistentVolumeClaim": 1}},
		{"it has no first ordinal any more", strings.Replace(database, "replicas: 3", "replicas: 0\n  ordinals: {start: 1}", 1), claimsOfDatabase,
			"replicas: 0\n  ordinals: {start: 1}", "replicas: 2", loss.Counts{"PersistentVolumeClaim": 1}},
		{"one that keeps claims begins at a later ordinal", strings.Replace(database, "whenScaled: Delete", "whenScaled: Retain", 1), claimsOfDatabase, "replicas: 3", "replicas: 3\n  ordinals: {start: 5}", nil},
		{"a volume is emptied without its claim", volume, "", "Retain", "Recycle", loss.Counts{"PersistentVolume": 1}},
		{"a volume is emptied instead of deleted", strings.Replace(volume, "Retain", "Delete", 1), "", "Delete", "Recycle", loss.Counts{"PersistentVolume": 1}},
		{"a volume stays without its claim", strings.Replace(volume, "Retain", "Recycle", 1), "", "Recycle", "Retain", nil},
		{"a volume goes with its claim", volume, "", "Retain", "Delete", loss.Counts{"PersistentVolume": 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.noNodeClaims()
			b.noClusters()
			b.reconcile(b.declare(tt.declared))
			after := b.declare(strings.Replace(tt.declared, tt.from, tt.to, 1))
			early := b.guarded(after, "").Changes[0]
			b.hasAccount(b.ns)
			b.make(tt.there, "karpenter")
			t.Cleanup(func() { b.removeAll(tt.there) })
			if tt.there != "" && tt.want != nil {
				grown := &targets.LossesGrownError{}
				if err := b.target.Apply(t.Context(), early); !early.Admitted() || !errors.As(err, &grown) || !grown.Now.Covers(tt.want) {
					t.Errorf("planned before there was anything to lose: held %q, sent %v", early.Hold, err)
				}
			}
			p := b.guarded(after, "")
			if len(p.Changes) != 1 || p.Changes[0].Action != plan.Update {
				t.Fatalf("planned %s", show(p))
			}
			c := p.Changes[0]
			if got := c.Before.Losses; !got.Covers(tt.want) || !tt.want.Covers(got) || !c.Admitted() != (tt.want != nil) {
				t.Errorf("loses %v (%s), want %v; held %q", got, c.Before.Impact, tt.want, c.Hold)
			}
			if tt.want == nil {
				b.reconcile(after)
				return
			}
			confirmed := b.guarded(after, p.Confirmation())
			if !confirmed.Changes[0].Admitted() {
				t.Fatalf("confirmed and held: %s", confirmed.Changes[0].Hold)
			}
			if errs := b.apply(confirmed); len(errs) > 0 {
				t.Fatal(errs)
			}
			b.converged(after)
		})
	}
}

// Whoever confirms an update has read all that it loses, and not one of its fields.
func TestAnUpdateNamesEachFieldThatLosesSomething(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.noNodeClaims()
	b.noClusters()
	b.reconcile(b.declare(strings.Replace(engine, "tags", "interruptionQueue: {name: q}, tags", 1)))
	b.make(claim, "karpenter")
	t.Cleanup(func() { b.removeAll(claim) })
	c := b.guarded(b.declare(strings.NewReplacer("mode: Embedded", `mode: "Off"`, "name: c,", "name: d,").Replace(engine)), "").Changes[0]
	for _, field := range []string{"spec.engine.mode", "spec.name", "spec.interruptionQueue"} {
		if !strings.Contains(c.Before.Impact, field+": ") {
			t.Errorf("%s is missing in %q", field, c.Before.Impact)
		}
	}
	if d := cmp.Diff(loss.Counts{"Engine": 1, "NodeClaim": 1}, c.Before.Losses); d != "" || c.Admitted() {
		t.Errorf("held %q, losses (-want +got):\n%s", c.Hold, d)
	}
}

// A program that makes objects may write a whole number as a float.
func TestANumberThatIsAFloatIsCompared(t *testing.T) {
	static := strings.Replace(pool, "spec:\n", "spec:\n  replicas: 3\n", 1)
	for _, tt := range []struct {
		name, declared, there string
		replicas              float64
		want                  loss.Counts
	}{
		{"a static pool becomes smaller", static, nodeWithPod + "---" + anotherNode, 1, loss.Counts{"Node": 1}},
		{"a static pool becomes larger", static, nodeWithPod, 4, nil},
		{"a StatefulSet that deletes claims becomes smaller", database, claimsOfDatabase, 1, loss.Counts{"PersistentVolumeClaim": 2}},
		{"by part of a pod", database, claimsOfDatabase, 1.5, loss.Counts{"PersistentVolumeClaim": 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(tt.declared))
			b.hasAccount(b.ns)
			b.make(tt.there, "karpenter")
			t.Cleanup(func() { b.removeAll(tt.there) })
			item := b.declare(tt.declared).Items()[0]
			set(item.Object, tt.replicas, "spec", "replicas")
			c := b.guarded(state.NewSet(item), "").Changes[0]
			if got := c.Before.Losses; !got.Covers(tt.want) || !c.Admitted() != (tt.want != nil) {
				t.Errorf("loses %v, want %v; held %q", got, tt.want, c.Hold)
			}
		})
	}
}

// noNodeClaims deletes those that other tests have left: a Cluster counts all.
func (b *bench) noNodeClaims() {
	b.Helper()
	all := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"}}
	if err := b.hand.DeleteAllOf(b.Context(), all); err != nil {
		b.Fatal(err)
	}
}

// noClusters deletes those that other tests have left: the oldest decides.
func (b *bench) noClusters() {
	b.Helper()
	all := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "poolwright.dev/v1alpha1", "kind": "Cluster"}}
	if err := b.hand.DeleteAllOf(b.Context(), all); err != nil {
		b.Fatal(err)
	}
}

// removeAll deletes what make made.
func (b *bench) removeAll(manifest string) {
	for _, item := range b.declare(manifest).Items() {
		_ = b.hand.Delete(context.Background(), &unstructured.Unstructured{Object: item.Object})
	}
}
