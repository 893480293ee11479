package forecasting

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/internal/missingkind"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// SnapshotReader reads what runs in a live cluster. It is safe for concurrent use.
type SnapshotReader struct {
	Reader client.Reader
	// MaxAge is how long the snapshot is cached; with zero it is read anew each time.
	MaxAge time.Duration
	// Observed, where it is not nil, is called with the time at which what Read returns was read.
	Observed func(time.Time)
	// Sync is the value of the label of the Sync whose pools are read; empty for all.
	Sync string

	mu     sync.Mutex
	at     time.Time
	cached provision.ClusterSnapshot
}

// Read returns the snapshot. Its objects are shared, and must not be changed.
func (r *SnapshotReader) Read(ctx context.Context, cluster provision.Cluster) (provision.ClusterSnapshot, error) {
	now := time.Now()
	out, at, err := r.read(ctx, now)
	if err != nil {
		return provision.ClusterSnapshot{}, err
	}
	if r.Observed != nil {
		r.Observed(at)
	}
	out.Cluster, out.Now = cluster, now
	return out, nil
}

// ReadNodePools returns a snapshot of which only the pools and their NodeClaims are read, always anew.
func (r *SnapshotReader) ReadNodePools(ctx context.Context) (provision.ClusterSnapshot, error) {
	var pools karpv1.NodePoolList
	var claims karpv1.NodeClaimList
	for _, objects := range []client.ObjectList{&pools, &claims} {
		if err := missingkind.Ignore(r.Reader.List(ctx, objects)); err != nil {
			return provision.ClusterSnapshot{}, fmt.Errorf("reading the pools of the cluster: %w", err)
		}
	}
	return provision.ClusterSnapshot{NodePools: pointers(pools.Items), NodeClaims: pointers(claims.Items)}, nil
}

// read returns the snapshot, and when it was read.
func (r *SnapshotReader) read(ctx context.Context, now time.Time) (provision.ClusterSnapshot, time.Time, error) {
	if r.MaxAge > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.at.IsZero() && now.Sub(r.at) < r.MaxAge {
			return r.cached, r.at, nil
		}
	}
	out, err := list(ctx, r.Reader)
	if err != nil {
		return provision.ClusterSnapshot{}, now, err
	}
	if r.Sync != "" {
		out = managedSnapshot(out, r.Sync)
	}
	if r.MaxAge > 0 {
		r.at, r.cached = now, out
	}
	return out, now, nil
}

// list reads what there is. The certificate authority of the nodes stays unknown: that of
// the reader's kubeconfig may be written otherwise than the engine's, and every node would
// seem to drift.
func list(ctx context.Context, from client.Reader) (provision.ClusterSnapshot, error) {
	var (
		pools    karpv1.NodePoolList
		classes  awsv1.EC2NodeClassList
		overlays karpv1alpha1.NodeOverlayList
		claims   karpv1.NodeClaimList
		budgets  policyv1.PodDisruptionBudgetList
		sets     appsv1.DaemonSetList
		runtimes nodev1.RuntimeClassList
	)
	var errs []error
	for _, objects := range []client.ObjectList{&pools, &classes, &overlays, &claims, &budgets, &sets, &runtimes} {
		if err := missingkind.Ignore(from.List(ctx, objects)); err != nil {
			errs = append(errs, fmt.Errorf("reading what runs in the cluster: %w", err))
		}
	}
	nodes, err := listNodes(ctx, from)
	errs = append(errs, err)
	pods, err := listPods(ctx, from)
	errs = append(errs, err)
	return provision.ClusterSnapshot{
		NodePools: pointers(pools.Items), NodeClasses: pointers(classes.Items), Overlays: pointers(overlays.Items), NodeClaims: pointers(claims.Items),
		Nodes: nodes, Pods: pods, PodDisruptionBudgets: pointers(budgets.Items), DaemonSets: pointers(sets.Items),
		RuntimeClasses: pointers(runtimes.Items),
	}, errors.Join(errs...)
}

// pageSize is how many nodes or pods are read at once: as they come, a pod takes some ten
// kilobytes, of which a forecast reads a tenth. The API server pages consistent lists only;
// of those that may be old it returns all at once.
const pageSize = 500

func listNodes(ctx context.Context, from client.Reader) ([]*corev1.Node, error) {
	out := []*corev1.Node{}
	for next := ""; ; {
		var page corev1.NodeList
		if err := from.List(ctx, &page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("reading the nodes of the cluster: %w", err)
		}
		for i := range page.Items {
			out = append(out, reduce.Node(&page.Items[i]))
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}

func listPods(ctx context.Context, from client.Reader) ([]*corev1.Pod, error) {
	out := []*corev1.Pod{}
	var pods reduce.Pods
	for next := ""; ; {
		var page corev1.PodList
		if err := from.List(ctx, &page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("reading the pods of the cluster: %w", err)
		}
		for i := range page.Items {
			pod, err := pods.Pod(&page.Items[i])
			if err != nil {
				return nil, fmt.Errorf("reading pod %s/%s: %w", page.Items[i].Namespace, page.Items[i].Name, err)
			}
			out = append(out, pod)
		}
		if next = page.Continue; next == "" {
			return out, nil
		}
	}
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
