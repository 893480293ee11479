package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/store"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

const (
	// pageSize is how many objects a list returns at once.
	pageSize = 500
	// maxObjects is how many objects of a kind are read.
	maxObjects = 20_000
)

// The kinds, as kubectl takes them.
const (
	kindSyncs    = "syncs.poolwright.dev"
	kindClusters = "clusters.poolwright.dev"
	kindPlugins  = "deviceplugins.poolwright.dev"
	kindPools    = "nodepools.karpenter.sh"
	kindClaims   = "nodeclaims.karpenter.sh"
	kindNodes    = "nodes"
	kindPods     = "pods"
	kindEvents   = "events"
	// kindConfigMaps are those of the history.
	kindConfigMaps = "configmaps"
)

// The reasons of Karpenter's events on a node that it does not disrupt.
const (
	reasonBlocked          = "DisruptionBlocked"
	reasonUnconsolidatable = "Unconsolidatable"
)

// kindReader reads all objects of one kind into Objects.
type kindReader struct {
	// kind is the plural, as kubectl takes it.
	kind string
	list func() client.ObjectList
	add  func(*Objects, client.ObjectList)
	// options choose the objects.
	options []client.ListOption
}

// readers read what the section needs, of Syncs those of the namespace, or with an empty one all.
func readers(s sectionName, namespace string) []kindReader {
	syncs := kindReader{kindSyncs, func() client.ObjectList { return &v1alpha1.SyncList{} }, func(o *Objects, l client.ObjectList) {
		o.Syncs = append(o.Syncs, l.(*v1alpha1.SyncList).Items...)
	}, []client.ListOption{client.InNamespace(namespace)}}
	clusters := kindReader{kindClusters, func() client.ObjectList { return &v1alpha1.ClusterList{} }, addClusters, nil}
	plugins := kindReader{kindPlugins, func() client.ObjectList { return &v1alpha1.DevicePluginList{} }, func(o *Objects, l client.ObjectList) {
		o.Plugins = append(o.Plugins, l.(*v1alpha1.DevicePluginList).Items...)
	}, nil}
	pools := kindReader{kindPools, func() client.ObjectList { return &karpv1.NodePoolList{} }, func(o *Objects, l client.ObjectList) {
		o.Pools = append(o.Pools, l.(*karpv1.NodePoolList).Items...)
	}, nil}
	claims := kindReader{kindClaims, func() client.ObjectList { return &karpv1.NodeClaimList{} }, func(o *Objects, l client.ObjectList) {
		o.Claims = append(o.Claims, l.(*karpv1.NodeClaimList).Items...)
	}, nil}
	nodes := kindReader{kindNodes, func() client.ObjectList { return &corev1.NodeList{} }, func(o *Objects, l client.ObjectList) {
		o.Nodes = append(o.Nodes, l.(*corev1.NodeList).Items...)
	}, []client.ListOption{client.HasLabels{karpv1.NodePoolLabelKey}}}
	pods := kindReader{kindPods, func() client.ObjectList { return &corev1.PodList{} }, addPods, nil}
	blocked, unconsolidatable := events(reasonBlocked), events(reasonUnconsolidatable)
	switch s {
	case sectionSyncs, sectionPulls:
		return []kindReader{syncs}
	case sectionDrift:
		return []kindReader{syncs, clusters}
	case sectionQuota:
		return []kindReader{clusters}
	case sectionPools:
		return []kindReader{clusters, plugins, pools, claims, nodes, pods}
	case sectionNodes:
		return []kindReader{clusters, plugins, pools, claims, nodes, pods, blocked, unconsolidatable}
	default:
		return []kindReader{syncs, clusters, plugins, pools, claims, nodes, pods, blocked, unconsolidatable}
	}
}

// events reads those of a reason in the namespace that events on Nodes and NodeClaims are in.
func events(reason string) kindReader {
	return kindReader{kindEvents, func() client.ObjectList { return &corev1.EventList{} }, func(o *Objects, l client.ObjectList) {
		o.Events = append(o.Events, l.(*corev1.EventList).Items...)
	}, []client.ListOption{client.InNamespace(metav1.NamespaceDefault), client.MatchingFields{"reason": reason}}}
}

