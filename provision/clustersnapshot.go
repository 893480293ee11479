package provision

import (
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision/pricelist"
)

// ClusterSnapshot is a cluster's pools and what runs on them at one moment. Its pools,
// classes and overlays are a Git revision's together with those of the cluster that
// no revision declares, or all the cluster's own; either way they
// must carry the defaults that the API server fills in, since Karpenter's hashes
// cover them (the Reader of package simulate fills them in). Whoever is given a ClusterSnapshot
// reads it only.
type ClusterSnapshot struct {
	// Cluster is what is the same for all nodes.
	Cluster Cluster
	// Now is the moment: schedules and ages are computed from it and from no other clock.
	Now time.Time

	NodePools   []*karpv1.NodePool
	NodeClasses []*awsv1.EC2NodeClass
	Overlays    []*karpv1alpha1.NodeOverlay
	// Workloads are what the revision declares to have pods.
	Workloads []Workload
	// RuntimeClasses are those that are declared or there: what they add to pods
	// counts. Of two objects of one name the last counts, as of DaemonSets.
	RuntimeClasses []*nodev1.RuntimeClass

	// What was observed; all empty when nothing but Git is known.
	NodeClaims []*karpv1.NodeClaim
	Nodes      []*corev1.Node
	// Pods are those on the nodes and those that wait for one.
	Pods                 []*corev1.Pod
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget
	DaemonSets           []*appsv1.DaemonSet
	// CapacityReservations are those that the selector terms of each EC2NodeClass select, by the
	// class's name. A class is absent where they were not read: then those in its status count, of
	// which it is not known how many instances are available.
	CapacityReservations map[string][]CapacityReservation
}

// CapacityBlockExpiration is how long before the end of a Capacity Block Karpenter begins to delete its
// NodeClaims, and launches no more instances into it. EC2 terminates them 30 minutes before the end.
const CapacityBlockExpiration = 40 * time.Minute

// CapacityReservation is a capacity reservation of EC2.
type CapacityReservation struct {
	awsv1.CapacityReservation
	// Available is how many more instances can be launched into it now.
	Available int `json:"available"`
}

// Cluster is what is the same for all nodes of a cluster.
type Cluster struct {
	// Region is the AWS region, "us-east-1". Required.
	Region string
	// CABundle is what new nodes get as the API server's authority: PEM in base64, as the
	// engine hands it to Karpenter. It is part of every class's hash. Empty means unknown:
	// then a class's nodes are compared by how its declaration changes.
	CABundle string
	// PreferencePolicy and MinValuesPolicy are the engine's settings of these names in
	// [engine.Scheduling]. Empty means the default.
	PreferencePolicy, MinValuesPolicy string
	// FeatureGates are the engine's setting of that name: Karpenter's feature gates that are switched on
	// or off. Others have Karpenter's default.
	FeatureGates map[string]bool
	// Offerings are what AWS returned of the region's prices and offerings; nil where nothing
	// was read, and then the catalog's count.
	Offerings *pricelist.List
}

// Workload is a declared object that pods are made for: a Deployment, ReplicaSet,
// StatefulSet, Job, CronJob or Pod.
type Workload struct {
	// Kind is the object's.
	Kind string
	// Replicas is how many pods it declares at a time. Nil means that it declares none:
	// one, or as many as something else has set. 0 means none now: an autoscaler starts it
	// from zero, it is suspended, or a schedule starts it.
	Replicas *int32
	// Selector chooses the pods that it takes over from nobody; nil for none.
	Selector *metav1.LabelSelector
	// Pod is one of its pods as the API server would keep it, under the object's own
	// namespace and name.
	Pod *corev1.Pod
}

// LeavesAt is when Karpenter begins to delete the NodeClaims of a Capacity Block; zero for a reservation
// of another type, whose instances go on at its end as On-Demand Instances.
func (r CapacityReservation) LeavesAt() time.Time {
	if r.EndTime == nil || r.ReservationType != awsv1.CapacityReservationTypeCapacityBlock {
		return time.Time{}
	}
	return r.EndTime.UTC().Add(-CapacityBlockExpiration)
}
