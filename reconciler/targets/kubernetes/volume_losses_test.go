package kubernetes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// A NodeClaim is an instance, and data is lost with claims, volumes and some StatefulSets.
func TestInstancesAndDataAreNotDeletedUnconfirmed(t *testing.T) {
	b := newBench(t)
	const volumes = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: $NS}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume-$NS}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Delete, hostPath: {path: /data}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: recycled-$NS}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Recycle, hostPath: {path: /data}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: $NS}
spec:
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  replicas: 0 # else the controller makes the claim, at any time
  serviceName: db
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
  volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
`
	b.reconcile(b.declare(volumes, claim, config, web))
	b.make(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: d-db-0, namespace: $NS}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`, "kube-controller-manager")
	got := map[string]loss.Counts{}
	for _, c := range b.guarded(b.declare(config, web), "").Changes {
		got[c.Key.Kind] = got[c.Key.Kind].Add(c.Before.Losses)
		if c.Admitted() {
			t.Errorf("%s goes without confirmation", c.Key)
		}
	}
	want := map[string]loss.Counts{
		"PersistentVolumeClaim": {"PersistentVolumeClaim": 1}, "PersistentVolume": {"PersistentVolume": 2},
		"StatefulSet": {"PersistentVolumeClaim": 1}, "NodeClaim": {"Node": 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("losses (-want +got):\n%s", d)
	}
}

// Who deletes a Sync with the policy Delete deletes all that it applied, and with any policy
// ends what follows Git.
func TestWhatASyncAppliedCountsWithIt(t *testing.T) {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_syncs.yaml"}}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		spec string
		want loss.Counts
		text string
	}{
		"Delete":    {"deletionPolicy: Delete, path: clusters/dev, ", loss.Counts{"Object": 4}, "clusters/dev of https://git.example/a.git, and deletionPolicy Delete deletes what it applied (3 objects)"},
		"Orphan":    {"deletionPolicy: Orphan, path: ., ", nil, "https://git.example/a.git, and deletionPolicy Orphan leaves what it applied (3 objects) as it is"},
		"no policy": {"", nil, "https://git.example/a.git, and deletionPolicy Orphan leaves what it applied (3 objects) as it is"},
		"suspended": {"deletionPolicy: Delete, suspend: true, ", nil, "https://git.example/a.git, and the deletion of a suspended Sync leaves what it applied (3 objects) as it is"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(`
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: `+b.sync+`, namespace: $NS, labels: {app.kubernetes.io/part-of: poolwright}}
spec: {`+tt.spec+`source: {git: {url: "https://git.example/a.git", ref: {branch: main}}}}
`, config, web))
			for _, c := range b.guarded(b.declare(config, web), "").Changes {
				if d := cmp.Diff(tt.want, c.Before.Losses); d != "" {
					t.Errorf("%s: losses (-want +got):\n%s", c.Key, d)
				}
				if d := cmp.Diff("deleting "+c.Key.String()+": the cluster stops following "+tt.text, c.Hold.String()); d != "" {
					t.Errorf("held (-want +got):\n%s", d)
				}
			}
		})
	}
}
