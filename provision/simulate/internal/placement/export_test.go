package placement

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

type typesByPool = map[string][]*cloudprovider.InstanceType

// PlaceAmongAll is Place with all instance types.
func (f *Simulation) PlaceAmongAll(ctx context.Context, pods []*corev1.Pod, gone map[string]bool) (map[types.UID]Outcome, error) {
	return f.place(ctx, pods, gone, func(_ []*karpv1.NodePool, all typesByPool, _ []*corev1.Pod) typesByPool { return all })
}

// Undominated is how many instance types pools can buy, and of how many of them it is tried whether they hold pods, by pool.
func (f *Simulation) Undominated(pods []*corev1.Pod) map[string][2]int {
	pools, all := f.buyers()
	out := map[string][2]int{}
	for name, types := range f.withoutDominated(pools, all, pods) {
		out[name] = [2]int{len(all[name]), len(types)}
	}
	return out
}
