package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpevents "sigs.k8s.io/karpenter/pkg/events"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/provision/simulate/diagnosis"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/causes"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// bindCompleted is the annotation of a PersistentVolumeClaim that is bound.
const bindCompleted = "pv.kubernetes.io/bind-completed"

// Explanation is what explain prints. In JSON, fields are added, never renamed or given another meaning.
type Explanation struct {
	metav1.TypeMeta `json:",inline"`
	// Time is when the objects were read.
	Time metav1.Time `json:"time"`
	// Object is what is explained, as Kind/name or Kind/namespace/name.
	Object string `json:"object"`
	// Since is when it was created.
	Since metav1.Time `json:"since"`
	// Causes are in the order in which they have to be removed; there is at least one.
	Causes []causes.Cause `json:"causes"`
	// NodePools are what each pool lacks for a pod, the closest first.
	NodePools []NodePoolCauses `json:"nodePools,omitempty"`
	// Unknown are sentences on what could not be read or computed.
	Unknown []string `json:"unknown,omitempty"`
}

// NodePoolCauses are the causes for which a pod gets no node of a NodePool.
type NodePoolCauses struct {
	// Name is the NodePool's.
	Name string `json:"name"`
	// Causes are empty where it lacks nothing.
	Causes []causes.Cause `json:"causes,omitempty"`
}

// NotFound is the error of an object that is not in the cluster, or that Karpenter does not manage.
type NotFound struct {
	// Message is what is not there.
	Message string
}

// Error is what was not found.
func (e NotFound) Error() string { return e.Message }

// Of explains an object by the objects of the cluster, as the command does. The error is NotFound where there is no such
// object, or Karpenter does not manage it.
func Of(ctx context.Context, kube client.Reader, types *catalog.Catalog, now func() time.Time, object Object) (Explanation, error) {
	return (&clusterReader{kube: kube, types: types, now: now}).explain(ctx, object)
}

// clusterReader reads what decides about an explanation.
type clusterReader struct {
	kube    client.Reader
	types   *catalog.Catalog
	now     func() time.Time
	unknown []string
}

// explain reads the cluster, and explains.
func (r *clusterReader) explain(ctx context.Context, t Object) (Explanation, error) {
	if t.Kind == KindPod {
		return r.pod(ctx, t)
	}
	o, live, spec, err := r.objects(ctx)
	if err != nil {
		return Explanation{}, err
	}
	o.Events = r.events(ctx, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"reason": karpevents.Unconsolidatable})
	o.Events = append(o.Events, r.events(ctx, client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"reason": karpevents.InsufficientCapacityError})...)
	if t.Kind == KindPool {
		i := slices.IndexFunc(o.Pools, func(p *karpv1.NodePool) bool { return p.Name == t.Name })
		if i < 0 {
			return Explanation{}, NotFound{fmt.Sprintf("there is no NodePool %q", t.Name)}
		}
		return r.finish(o, "NodePool/"+t.Name, o.Pools[i].CreationTimestamp, causes.Pool(o, o.Pools[i])), nil
	}
	i := slices.IndexFunc(o.Claims, func(c *karpv1.NodeClaim) bool { return c.Name == t.Name || c.Status.NodeName == t.Name })
	if i < 0 {
		if slices.ContainsFunc(o.Nodes, func(n *corev1.Node) bool { return n.Name == t.Name }) {
			return Explanation{}, NotFound{fmt.Sprintf("node %s has no NodeClaim: Karpenter neither launched it nor removes it", t.Name)}
		}
		return Explanation{}, NotFound{fmt.Sprintf("there is neither a node nor a NodeClaim %q", t.Name)}
	}
	claim := o.Claims[i]
	candidate, err := connect.DisruptionCandidate(ctx, spec, live, claim.Name)
	if err != nil {
		return Explanation{}, err
	}
	r.unknown = append(r.unknown, candidate.Unknown...)
	return r.finish(o, "Node/"+cmp.Or(claim.Status.NodeName, claim.Name), claim.CreationTimestamp, causes.Node(o, claim, candidate)), nil
}

