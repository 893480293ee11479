package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	"github.com/poolwright/poolwright/internal/missingkind"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

const (
	// nodeClassGroup is the group of the node classes whose nodes are ours: EKS
	// Auto Mode uses the same NodePools and NodeClaims with classes of its own.
	nodeClassGroup = "karpenter.k8s.aws"
	// inventoryLabel is on all inventories, keySuffix ends the names of the
	// Secrets that mask values in them.
	inventoryLabel = "poolwright.dev/inventory"
	keySuffix      = "-inventory-key"
)

// installedState are what there is of Poolwright.
type installedState struct {
	namespace string
	// installed are the objects of the installation.
	installed state.Set
	// syncs and elsewhere are the Syncs of this namespace and of others.
	syncs     []v1alpha1.Sync
	elsewhere []v1alpha1.Sync
	// clusters are all, the one that decides first.
	clusters []v1alpha1.Cluster
	// inventories are the ConfigMaps and Secrets in which Syncs keep records; own is true
	// where the installation does, which it does to its end.
	inventories []client.Object
	own         bool
	lease       installation.Lease
	claims      []karpv1.NodeClaim
	// holding counts what carries a finalizer of Karpenter's, by kind.
	holding map[string]finalizerCount
	// lowered is how many NodePools wait for their limits.
	lowered int
	// otherKarpenter is who else provisions nodes here, or is empty.
	otherKarpenter string
}

// finalizerCount counts objects with a finalizer, and those of them that are being
// deleted.
type finalizerCount struct{ all, going int }

// inspect reads everything. A kind that the cluster does not serve has no objects.
func (u *Uninstall) inspect(ctx context.Context) (installedState, error) {
	f := installedState{namespace: u.req.Namespace, holding: map[string]finalizerCount{}}
	var syncs v1alpha1.SyncList
	var clusters v1alpha1.ClusterList
	err := errors.Join(missingkind.Ignore(u.direct.List(ctx, &syncs)), missingkind.Ignore(u.direct.List(ctx, &clusters)))
	if err != nil {
		return f, err
	}
	f.clusters = clusters.Items
	slices.SortFunc(f.clusters, func(a, b v1alpha1.Cluster) int { return v1alpha1.CompareClusters(&a, &b) })
	for _, s := range syncs.Items {
		if s.Namespace == f.namespace {
			f.syncs = append(f.syncs, s)
		} else {
			f.elsewhere = append(f.elsewhere, s)
		}
	}
	u.found.elsewhere = f.elsewhere
	if f.installed, err = u.installed(ctx); err != nil {
		return f, err
	}
	if f.inventories, f.own, err = u.inventories(ctx); err != nil {
		return f, err
	}
	if f.lease, err = u.lease(ctx); err != nil {
		return f, err
	}
	if !f.any() {
		return f, nil
	}
	return f, u.inspectNodes(ctx, &f)
}

// inspectNodes reads what Karpenter keeps, and who else may keep it.
func (u *Uninstall) inspectNodes(ctx context.Context, f *installedState) error {
	var err error
	if f.claims, err = u.claims(ctx); err != nil {
		return err
	}
	held, err := u.withFinalizers(ctx)
	if err != nil {
		return err
	}
	for _, h := range held {
		n := f.holding[h.kind]
		n.all++
		if h.object.GetDeletionTimestamp() != nil {
			n.going++
		}
		f.holding[h.kind] = n
	}
	pools, err := u.pools(ctx)
	if err != nil {
		return err
	}
	for _, pool := range pools {
		if pool.Annotations[beforeDrain] != "" {
			f.lowered++
		}
	}
	if len(f.clusters) > 0 && f.clusters[0].Spec.Engine.Mode == v1alpha1.EngineExternal {
		f.otherKarpenter = fmt.Sprintf("Cluster %s has another Karpenter provision nodes (spec.engine.mode: External)", f.clusters[0].Name)
		return nil
	}
	// The gate reads only from the API server who else runs; it needs the cluster that it
	// guards all the same.
	g := gate.Gates{
		Cluster: "any", Region: "any", Account: "any", REST: u.req.REST, Kube: u.direct,
		OwnLease: types.NamespacedName{Namespace: f.namespace, Name: leaderelection.LeaseName},
	}
	g.AWS.Region = "any"
	err = g.CheckOthers(ctx)
	if refusal, ok := errors.AsType[gate.ClosedGate](err); ok && !refusal.Unproven {
		f.otherKarpenter, err = refusal.Message, nil
	}
	return err
}