func addClusters(o *Objects, l client.ObjectList) {
	for _, c := range l.(*v1alpha1.ClusterList).Items {
		if o.Cluster == nil || v1alpha1.CompareClusters(&c, o.Cluster) < 0 {
			o.Cluster = &c
		}
	}
}

func addPods(o *Objects, l client.ObjectList) {
	for _, p := range l.(*corev1.PodList).Items {
		if pod.IsTerminal(&p) {
			continue
		}
		out := Pod{Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName, DaemonSet: pod.IsOwnedByDaemonSet(&p) || pod.IsOwnedByNode(&p)}
		out.Created = p.CreationTimestamp
		out.DoNotDisrupt = p.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true"
		if requests := gpu.Requests(p.Spec); len(requests) > 0 {
			out.GPUs = requests
		}
		o.Pods = append(o.Pods, out)
	}
}

// Read reads what a whole report needs, of Syncs those of the namespace, or with an empty one all. The error is of an API
// server that cannot be used at all; a kind that could not be read is in IncompleteKinds.
func Read(ctx context.Context, from client.Reader, namespace string) (Objects, error) {
	return read(ctx, from, sectionAll, namespace)
}

// Readable are an object of each kind that Read lists and that may be listed: one request for each is sent. The error is as that of Read.
func Readable(ctx context.Context, from client.Reader, namespace string) ([]client.Object, error) {
	kinds := map[string]client.Object{
		kindSyncs: &v1alpha1.Sync{}, kindClusters: &v1alpha1.Cluster{}, kindPlugins: &v1alpha1.DevicePlugin{}, kindPools: &karpv1.NodePool{},
		kindClaims: &karpv1.NodeClaim{}, kindNodes: &corev1.Node{}, kindPods: &corev1.Pod{}, kindEvents: &corev1.Event{},
	}
	for _, k := range readers(sectionAll, namespace) {
		err := from.List(ctx, k.list(), append(slices.Clip(k.options), client.Limit(1))...)
		if _, unread := unreadOf(k.kind, "", err); unread {
			delete(kinds, k.kind)
		} else if err != nil {
			return nil, fmt.Errorf("listing %s: %w", k.kind, err)
		}
	}
	var out []client.Object
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		out = append(out, kinds[kind])
	}
	return out, nil
}

// kindDeployments is the kind of the controller, whose arguments select Syncs.
const kindDeployments = "deployments.apps"

// selectors are which Syncs the controllers of their namespaces reconcile, by the namespaces. Where that is not known, none is there, and unknown
// has why.
func selectors(ctx context.Context, from client.Reader, syncs []v1alpha1.Sync) (known map[string]labels.Selector, unknown []IncompleteKind) {
	known = map[string]labels.Selector{}
	for i := range syncs {
		namespace := syncs[i].Namespace
		if _, done := known[namespace]; done {
			continue
		}
		selector, err := installation.Watched(ctx, from, namespace)
		known[namespace] = selector
		if err == nil {
			continue
		}
		reason := Failed
		if apierrors.IsForbidden(err) {
			reason = Forbidden
		}
		unknown = append(unknown, IncompleteKind{kindDeployments, reason, "it is not known which Syncs of namespace " + namespace + " the controller reconciles: " + sanitize.Text(err.Error())})
	}
	return known, unknown
}

