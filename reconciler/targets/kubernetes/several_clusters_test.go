package kubernetes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/poolwright/poolwright/reconciler/apply"
)

func clusterOf(name, mode string) string {
	return `
apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: ` + name + `}
spec: {name: c, region: eu-west-1, account: "111122223333", engine: {mode: ` + mode + `}}
`
}

const claimManifest = `
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: claim-%d-$NS}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
`

func benchWithClaims(t *testing.T) *bench {
	if _, err := envtest.InstallCRDs(server, envtest.CRDInstallOptions{Paths: []string{"../../../config/crd/poolwright.dev_clusters.yaml"}}); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.noClusters()
	for i := range 2 {
		b.make(fmt.Sprintf(claimManifest, i), "kubectl-create")
	}
	return b
}

// A person confirms that the engine follows the next Cluster. The next Cluster goes before the
// deletion is made (by hand, or by its own Sync, for which its deletion does not wait since an
// older one stays). The token lets the engine stop.
func TestWhoAllowedThatAnotherClusterTakesOverHasNotAllowedThatTheEngineStops(t *testing.T) {
	for name, atRequest := range map[string]bool{"before the plan": false, "between plan and request": true} {
		t.Run(name, func(t *testing.T) {
			b := benchWithClaims(t)
			b.reconcile(b.declare(clusterOf("cluster", "Embedded"), config))
			b.make(clusterOf("next", "Embedded"), "kubectl-create")
			removed := false
			remove := func() {
				if !removed {
					removed = true
					if err := b.hand.Delete(context.WithoutCancel(t.Context()), b.get("poolwright.dev/v1alpha1", "Cluster", "next")); err != nil {
						t.Error(err)
					}
				}
			}
			defer remove()
			requested := b.guarded(b.declare(config), "")
			token := requested.Confirmation()
			if !strings.Contains(requested.Reasons().String(), "follow Cluster next") {
				t.Fatal("not asked so")
			}
			if !atRequest {
				remove()
			}
			confirmed := b.guarded(b.declare(config), token)
			remove()
			r := b.run(confirmed)
			_, err := b.find("poolwright.dev/v1alpha1", "Cluster", "cluster")
			if r.Status == apply.Applied && apierrors.IsNotFound(err) {
				t.Errorf("confirmed was that the engine follows Cluster next; it is deleted though the engine stops: %s", r.Status)
			}
			b.reconcile(b.declare(config))
		})
	}
}

func TestTheEngineStopsWithAClusterWhoseNextDoesNotTakeItOver(t *testing.T) {
	for name, next := range map[string]string{
		"the next switches the engine off":            clusterOf("next", `"Off"`),
		"the next is of another cluster of EKS":       strings.Replace(clusterOf("next", "Embedded"), "name: c,", "name: d,", 1),
		"the next is of a cluster of another region":  strings.Replace(clusterOf("next", "Embedded"), "eu-west-1", "eu-west-2", 1),
		"the next is of a cluster of another account": strings.Replace(clusterOf("next", "Embedded"), "111122223333", "444455556666", 1),
	} {
		t.Run(name, func(t *testing.T) {
			b := benchWithClaims(t)
			b.reconcile(b.declare(clusterOf("cluster", "Embedded"), config))
			b.make(next, "kubectl-create")
			defer func() {
				_ = b.hand.Delete(context.WithoutCancel(t.Context()), b.get("poolwright.dev/v1alpha1", "Cluster", "next"))
			}()
			requested := b.guarded(b.declare(config), "")
			if !strings.Contains(requested.Confirmation(), "+1Engine") {
				t.Errorf("the engine stops, and a person is asked: %s", requested.Reasons())
			}
			b.reconcile(b.declare(config))
		})
	}
}