// pod explains one.
func (r *clusterReader) pod(ctx context.Context, t Object) (Explanation, error) {
	var pod corev1.Pod
	if err := r.kube.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Name}, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			return Explanation{}, NotFound{fmt.Sprintf("there is no pod %q in namespace %s; to name another, use -n", t.Name, t.Namespace)}
		}
		return Explanation{}, fmt.Errorf("reading pod %s/%s: %w", t.Namespace, t.Name, err)
	}
	object := "Pod/" + pod.Namespace + "/" + pod.Name
	if !causes.Diagnosable(&pod) {
		o := causes.Objects{Now: r.now()}
		return r.finish(o, object, pod.CreationTimestamp, causes.Pod(o, &pod, diagnosis.Result{}, nil)), nil
	}
	o, live, spec, err := r.objects(ctx)
	if err != nil {
		return Explanation{}, err
	}
	volumes, unusable := r.volumes(ctx, &pod)
	o.UnusableVolumeClaims = unusable
	found, err := connect.Diagnose(ctx, spec, live, r.types, &pod, volumes)
	if err != nil {
		return Explanation{}, err
	}
	r.unknown = append(r.unknown, found.Unknown...)
	budgets, err := simulate.Budgets(live)
	if err != nil {
		return Explanation{}, err
	}
	o.Events = r.events(ctx, client.InNamespace(pod.Namespace), client.MatchingFields{"involvedObject.name": pod.Name})
	out := r.finish(o, object, pod.CreationTimestamp, causes.Pod(o, &pod, found, budgets))
	for _, p := range found.Pools {
		out.NodePools = append(out.NodePools, NodePoolCauses{Name: p.Name, Causes: causes.PoolCauses(o, &pod, p)})
	}
	return out, nil
}

// finish makes the explanation.
func (r *clusterReader) finish(o causes.Objects, object string, since metav1.Time, found []causes.Cause) Explanation {
	out := Explanation{
		TypeMeta: metav1.TypeMeta{APIVersion: "report.poolwright.dev/v1alpha1", Kind: "Explanation"},
		Time:     metav1.NewTime(o.Now.UTC()), Object: object, Since: since, Causes: found,
	}
	slices.Sort(r.unknown)
	for _, text := range slices.Compact(r.unknown) {
		out.Unknown = append(out.Unknown, sanitize.Text(text))
	}
	return out
}

// objects reads what runs in the cluster, and of ours what decides about it.
func (r *clusterReader) objects(ctx context.Context) (causes.Objects, provision.ClusterSnapshot, v1alpha1.ClusterSpec, error) {
	var spec v1alpha1.ClusterSpec
	of, err := cluster.Live(r.kube)(ctx)
	if err != nil && !meta.IsNoMatchError(err) {
		return causes.Objects{}, provision.ClusterSnapshot{}, spec, err
	}
	if of != nil {
		spec = of.Spec
	}
	live, err := (&forecasting.SnapshotReader{Reader: r.kube}).Read(ctx, forecasting.ClusterOf(spec))
	if err != nil {
		return causes.Objects{}, live, spec, err
	}
	live.Now = r.now()
	if live.Cluster.Region == "" {
		live.Cluster.Region = regionOf(live.Nodes)
		spec.Region = live.Cluster.Region
	}
	if live.Cluster.Region == "" {
		return causes.Objects{}, live, spec, errors.New("there is no Cluster object, and no node with a region: create a Cluster, whose spec.region names it")
	}
	o := causes.Objects{Now: live.Now, Cluster: of, Pools: live.NodePools, Claims: live.NodeClaims, Nodes: live.Nodes, Pods: live.Pods}
	var syncs v1alpha1.SyncList
	var plugins v1alpha1.DevicePluginList
	for kind, list := range map[string]client.ObjectList{"syncs.poolwright.dev": &syncs, "deviceplugins.poolwright.dev": &plugins} {
		if err := r.kube.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
			r.unread(kind, err)
		}
	}
	o.Syncs, o.Plugins = syncs.Items, plugins.Items
	return o, live, spec, nil
}

// unread records that a kind could not be read.
func (r *clusterReader) unread(kind string, err error) {
	if apierrors.IsForbidden(err) {
		r.unknown = append(r.unknown, "You have no permission to read "+kind+": causes in them are not found.")
		return
	}
	r.unknown = append(r.unknown, fmt.Sprintf("Reading %s failed, so that causes in them are not found: %v.", kind, err))
}

// regionOf is the region of the nodes.
func regionOf(nodes []*corev1.Node) string {
	for _, n := range nodes {
		if region := n.Labels[corev1.LabelTopologyRegion]; region != "" {
			return region
		}
	}
	return ""
}

