package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	"github.com/poolwright/poolwright/internal/missingkind"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/history/store"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// suspend stops the Syncs, as poolwright suspend does. A suspension with an end would end while nodes are drained.
func (u *Uninstall) suspend(ctx context.Context) error {
	return u.eachSync(ctx, "suspending Sync", func(s *v1alpha1.Sync) {
		suspension.RemoveUntil(s)
		s.Spec.Suspend = true
	})
}

func (u *Uninstall) eachSync(ctx context.Context, doing string, change func(*v1alpha1.Sync)) error {
	syncs, err := u.syncs(ctx)
	if err != nil {
		return err
	}
	for i := range syncs {
		err := u.edit(ctx, &syncs[i], doing, func() error { change(&syncs[i]); return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *Uninstall) syncs(ctx context.Context) ([]v1alpha1.Sync, error) {
	var list v1alpha1.SyncList
	if err := missingkind.Ignore(u.direct.List(ctx, &list, client.InNamespace(u.req.Namespace))); err != nil {
		return nil, fmt.Errorf("listing Syncs: %w", err)
	}
	return list.Items, nil
}

// awaitSuspension waits until the controller has observed that the Syncs are
// suspended: it would put back the limits of the pools. Those that it does not
// select are never observed, and it writes nothing of theirs.
func (u *Uninstall) awaitSuspension(ctx context.Context) error {
	watched, err := installation.Watched(ctx, u.direct, u.req.Namespace)
	if err != nil {
		return err
	}
	err = installation.Await(ctx, u.req.Timeout, u.req.Progress, func(ctx context.Context) (bool, string, error) {
		syncs, err := u.syncs(ctx)
		if err != nil {
			return false, "", err
		}
		var others []v1alpha1.Sync
		for _, s := range syncs {
			if !watched.Matches(labels.Set(s.Labels)) {
				others = append(others, s)
				continue
			}
			if s.DeletionTimestamp.IsZero() && s.Status.ObservedGeneration < s.Generation {
				return false, fmt.Sprintf("the controller has not observed yet that Sync %s is suspended", s.Name), nil
			}
		}
		if len(others) > 0 {
			return true, fmt.Sprintf("not waiting for %s, which the controller does not reconcile: the labels do not match --watch-label-selector=%s", names("Sync", others), watched), nil
		}
		return true, "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the controller: %w", err)
	}
	return nil
}

// stop deletes the Deployment and waits until nobody can act for it any more:
// no pod is left, and nobody renews the lease.
func (u *Uninstall) stop(ctx context.Context) error {
	if err := u.remove(ctx, func(k state.Key) bool { return k.Kind == "Deployment" }); err != nil {
		return err
	}
	err := installation.Await(ctx, u.req.Timeout, u.req.Progress, func(ctx context.Context) (bool, string, error) {
		pods := metadataList("Pod")
		err := u.direct.List(ctx, pods, client.InNamespace(u.req.Namespace), client.MatchingLabels{"app.kubernetes.io/name": installation.Deployment})
		if err != nil {
			return false, "", fmt.Errorf("listing the controller's pods: %w", err)
		}
		return len(pods.Items) == 0, plural.Count(len(pods.Items), "pod") + " of the controller left", nil
	})
	if err != nil {
		return fmt.Errorf("stopping the controller: %w", err)
	}
	return u.leaseFree(ctx)
}

// leaseFree waits until nobody holds the lease. A holder that died has not given
// it up: it is taken for dead when the renewal has not moved for as long as a
// lease lasts, whatever its clock has. One that goes on renewing, now that the
// installation's pods are gone, is another process.
func (u *Uninstall) leaseFree(ctx context.Context) error {
	renewed, since, moved := time.Time{}, time.Now(), -1
	err := installation.Await(ctx, max(u.req.Timeout, 2*leaderelection.LeaseDuration), u.req.Progress, func(ctx context.Context) (bool, string, error) {
		now, err := u.lease(ctx)
		if err != nil || now.Holder == "" {
			return err == nil, "", err
		}
		if !now.Renewed.Equal(renewed) {
			renewed, since, moved = now.Renewed, time.Now(), moved+1
		}
		if moved > 1 {
			return false, "", fmt.Errorf("lease %s/%s is being renewed by %s, which this installation did not start: stop that poolwright run, then run uninstall again", u.req.Namespace, leaderelection.LeaseName, now.Holder)
		}
		return time.Since(since) > leaderelection.LeaseDuration+installation.PollInterval,
			fmt.Sprintf("lease %s/%s was not given up by %s: waiting until it expires", u.req.Namespace, leaderelection.LeaseName, now.Holder), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the controller's end: %w", err)
	}
	return nil
}

// deleteSyncs deletes the Syncs. Nobody is left to honour their finalizers, nor
// their deletion policies.
func (u *Uninstall) deleteSyncs(ctx context.Context) error {
	err := u.eachSync(ctx, "removing the finalizer of Sync", func(s *v1alpha1.Sync) {
		controllerutil.RemoveFinalizer(s, v1alpha1.Finalizer)
	})
	if err != nil {
		return err
	}
	syncs, err := u.syncs(ctx)
	if err != nil {
		return err
	}
	for i := range syncs {
		if err := u.remover(ctx, &syncs[i]); err != nil {
			return err
		}
	}
	return nil
}

// deleteInventories deletes the inventories of the Syncs.
func (u *Uninstall) deleteInventories(ctx context.Context) error {
	inventories, _, err := u.inventories(ctx)
	if err != nil {
		return err
	}
	for _, object := range inventories {
		if err := u.remover(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// deleteInstallation deletes what the installation itself records, and the namespace unless others
// keep something in it.
func (u *Uninstall) deleteInstallation(ctx context.Context) error {
	var lease coordinationv1.Lease
	err := u.direct.Get(ctx, client.ObjectKey{Namespace: u.req.Namespace, Name: leaderelection.LeaseName}, &lease)
	if err == nil {
		err = u.remover(ctx, &lease)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the controller's lease: %w", err)
	}
	if err := u.deleteRecords(ctx); err != nil {
		return err
	}
	others, err := u.others(ctx)
	if err != nil {
		return err
	}
	if len(others) == 0 {
		// The inventory goes with it.
		if err := u.remove(ctx, func(k state.Key) bool { return k.Kind == "Namespace" }); err != nil {
			return err
		}
		return u.waitForNamespaceDeletion(ctx)
	}
	if err := u.target.Orphan(ctx); err != nil {
		return err
	}
	u.req.Progress(fmt.Sprintf("Namespace %s stays, because of what is in it: %s", u.req.Namespace, strings.Join(others, ", ")))
	return nil
}

// deleteRecords deletes the ConfigMaps with the history and with what is published of AWS. Others of their names, which do not have
// their labels, stay.
func (u *Uninstall) deleteRecords(ctx context.Context) error {
	for _, name := range append(store.Names(), published.Names()...) {
		var found corev1.ConfigMap
		err := u.direct.Get(ctx, client.ObjectKey{Namespace: u.req.Namespace, Name: name}, &found)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading ConfigMap %s/%s: %w", u.req.Namespace, name, err)
		}
		if !store.HasLabels(&found) && !published.IsPublished(&found) {
			continue
		}
		if err := u.remover(ctx, &found); err != nil {
			return err
		}
	}
	return nil
}

// waitForNamespaceDeletion waits for the namespace. One that is not ours is not waited for.
func (u *Uninstall) waitForNamespaceDeletion(ctx context.Context) error {
	err := installation.Await(ctx, u.req.Timeout, u.req.Progress, func(ctx context.Context) (bool, string, error) {
		var ns corev1.Namespace
		err := u.direct.Get(ctx, client.ObjectKey{Name: u.req.Namespace}, &ns)
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", fmt.Errorf("reading Namespace %s: %w", u.req.Namespace, err)
		}
		if ns.DeletionTimestamp.IsZero() {
			u.req.Progress(fmt.Sprintf("Namespace %s stays: it was not made by Poolwright's installation", u.req.Namespace))
			return true, "", u.target.Orphan(ctx)
		}
		return false, fmt.Sprintf("Namespace %s is on its way out", ns.Name), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the namespace: %w", err)
	}
	return nil
}

// others lists what is in the namespace beside the traces of Poolwright and what
// every namespace has.
func (u *Uninstall) others(ctx context.Context) ([]string, error) {
	kube, err := discovery.NewDiscoveryClientForConfig(u.req.REST)
	if err != nil {
		return nil, fmt.Errorf("preparing to list the objects of Namespace %s: %w", u.req.Namespace, err)
	}
	// An API that does not respond may hold something: it is an error.
	lists, err := kube.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("listing the kinds that can be in Namespace %s: %w", u.req.Namespace, err)
	}
	var out []string
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" {
				continue
			}
			found := &metav1.PartialObjectMetadataList{}
			found.SetGroupVersionKind(schema.FromAPIVersionAndKind(list.GroupVersion, resource.Kind+"List"))
			if err := missingkind.Ignore(u.direct.List(ctx, found, client.InNamespace(u.req.Namespace))); err != nil {
				return nil, fmt.Errorf("listing %s in Namespace %s: %w", resource.Name, u.req.Namespace, err)
			}
			for i := range found.Items {
				if !u.isIgnored(resource.Kind, &found.Items[i]) {
					out = append(out, resource.Kind+" "+found.Items[i].Name)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// isIgnored reports whether an object need not keep the namespace: it goes by
// itself, comes with every namespace, or is the inventory that goes next.
func (u *Uninstall) isIgnored(kind string, o *metav1.PartialObjectMetadata) bool {
	switch {
	case !o.DeletionTimestamp.IsZero(), len(o.OwnerReferences) > 0:
		return true
	case kind == "ConfigMap":
		return o.Name == "kube-root-ca.crt" || o.Labels[inventoryLabel] == installation.Name
	case kind == "ServiceAccount":
		return o.Name == metav1.NamespaceDefault
	case kind == "Endpoints", kind == "EndpointSlice":
		return true // They follow their Services.
	}
	return false
}
