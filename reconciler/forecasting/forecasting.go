// Package forecasting forecasts what changes of a plan do to nodes, pods and costs, in a live
// cluster or between two revisions, and blocks those changes of a Sync's plan that would
// replace more nodes than its guard or the reviews of its pull requests allow.
//
// It refuses to run Karpenter's code itself: a Simulate does, in a process of its own.
// It writes nothing. Start reading at Live.
package forecasting

import (
	"context"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// ForecastFunc forecasts what changes do to nodes, pods and costs; nil where they change
// nothing of theirs, or where no Cluster names the region that they are in. Before and after
// are what is declared on both sides; both may be empty, where only the changes are known. A
// plan is useful without it: see OrUnknown.
type ForecastFunc func(ctx context.Context, before, after state.Set, changes []plan.Change) (*provision.Forecast, error)

// Simulate compares two snapshots of a cluster under the engine: simulate.Compare, in a
// process of its own.
type Simulate func(ctx context.Context, cluster v1alpha1.ClusterSpec, before, after provision.ClusterSnapshot) (provision.Forecast, error)

// LiveCluster is the Cluster object that the engine follows; nil without one.
type LiveCluster func(ctx context.Context) (*v1alpha1.Cluster, error)

// OrUnknown is the forecast, or after an error one whose only content is why there is none.
func OrUnknown(forecast *provision.Forecast, err error) *provision.Forecast {
	if err == nil {
		return forecast
	}
	return &provision.Forecast{
		Pools: []provision.Pool{}, Replaced: []provision.Node{}, Drifted: []provision.Node{}, Removed: []provision.RemovedPool{},
		Rollout: provision.Rollout{Assumptions: []string{}}, Cost: provision.Cost{Prices: []provision.Price{}},
		PodScheduling: provision.PodScheduling{NewlySchedulable: []provision.Placement{}, NewlyUnschedulable: []provision.Placement{}, Unschedulable: []provision.Placement{}},
		Unknown:       []provision.Unknown{{Code: codeForecastFailed, Text: "What the change does to nodes, pods and money: " + strings.TrimSuffix(err.Error(), ".") + "."}},
	}
}

// Live forecasts what changes do to the live cluster.
type Live struct {
	// Cluster reads the Cluster object, Snapshot what runs in the cluster.
	Cluster  LiveCluster
	Snapshot *SnapshotReader
	Simulate Simulate
	AWSReader
}

// AWSReader reads what is known of AWS. Each field may be nil.
type AWSReader struct {
	// Offerings returns what AWS returned of the prices and offerings of a Cluster's account and region; nil where
	// nothing was read.
	Offerings func(ctx context.Context, of v1alpha1.ClusterSpec) *pricelist.List
	// CapacityReservations returns the capacity reservations there that selector terms of an EC2NodeClass select.
	CapacityReservations func(ctx context.Context, of v1alpha1.ClusterSpec, terms []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error)
	// ClassReservations returns the capacity reservations that the status of an EC2NodeClass has, by the class's name, for
	// forecasts that read no cluster.
	ClassReservations func(ctx context.Context, of v1alpha1.ClusterSpec) map[string][]awsv1.CapacityReservation
}

// cluster is what a simulation needs of a Cluster, with the offerings of its region.
func (a AWSReader) cluster(ctx context.Context, spec v1alpha1.ClusterSpec) provision.Cluster {
	out := ClusterOf(spec)
	if a.Offerings != nil {
		out.Offerings = a.Offerings(ctx, spec)
	}
	return out
}

// Forecast is a ForecastFunc: it reads the live cluster and compares it with what the changes
// make of it.
func (l Live) Forecast(ctx context.Context, declaredBefore, declaredAfter state.Set, changes []plan.Change) (*provision.Forecast, error) {
	if !hasImpact(changes) {
		return nil, nil
	}
	cluster, err := l.Cluster(ctx)
	if err != nil || cluster == nil {
		return nil, err
	}
	before, err := l.Snapshot.Read(ctx, l.cluster(ctx, cluster.Spec))
	if err != nil {
		return nil, err
	}
	reader, err := simulate.NewReader()
	if err != nil {
		return nil, err
	}
	after, unread := changed(reader, before, Pools(changes))
	before.Workloads, after.Workloads = nil, nil
	_ = populate(reader, &before, only(declaredBefore, makesPods)) // Its problems are not those of the change.
	unread = append(unread, populate(reader, &after, only(declaredAfter, makesPods))...)
	unread = append(unread, addExpanded(reader, &after, declaredAfter, changes)...)
	l.addReservations(ctx, cluster.Spec, &before)
	l.addReservations(ctx, cluster.Spec, &after)
	out, err := l.Simulate(ctx, cluster.Spec, before, after)
	if err != nil {
		return nil, err
	}
	out.Unknown = append(out.Unknown, unread...)
	return &out, nil
}

// addReservations adds the capacity reservations of each class. Those that cannot be read are left out,
// and the simulation reports that they are not known.
func (a AWSReader) addReservations(ctx context.Context, cluster v1alpha1.ClusterSpec, of *provision.ClusterSnapshot) {
	if a.CapacityReservations == nil {
		return
	}
	of.CapacityReservations = map[string][]provision.CapacityReservation{}
	for _, class := range of.NodeClasses {
		if len(class.Spec.CapacityReservationSelectorTerms) == 0 {
			continue
		}
		if found, err := a.CapacityReservations(ctx, cluster, class.Spec.CapacityReservationSelectorTerms); err == nil {
			of.CapacityReservations[class.Name] = found
		}
	}
}

// Declared forecasts from two revisions alone, without a cluster: for pools, and for the
// pods that are declared.
type Declared struct {
	// Expand turns what a revision declares into the desired objects, as [targets.Target] does.
	Expand   func(context.Context, state.Set) (state.Set, error)
	Simulate Simulate
	AWSReader
}

// Forecast is a ForecastFunc.
func (d Declared) Forecast(ctx context.Context, before, after state.Set, changes []plan.Change) (*provision.Forecast, error) {
	if !hasImpact(changes) {
		return nil, nil
	}
	cluster, known := declaredCluster(before, after)
	if !known {
		return nil, nil
	}
	reader, err := simulate.NewReader()
	if err != nil {
		return nil, err
	}
	of := d.cluster(ctx, cluster)
	var snapshots [2]provision.ClusterSnapshot
	var unread []provision.Unknown // of what is declared after the change
	for i, declared := range []state.Set{before, after} {
		desired, err := d.Expand(ctx, declared)
		if err != nil {
			return nil, err
		}
		snapshots[i] = provision.ClusterSnapshot{Cluster: of, Now: time.Now()}
		unread = populate(reader, &snapshots[i], desired)
	}
	d.addClassReservations(ctx, cluster, snapshots[:])
	out, err := d.Simulate(ctx, cluster, snapshots[0], snapshots[1])
	if err != nil {
		return nil, err
	}
	out.Unknown = append(out.Unknown, unread...)
	return &out, nil
}

// addClassReservations gives the declared classes the reservations that their status has in the cluster. Those of a
// class whose terms the change touches are not known after it, which the simulation finds.
func (a AWSReader) addClassReservations(ctx context.Context, cluster v1alpha1.ClusterSpec, snapshots []provision.ClusterSnapshot) {
	if a.ClassReservations == nil {
		return
	}
	known := a.ClassReservations(ctx, cluster)
	for _, snapshot := range snapshots {
		for _, class := range snapshot.NodeClasses {
			class.Status.CapacityReservations = known[class.Name]
		}
	}
}

// ClusterOf is what a simulation needs of a Cluster.
func ClusterOf(spec v1alpha1.ClusterSpec) provision.Cluster {
	return provision.Cluster{
		Region:           spec.Region,
		PreferencePolicy: spec.Engine.PreferencePolicy,
		MinValuesPolicy:  string(spec.Engine.MinValuesPolicy),
		FeatureGates:     spec.Engine.FeatureGates,
	}
}

// declaredCluster is the Cluster that the newer side declares, or else the older one.
func declaredCluster(before, after state.Set) (v1alpha1.ClusterSpec, bool) {
	for _, set := range []state.Set{after, before} {
		for item := range set.All() {
			var declared v1alpha1.Cluster
			cluster := item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "Cluster"
			if cluster && runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &declared) == nil {
				return declared.Spec, true
			}
		}
	}
	return v1alpha1.ClusterSpec{}, false
}
