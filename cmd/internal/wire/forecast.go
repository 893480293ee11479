package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// change is what a step does, for who foretells what comes of it.
type change struct {
	// before and after are what is declared on both sides.
	before, after state.Set
	changes       []plan.Change
}

// pools are the changes of what nodes are made from. What only a person may change is
// not taken as done; what waits for a confirmation is.
func (c change) pools() []plan.Change {
	return slices.DeleteFunc(slices.Clone(c.changes), func(c plan.Change) bool { return c.Standing() || !c.Provisions() })
}

// foresees reports whether there is anything to foretell: pools change, or workloads.
func (c change) foresees() bool {
	return slices.ContainsFunc(c.changes, func(c plan.Change) bool { return !c.Standing() && (c.Provisions() || works(c.Key)) })
}

// works reports whether pods are made for objects of the kind.
func works(k state.Key) bool {
	switch k.Group {
	case "":
		return k.Kind == "Pod"
	case "apps":
		return k.Kind == "Deployment" || k.Kind == "StatefulSet" || k.Kind == "ReplicaSet" || k.Kind == "DaemonSet"
	case "batch":
		return k.Kind == "Job" || k.Kind == "CronJob"
	}
	return false
}

// foresight tells what a change does to nodes, pods and money; nil where it changes
// nothing of theirs, or where no Cluster says in which region they are. A plan is worth
// showing without it: see saying.
type foresight func(ctx context.Context, c change) (*provision.Forecast, error)

// comparing is what makes a forecast of two fleets: simulate.Compare, in a process of
// its own.
type comparing func(ctx context.Context, settings engine.Settings, before, after provision.Fleet) (provision.Forecast, error)

// forecasting foretells what changes do to the live cluster.
func forecasting(live client.Reader, compare comparing) foresight {
	return func(ctx context.Context, c change) (*provision.Forecast, error) {
		return foresee(ctx, live, compare, c)
	}
}

// saying is the forecast, or one that says only why there is none.
func saying(told *provision.Forecast, err error) *provision.Forecast {
	if err != nil {
		return untold("What the change does to nodes, pods and money: " + strings.TrimSuffix(err.Error(), ".") + ".")
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
func foresee(ctx context.Context, live client.Reader, compare comparing, c change) (*provision.Forecast, error) {
	if !c.foresees() {
		return nil, nil
	}
	now, err := readStance(ctx, live)
	if err != nil || now.cluster == nil {
		return nil, err
	}
	settings := settingsOf(now.cluster.Spec)
	before, err := liveFleet(ctx, live, provision.Cluster{Region: settings.Region}, time.Now())
	if err != nil {
		return nil, err
	}
	reader, err := simulate.NewReader()
	if err != nil {
		return nil, err
	}
	after, err := changed(reader, before, c.pools())
	if err != nil {
		return nil, err
	}
	before.Workloads, after.Workloads = nil, nil
	_ = populate(reader, &before, only(c.before, pods)) // what is wrong with it there is nobody's news
	unread := populate(reader, &after, only(c.after, pods))
	told, err := compare(ctx, settings, before, after)
	if err != nil {
		return nil, err
	}
	told.Unknown = append(told.Unknown, unread...)
	return &told, nil
}

// foretelling foretells what two revisions alone say: of pools, and of the pods that
// are declared. want says what they declare with all that it stands for.
func foretelling(want func(context.Context, state.Set) (state.Set, error), compare comparing) foresight {
	return func(ctx context.Context, c change) (*provision.Forecast, error) {
		if !c.foresees() {
			return nil, nil
		}
		return foretell(ctx, want, compare, c)
	}
}

func foretell(ctx context.Context, want func(context.Context, state.Set) (state.Set, error), compare comparing, c change) (*provision.Forecast, error) {
	settings, known := declaredSettings(c)
	if !known {
		return nil, nil
	}
	reader, err := simulate.NewReader()
	if err != nil {
		return nil, err
	}
	var fleets [2]provision.Fleet
	var unread []string // of what is declared after the step
	for i, declared := range []state.Set{c.before, c.after} {
		wanted, err := want(ctx, declared)
		if err != nil {
			return nil, err
		}
		fleets[i] = provision.Fleet{Cluster: provision.Cluster{Region: settings.Region}, Now: time.Now()}
		unread = populate(reader, &fleets[i], wanted)
	}
	told, err := compare(ctx, settings, fleets[0], fleets[1])
	if err != nil {
		return nil, err
	}
	told.Unknown = append(told.Unknown, unread...)
	return &told, nil
}

// declaredSettings are those of the Cluster that the newer side declares, or else the
// older one.
func declaredSettings(c change) (engine.Settings, bool) {
	for _, set := range []state.Set{c.after, c.before} {
		for _, item := range set.Items() {
			var declared v1alpha1.Cluster
			if isCluster(item) && runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &declared) == nil {
				return settingsOf(declared.Spec), true
			}
		}
	}
	return engine.Settings{}, false
}

// pods tells whether an item is one that pods are made for, or that says what comes
// onto every node or with every pod.
func pods(item state.Item) bool { return works(item.Key) || item.Key.Kind == "RuntimeClass" }

// only are the items of a set that are wanted.
func only(set state.Set, wanted func(state.Item) bool) state.Set {
	return state.NewSet(slices.DeleteFunc(set.Items(), func(i state.Item) bool { return !wanted(i) })...)
}

// populate adds what is declared to a fleet. One object that cannot be read keeps
// nothing from being told of the others: a sentence says which it is.
func populate(reader *simulate.Reader, fleet *provision.Fleet, declared state.Set) (unread []string) {
	fleet.DaemonSets, fleet.RuntimeClasses = slices.Clone(fleet.DaemonSets), slices.Clone(fleet.RuntimeClasses)
	for _, item := range declared.Items() {
		if err := reader.Add(fleet, item.Object); err != nil {
			unread = append(unread, "What "+item.Key.String()+" does to nodes: "+strings.TrimSuffix(err.Error(), ".")+".")
		}
	}
	return unread
}

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
		runtimes nodev1.RuntimeClassList
	)
	var errs []error
	for _, list := range []client.ObjectList{&pools, &classes, &overlays, &claims, &nodes, &pods, &budgets, &sets, &runtimes} {
		if err := known(from.List(ctx, list)); err != nil {
			errs = append(errs, fmt.Errorf("reading what runs in the cluster: %w", err))
		}
	}
	return provision.Fleet{
		Cluster: in, Now: now,
		NodePools: each(pools.Items), NodeClasses: each(classes.Items), Overlays: each(overlays.Items), NodeClaims: each(claims.Items),
		Nodes: each(nodes.Items), Pods: each(pods.Items), Budgets: each(budgets.Items), DaemonSets: each(sets.Items),
		RuntimeClasses: each(runtimes.Items),
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
func changed(reader *simulate.Reader, from provision.Fleet, changes []plan.Change) (provision.Fleet, error) {
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
