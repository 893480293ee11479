package batcher

import (
	"context"
	"sync"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

const (
	// evaluationInterval is the time between two checks of NodePools that are not evaluated: each
	// lists all instance types.
	evaluationInterval = 50 * time.Millisecond
	// evaluationTimeout is how long a batch waits for a NodePool. It is the time after which a pod that
	// was not scheduled comes again, so that no pod waits longer for it than without the check.
	evaluationTimeout = 10 * time.Second
)

// EvaluatedPools reports whether Karpenter has evaluated the NodeOverlays of all NodePools that it can launch
// nodes for. Until then, which is some hundred milliseconds after the engine starts or a NodePool
// is created, it leaves the NodePool out, and pods that only fit there come again ten seconds later.
// Karpenter's own window is longer than that. Make it with NewEvaluatedPools.
type EvaluatedPools struct {
	clock clock.PassiveClock
	pools client.Reader
	cloud cloudprovider.CloudProvider

	mu sync.Mutex
	// since is when each was first found not to be evaluated; evaluated are those of which nothing is checked any more,
	// those that took too long among them.
	since     map[types.UID]time.Time
	evaluated map[types.UID]bool
	// checked is when one was last found not to be evaluated.
	checked time.Time
}

// NewEvaluatedPools reads NodePools from a cache, and whether they are evaluated from the cloud provider with
// Karpenter's decorator for NodeOverlays.
func NewEvaluatedPools(clk clock.PassiveClock, pools client.Reader, cloud cloudprovider.CloudProvider) *EvaluatedPools {
	return &EvaluatedPools{clock: clk, pools: pools, cloud: cloud, since: map[types.UID]time.Time{}, evaluated: map[types.UID]bool{}}
}

// All is true once all are evaluated, and where one takes longer than ten seconds, or NodePools cannot be
// listed: then Karpenter schedules without it.
func (e *EvaluatedPools) All(ctx context.Context) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	if now.Sub(e.checked) < evaluationInterval {
		return false
	}
	list := &karpv1.NodePoolList{}
	if err := e.pools.List(ctx, list); err != nil {
		return true // Karpenter lists them as well, and reports it.
	}
	for i := range list.Items {
		if !e.one(ctx, &list.Items[i], now) {
			e.checked = now
			return false
		}
	}
	return true
}

// one reports whether a batch need not wait for the NodePool.
func (e *EvaluatedPools) one(ctx context.Context, pool *karpv1.NodePool, now time.Time) bool {
	if e.evaluated[pool.UID] || !provisions(pool) {
		return true
	}
	_, err := e.cloud.GetInstanceTypes(ctx, pool)
	if cloudprovider.IsUnevaluatedNodePoolError(err) {
		since, known := e.since[pool.UID]
		if !known {
			since = now
			e.since[pool.UID] = now
		}
		if now.Sub(since) < evaluationTimeout {
			return false
		}
	}
	delete(e.since, pool.UID)
	e.evaluated[pool.UID] = true
	return true
}

// provisions reports whether Karpenter launches nodes for pending pods from the NodePool.
func provisions(pool *karpv1.NodePool) bool {
	return pool.DeletionTimestamp.IsZero() && !nodepool.IsStatic(pool) && pool.StatusConditions().IsTrue(status.ConditionReady)
}
