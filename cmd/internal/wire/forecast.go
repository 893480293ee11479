package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/plan"
)

// forecast tells what a plan's changes of pools do to nodes, pods and money; nil
// where it changes no pool, class or overlay, or where no Cluster says in which
// region they are. What only a person may change is not taken as done; what waits
// for a confirmation is. A plan is worth showing without it, so that whatever keeps
// it from being made is told in it.
func forecast(ctx context.Context, cfg *rest.Config, p plan.Plan) *provision.Forecast {
	changes := slices.DeleteFunc(slices.Clone(p.Changes), func(c plan.Change) bool { return c.Standing() || !provisions(c) })
	if len(changes) == 0 {
		return nil
	}
	direct, err := directClient(cfg)
	if err != nil {
		return untold("What the change does to nodes, pods and money: " + err.Error() + ".")
	}
	told, err := foresee(ctx, direct, changes)
	if err != nil {
		return untold("What the change does to nodes, pods and money: " + err.Error() + ".")
	}
	return told
}

// untold is a forecast that says only why there is none.
func untold(why string) *provision.Forecast {
	return &provision.Forecast{
		Pools: []provision.Pool{}, Replaced: []provision.Node{}, Drifted: []provision.Node{}, Removed: []provision.Removal{},
		Rollout: provision.Rollout{Assumed: []string{}}, Cost: provision.Cost{Prices: []provision.Price{}},
		Fit:     provision.Fit{Scheduled: []provision.Placement{}, Unscheduled: []provision.Placement{}, Waiting: []provision.Placement{}},
		Unknown: []string{why},
	}
}

// foresee reads the live cluster and compares it with what the changes make of it.
func foresee(ctx context.Context, live client.Reader, changes []plan.Change) (*provision.Forecast, error) {
	now, err := readStance(ctx, live)
	if err != nil || now.cluster == nil {
		return nil, err
	}
	settings := settingsOf(now.cluster.Spec)
	before, err := liveFleet(ctx, live, provision.Cluster{Region: settings.Region}, time.Now())
	if err != nil {
		return nil, err
	}
	after, err := changed(before, changes)
	if err != nil {
		return nil, err
	}
	types, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	told, err := simulate.Compare(engine.Offline(ctx, settings), before, after, types)
	if err != nil {
		return nil, err
	}
	return &told, nil
}

// provisions tells whether a change is one of what nodes are made from.
func provisions(c plan.Change) bool {
	switch c.Key.Group {
	case karpenterGroup:
		return c.Key.Kind == "NodePool" || c.Key.Kind == "NodeOverlay"
	case nodeClassGroup:
		return c.Key.Kind == "EC2NodeClass"
	}
	return false
}

const karpenterGroup = "karpenter.sh"

// liveFleet reads what there is. The authority that nodes were told stays unknown:
// that of the reader's kubeconfig may be written otherwise than the engine's, and
// every node would seem to drift.
func liveFleet(ctx context.Context, from client.Reader, in provision.Cluster, now time.Time) (provision.Fleet, error) {
	var (
		pools    karpv1.NodePoolList
		classes  awsv1.EC2NodeClassList
		overlays karpv1alpha1.NodeOverlayList
		claims   karpv1.NodeClaimList
		nodes    corev1.NodeList
		pods     corev1.PodList
		budgets  policyv1.PodDisruptionBudgetList
		sets     appsv1.DaemonSetList
	)
	var errs []error
	for _, list := range []client.ObjectList{&pools, &classes, &overlays, &claims, &nodes, &pods, &budgets, &sets} {
		if err := known(from.List(ctx, list)); err != nil {
			errs = append(errs, fmt.Errorf("reading what runs in the cluster: %w", err))
		}
	}
	return provision.Fleet{
		Cluster: in, Now: now,
		NodePools: each(pools.Items), NodeClasses: each(classes.Items), Overlays: each(overlays.Items), NodeClaims: each(claims.Items),
		Nodes: each(nodes.Items), Pods: each(pods.Items), Budgets: each(budgets.Items), DaemonSets: each(sets.Items),
	}, errors.Join(errs...)
}

func each[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// changed is the fleet with the changes made. What a live object's status tells of
// AWS stays true of it.
func changed(from provision.Fleet, changes []plan.Change) (provision.Fleet, error) {
	reader, err := simulate.NewReader()
	if err != nil {
		return provision.Fleet{}, err
	}
	to := from
	to.NodePools, to.NodeClasses, to.Overlays = slices.Clone(from.NodePools), slices.Clone(from.NodeClasses), slices.Clone(from.Overlays)
	for _, c := range changes {
		drop(&to, c.Key.Kind, c.Key.Name)
		if c.After == nil {
			continue
		}
		if err := reader.Add(&to, c.After.Object); err != nil {
			return provision.Fleet{}, err
		}
	}
	for _, was := range from.NodePools {
		for _, is := range to.NodePools {
			if is != was && is.Name == was.Name {
				is.Status, is.UID = was.Status, was.UID
			}
		}
	}
	for _, was := range from.NodeClasses {
		for _, is := range to.NodeClasses {
			if is != was && is.Name == was.Name {
				is.Status, is.UID = was.Status, was.UID
			}
		}
	}
	return to, nil
}

func drop(fleet *provision.Fleet, kind, name string) {
	switch kind {
	case "NodePool":
		fleet.NodePools = slices.DeleteFunc(fleet.NodePools, func(o *karpv1.NodePool) bool { return o.Name == name })
	case "EC2NodeClass":
		fleet.NodeClasses = slices.DeleteFunc(fleet.NodeClasses, func(o *awsv1.EC2NodeClass) bool { return o.Name == name })
	case "NodeOverlay":
		fleet.Overlays = slices.DeleteFunc(fleet.Overlays, func(o *karpv1alpha1.NodeOverlay) bool { return o.Name == name })
	}
}