// read reads what a section needs, all kinds at a time and each page by page. What cannot be read
// is in IncompleteKinds; the error is of an API server that cannot be used at all: no kind was read, and one for another reason than permissions.
func read(ctx context.Context, from client.Reader, s sectionName, namespace string) (Objects, error) {
	var (
		out   Objects
		mu    sync.Mutex
		group sync.WaitGroup
		done  int
		fails = map[string]error{}
	)
	for _, k := range readers(s, namespace) {
		group.Go(func() {
			var one Objects
			err := k.read(ctx, from, &one)
			mu.Lock()
			defer mu.Unlock()
			out = merged(out, one)
			unread, ok := unreadOf(k.kind, namespaceFlag(k.kind, namespace), err)
			switch {
			case ok:
				out.IncompleteKinds = append(out.IncompleteKinds, unread)
			case err != nil:
				fails[k.kind] = fmt.Errorf("listing %s: %w", k.kind, err)
			default:
				done++
			}
		})
	}
	group.Wait()
	if len(fails) > 0 && (done == 0 || ctx.Err() != nil) {
		return out, errors.Join(slices.Collect(maps.Values(fails))...)
	}
	for kind, err := range fails {
		out.IncompleteKinds = append(out.IncompleteKinds, IncompleteKind{kind, Failed, sanitize.Text(err.Error()) + "; run the command again"})
	}
	slices.SortFunc(out.IncompleteKinds, func(a, b IncompleteKind) int { return cmp.Compare(a.Kind, b.Kind) })
	out.IncompleteKinds = slices.Compact(out.IncompleteKinds)
	return out, nil
}

// merged are two parts of the objects, which have no kind in common.
func merged(a, b Objects) Objects {
	return Objects{
		Cluster: cmp.Or(a.Cluster, b.Cluster),
		Syncs:   append(a.Syncs, b.Syncs...), Plugins: append(a.Plugins, b.Plugins...), Pools: append(a.Pools, b.Pools...), Claims: append(a.Claims, b.Claims...),
		Nodes: append(a.Nodes, b.Nodes...), Events: append(a.Events, b.Events...), Pods: append(a.Pods, b.Pods...), IncompleteKinds: append(a.IncompleteKinds, b.IncompleteKinds...),
	}
}

// readHistory reads what the controller has recorded, of which reports have the prices. Where it cannot be read it is the zero History, as
// where nothing is recorded, and unread has why.
func readHistory(ctx context.Context, from client.Reader, namespace string) (h history.History, unread []IncompleteKind) {
	h, err := store.Read(ctx, from, namespace)
	switch {
	case err == nil:
		return h, nil
	case apierrors.IsForbidden(err):
		return h, []IncompleteKind{{kindConfigMaps, Forbidden, fmt.Sprintf("the history, which has the recorded prices of nodes: you have no permission to get configmaps in the namespace %[1]s; to check, run: kubectl auth can-i get configmaps -n %[1]s", namespace)}}
	}
	return history.History{}, []IncompleteKind{{kindConfigMaps, Failed, "the history, which has the recorded prices of nodes: " + sanitize.Text(err.Error())}}
}

// errTooMany reports a kind with more objects than are read.
var errTooMany = errors.New("too many objects")

func (k kindReader) read(ctx context.Context, from client.Reader, into *Objects) error {
	n, next := 0, ""
	for {
		page := k.list()
		if err := from.List(ctx, page, append(slices.Clip(k.options), client.Limit(pageSize), client.Continue(next))...); err != nil {
			return err
		}
		k.add(into, page)
		n += meta.LenList(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
		if n >= maxObjects {
			return errTooMany
		}
	}
}

// unreadOf is what a report has of a kind that could not be read, where the rest goes on without it.
func unreadOf(kind, scope string, err error) (IncompleteKind, bool) {
	switch {
	case errors.Is(err, errTooMany):
		return IncompleteKind{kind, tooMany, fmt.Sprintf("there are more than %d %s: those behind are not counted", maxObjects, kind)}, true
	case apierrors.IsForbidden(err):
		return IncompleteKind{kind, Forbidden, fmt.Sprintf("you have no permission to list %s; to check, run: kubectl auth can-i list %s%s", kind, kind, scope)}, true
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return IncompleteKind{kind, notInstalled, fmt.Sprintf("the cluster does not have the kind %s; to check the installation, run: poolwright check", kind)}, true
	}
	return IncompleteKind{}, false
}

// namespaceFlag is kubectl's flag for the namespace in which objects of the kind were listed.
func namespaceFlag(kind, namespace string) string {
	switch {
	case kind == kindSyncs && namespace != "":
		return " -n " + namespace
	case kind == kindEvents:
		return " -n " + metav1.NamespaceDefault
	case kind == kindSyncs || kind == kindPods:
		return " -A"
	}
	return ""
}