// installed are the objects of the installation that exist: those of its
// inventory, and those that config/ would make here, or did in an earlier release, and that are labelled as part of
// Poolwright, by whatever tool they came.
func (u *Uninstall) installed(ctx context.Context) (state.Set, error) {
	items, err := expected(u.req.Namespace)
	if err != nil {
		return state.Set{}, err
	}
	desired, err := u.target.Desired(ctx, state.NewSet(items...))
	if err != nil {
		return state.Set{}, err
	}
	observed, err := u.target.Observe(ctx, desired)
	if err != nil {
		return state.Set{}, err
	}
	var out []state.Item
	for _, item := range observed.Items() {
		labels := (&unstructured.Unstructured{Object: item.Object}).GetLabels()
		_, made := desired.Get(item.Key)
		ours := !made || labels[installation.PartOfLabel] == installation.Deployment || item.Key.Kind == "CustomResourceDefinition"
		if item.Object == nil || !ours || u.sharedByOthers(item.Key) || u.deletedWithNamespace(item) {
			continue
		}
		out = append(out, item)
	}
	return state.NewSet(out...), nil
}

// expected are the objects that config/ makes in a namespace, and those of names that only earlier releases
// gave: an upgrade by kubectl leaves these, and no inventory has them.
func expected(namespace string) ([]state.Item, error) {
	items, err := installation.Manifests{Namespace: namespace, Image: installation.Deployment}.Objects()
	if err != nil {
		return nil, err
	}
	return installation.WithFormer(items), nil
}

// sharedByOthers reports whether another namespace's Poolwright needs a thing.
func (u *Uninstall) sharedByOthers(k state.Key) bool {
	return k.Kind == "CustomResourceDefinition" && len(u.found.elsewhere) > 0
}

// deletedWithNamespace reports whether an object goes with a namespace that is
// being deleted: there is nothing to do about it.
func (u *Uninstall) deletedWithNamespace(item state.Item) bool {
	o := &unstructured.Unstructured{Object: item.Object}
	return item.Key.Kind == "Namespace" && o.GetDeletionTimestamp() != nil
}

// inventories lists the inventories of Syncs and their keys, and reports whether there
// is one of the installation.
func (u *Uninstall) inventories(ctx context.Context) (out []client.Object, own bool, err error) {
	inventories := metadataList("ConfigMap")
	if err := u.direct.List(ctx, inventories, client.InNamespace(u.req.Namespace), client.HasLabels{inventoryLabel}); err != nil {
		return nil, false, fmt.Errorf("listing inventories: %w", err)
	}
	for i := range inventories.Items {
		if inventories.Items[i].Labels[inventoryLabel] == installation.Name {
			own = true
			continue
		}
		out = append(out, &inventories.Items[i])
	}
	keys := metadataList("Secret")
	if err := u.direct.List(ctx, keys, client.InNamespace(u.req.Namespace), client.MatchingLabels{"app.kubernetes.io/managed-by": installation.Deployment}); err != nil {
		return nil, false, fmt.Errorf("listing keys of inventories: %w", err)
	}
	for i := range keys.Items {
		if strings.HasSuffix(keys.Items[i].Name, keySuffix) {
			out = append(out, &keys.Items[i])
		}
	}
	return out, own, nil
}

func metadataList(kind string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	return list
}

func (u *Uninstall) lease(ctx context.Context) (installation.Lease, error) {
	return installation.FindLease(ctx, u.direct, u.req.Namespace)
}

// any reports whether there is anything of Poolwright but its namespace, which
// may stay because of what others keep in it.
func (f *installedState) any() bool {
	return f.objects() > 0 || len(f.syncs) > 0 || len(f.inventories) > 0 || f.own || f.lease.Exists
}

// objects is how many objects the installation has, without the namespace.
func (f *installedState) objects() int {
	return len(slices.DeleteFunc(f.installed.Items(), func(i state.Item) bool { return i.Key.Kind == "Namespace" }))
}

func (f *installedState) has(kind string) bool {
	return slices.ContainsFunc(f.installed.Items(), func(i state.Item) bool { return i.Key.Kind == kind })
}

// terminating is how many nodes are being terminated.
func (f *installedState) terminating() int {
	return len(slices.DeleteFunc(slices.Clone(f.claims), func(c karpv1.NodeClaim) bool { return c.DeletionTimestamp.IsZero() }))
}

// embedded reports whether Karpenter's finalizers were set by an engine of
// ours: the lease of a controller has that, or the Cluster declares one.
func (f *installedState) embedded() bool {
	declared := len(f.clusters) > 0 && slices.Contains([]v1alpha1.EngineMode{v1alpha1.EngineEmbedded, ""}, f.clusters[0].Spec.Engine.Mode)
	return declared || f.lease.Exists && f.lease.Engine
}
