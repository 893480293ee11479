package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// stock is what runs in a live cluster. It is safe for concurrent use.
type stock struct {
	reader client.Reader
	// lasts is how long what was read is taken to hold; zero reads anew each time.
	lasts time.Duration
	// seen is told when that was.
	seen *sighting
	// of is the value of the label of the Sync whose pools are looked at; empty for all.
	of string

	mu   sync.Mutex
	at   time.Time
	kept provision.Fleet
}

// fleetLasts is how long plans of pull requests go by one look at the cluster: it is
// of all pods and nodes, and plans come in numbers.
const fleetLasts = 10 * time.Second

// fleet is what runs. Its objects are for looking at: others have them as well.
func (s *stock) fleet(ctx context.Context, in provision.Cluster) (provision.Fleet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.at.IsZero() || now.Sub(s.at) >= s.lasts {
		read, err := liveFleet(ctx, s.reader, in, now)
		if err != nil {
			return provision.Fleet{}, err
		}
		if s.of != "" {
			read = managedFleet(read, s.of)
		}
		s.at, s.kept = now, read
	}
	if s.seen != nil {
		s.seen.note(s.at)
	}
	out := s.kept
	out.Cluster, out.Now = in, now
	return out, nil
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
// AWS stays true of it. What cannot be read stays as it is live, as the API server will
// refuse it; a sentence says which that is.
func changed(reader *simulate.Reader, from provision.Fleet, changes []plan.Change) (to provision.Fleet, unread []string) {
	to = from
	to.NodePools, to.NodeClasses, to.Overlays = slices.Clone(from.NodePools), slices.Clone(from.NodeClasses), slices.Clone(from.Overlays)
	for _, c := range changes {
		if c.After == nil {
			drop(&to, c.Key.Kind, c.Key.Name)
			continue
		}
		if err := reader.Add(&provision.Fleet{}, c.After.Object); err != nil {
			unread = append(unread, unreadable(c.Key, err))
			continue
		}
		drop(&to, c.Key.Kind, c.Key.Name)
		_ = reader.Add(&to, c.After.Object) // it was just read
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
	return to, unread
}

// employ makes those changes to what comes onto every node or with every pod that the
// revisions alone do not show: what goes, and what the declared stands for.
func employ(reader *simulate.Reader, fleet *provision.Fleet, c change) (unread []string) {
	var stands []state.Item
	for _, change := range c.changes {
		if change.Standing() || !onNodes(change.Key) {
			continue
		}
		if change.After == nil {
			dismiss(fleet, change.Key)
		} else if _, declared := c.after.Get(change.Key); !declared {
			stands = append(stands, *change.After)
		}
	}
	return populate(reader, fleet, state.NewSet(stands...))
}

// onNodes reports whether objects of the kind cost every node, or every pod of theirs.
func onNodes(k state.Key) bool {
	return k.Group == "apps" && k.Kind == "DaemonSet" || k.Kind == "RuntimeClass"
}

// dismiss takes away what is deleted.
func dismiss(fleet *provision.Fleet, k state.Key) {
	if k.Kind == "RuntimeClass" {
		fleet.RuntimeClasses = slices.DeleteFunc(slices.Clone(fleet.RuntimeClasses), func(o *nodev1.RuntimeClass) bool { return o.Name == k.Name })
		return
	}
	fleet.DaemonSets = slices.DeleteFunc(slices.Clone(fleet.DaemonSets), func(o *appsv1.DaemonSet) bool {
		return o.Name == k.Name && cmp.Or(o.Namespace, metav1.NamespaceDefault) == cmp.Or(k.Namespace, metav1.NamespaceDefault)
	})
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

// known forgives a kind that the cluster does not know.
func known(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