// events reads those that the options choose.
func (r *clusterReader) events(ctx context.Context, options ...client.ListOption) []corev1.Event {
	var list corev1.EventList
	if err := r.kube.List(ctx, &list, options...); err != nil {
		r.unread("events", err)
		return nil
	}
	return list.Items
}

// volumes are where the volumes of a pod's PersistentVolumeClaims can be attached, and the claims for which Karpenter leaves the
// pod out.
func (r *clusterReader) volumes(ctx context.Context, pod *corev1.Pod) ([]diagnosis.Volume, map[string]causes.VolumeClaimState) {
	var out []diagnosis.Volume
	unusable := map[string]causes.VolumeClaimState{}
	for _, v := range pod.Spec.Volumes {
		var name string
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = pod.Name + "-" + v.Name
		default:
			continue
		}
		terms, state, err := r.topology(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name})
		switch {
		case apierrors.IsNotFound(err):
			unusable[name] = causes.VolumeClaimNotFound
		case err != nil:
			r.unknown = append(r.unknown, fmt.Sprintf("Where the volume of PersistentVolumeClaim %s/%s can be attached is not known: %v.", pod.Namespace, name, err))
		case state != "":
			unusable[name] = state
		default:
			out = append(out, diagnosis.Volume{Claim: name, Terms: terms})
		}
	}
	return out, unusable
}

// topology is where the volume of a PersistentVolumeClaim can be attached: by its PersistentVolume, or before there is
// one by its StorageClass. State is why Karpenter launches no node for it; empty where it does.
func (r *clusterReader) topology(ctx context.Context, key client.ObjectKey) (terms []corev1.NodeSelectorTerm, state causes.VolumeClaimState, err error) {
	var claim corev1.PersistentVolumeClaim
	if err := r.kube.Get(ctx, key, &claim); err != nil {
		return nil, "", err
	}
	switch {
	case !claim.DeletionTimestamp.IsZero():
		return nil, causes.VolumeClaimTerminating, nil
	case claim.Status.Phase == corev1.ClaimLost:
		return nil, causes.VolumeClaimLost, nil
	case claim.Spec.VolumeName != "":
		return r.bound(ctx, &claim)
	case claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "":
		return nil, causes.VolumeClaimUnbound, nil
	}
	var class storagev1.StorageClass
	if err := r.kube.Get(ctx, client.ObjectKey{Name: *claim.Spec.StorageClassName}, &class); err != nil {
		return nil, "", err
	}
	if mode := class.VolumeBindingMode; mode != nil && *mode == storagev1.VolumeBindingImmediate {
		return nil, causes.VolumeClaimUnbound, nil
	}
	for _, term := range class.AllowedTopologies {
		var one corev1.NodeSelectorTerm
		for _, e := range term.MatchLabelExpressions {
			one.MatchExpressions = append(one.MatchExpressions, corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOpIn, Values: e.Values})
		}
		if len(one.MatchExpressions) > 0 {
			terms = append(terms, one)
		}
	}
	return terms, "", nil
}

// bound is where the PersistentVolume of a claim that has one can be attached.
func (r *clusterReader) bound(ctx context.Context, claim *corev1.PersistentVolumeClaim) ([]corev1.NodeSelectorTerm, causes.VolumeClaimState, error) {
	var volume corev1.PersistentVolume
	if err := r.kube.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, &volume); err != nil {
		return nil, "", err
	}
	if !volume.DeletionTimestamp.IsZero() {
		return nil, causes.VolumeClaimTerminating, nil
	}
	if _, bound := claim.Annotations[bindCompleted]; !bound {
		return nil, causes.VolumeClaimUnbound, nil
	}
	return attachable(&volume), "", nil
}

// attachable are the nodes that a volume can be attached to, as Karpenter reads them: the node that a local volume is on is not
// required of a new one.
func attachable(volume *corev1.PersistentVolume) []corev1.NodeSelectorTerm {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil
	}
	local := volume.Spec.Local != nil || volume.Spec.HostPath != nil
	var out []corev1.NodeSelectorTerm
	for _, term := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if len(term.MatchExpressions) == 0 {
			continue
		}
		out = append(out, corev1.NodeSelectorTerm{MatchExpressions: slices.DeleteFunc(slices.Clone(term.MatchExpressions), func(r corev1.NodeSelectorRequirement) bool {
			return local && r.Key == corev1.LabelHostname
		})})
	}
	return out
}
