package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/internal/missingkind"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/gpu"
)

// beforeDrain, on a NodePool, keeps the limits and replicas that it had before
// they were lowered to let no node come.
const beforeDrain = "poolwright.dev/before-drain"

// pools are the NodePools whose nodes are ours.
func (u *Uninstall) pools(ctx context.Context) ([]karpv1.NodePool, error) {
	var list karpv1.NodePoolList
	if err := missingkind.Ignore(u.direct.List(ctx, &list)); err != nil {
		return nil, fmt.Errorf("listing NodePools: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p karpv1.NodePool) bool {
		ref := p.Spec.Template.Spec.NodeClassRef
		return ref == nil || ref.Group != nodeClassGroup
	}), nil
}

// claims are the NodeClaims whose nodes are ours.
func (u *Uninstall) claims(ctx context.Context) ([]karpv1.NodeClaim, error) {
	var list karpv1.NodeClaimList
	if err := missingkind.Ignore(u.direct.List(ctx, &list)); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(c karpv1.NodeClaim) bool {
		ref := c.Spec.NodeClassRef
		return ref == nil || ref.Group != nodeClassGroup
	}), nil
}

// drain lets no new node come and removes those that are there, by the engine.
// The pools stay, so that no declaration is lost.
func (u *Uninstall) drain(ctx context.Context) error {
	if err := u.awaitSuspension(ctx); err != nil {
		return err
	}
	pools, err := u.pools(ctx)
	if err != nil {
		return err
	}
	for i := range pools {
		if err := u.lower(ctx, &pools[i]); err != nil {
			return err
		}
	}
	err = installation.Await(ctx, u.req.Timeout, u.req.Progress, func(ctx context.Context) (bool, string, error) {
		claims, err := u.claims(ctx)
		if err != nil {
			return false, "", err
		}
		// What was on its way when the limits were lowered goes as well.
		for i := range claims {
			if claims[i].DeletionTimestamp.IsZero() {
				if err := u.remover(ctx, &claims[i]); err != nil {
					return false, "", err
				}
			}
		}
		return len(claims) == 0, remaining(claims), nil
	})
	if err != nil {
		return fmt.Errorf("draining nodes: %w; kubectl get nodeclaims lists the nodes that are left, and kubectl get pdb -A what must not be evicted; run uninstall again to continue", err)
	}
	return nil
}

// remaining is which nodes are still there.
func remaining(claims []karpv1.NodeClaim) string {
	var out []string
	for _, c := range claims {
		name := c.Name
		if c.Status.NodeName != "" {
			name += " (" + c.Status.NodeName + ")"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	switch {
	case len(out) == 0:
		return "no node is left"
	case len(out) > 5:
		out = append(out[:5], "…")
	}
	return fmt.Sprintf("%s left: %s", plural.Count(len(claims), "node"), strings.Join(out, ", "))
}

// lowering is what a NodePool had before.
type lowering struct {
	Limits   karpv1.Limits `json:"limits,omitempty"`
	Replicas *int64        `json:"replicas,omitempty"`
}

// lower lets a pool make no further node, and notes how to take that back.
func (u *Uninstall) lower(ctx context.Context, pool *karpv1.NodePool) error {
	return u.edit(ctx, pool, "lowering the limits of NodePool", func() error {
		if pool.Annotations[beforeDrain] != "" {
			return nil
		}
		note, err := json.Marshal(lowering{Limits: pool.Spec.Limits, Replicas: pool.Spec.Replicas})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&pool.ObjectMeta, beforeDrain, string(note))
		if pool.Spec.Replicas != nil {
			*pool.Spec.Replicas = 0 // Of limits, such a pool has only nodes.
			return nil
		}
		limits := karpv1.Limits{}
		maps.Copy(limits, pool.Spec.Limits)
		limits[corev1.ResourceCPU] = resource.MustParse("0")
		pool.Spec.Limits = limits
		return nil
	})
}

// RestoreLimits restores the limits of NodePools that an uninstall that was cut off
// had lowered, and writes their number to progress. Whoever may not read NodePools raises
// none.
func RestoreLimits(ctx context.Context, cfg *rest.Config, progress io.Writer) error {
	n, err := restoreLimits(ctx, cfg)
	if err != nil {
		return fmt.Errorf("restoring the limits of NodePools that an uninstall had lowered: %w", err)
	}
	if n > 0 {
		fmt.Fprintf(progress, "restored the limits of %s that an uninstall had lowered\n", plural.Count(n, "NodePool"))
	}
	return nil
}

func restoreLimits(ctx context.Context, cfg *rest.Config) (int, error) {
	direct, err := connect.DirectClient(cfg)
	if err != nil {
		return 0, err
	}
	u := &Uninstall{direct: direct}
	pools, err := u.pools(ctx)
	if apierrors.IsForbidden(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	pools = slices.DeleteFunc(pools, func(p karpv1.NodePool) bool { return p.Annotations[beforeDrain] == "" })
	if len(pools) == 0 {
		return 0, nil
	}
	return len(pools), u.restorePools(ctx)
}

// restorePools takes back what drain did to the pools. By then nobody makes
// nodes from them, or somebody has thought better of it.
func (u *Uninstall) restorePools(ctx context.Context) error {
	pools, err := u.pools(ctx)
	if err != nil {
		return err
	}
	for i := range pools {
		pool := &pools[i]
		err := u.edit(ctx, pool, "giving back the limits of NodePool", func() error {
			note := pool.Annotations[beforeDrain]
			if note == "" {
				return nil
			}
			var before lowering
			if err := json.Unmarshal([]byte(note), &before); err != nil {
				return fmt.Errorf("reading its annotation %s: %w: set its limits and remove the annotation by hand", beforeDrain, err)
			}
			delete(pool.Annotations, beforeDrain)
			pool.Spec.Limits = before.Limits
			if before.Replicas != nil && pool.Spec.Replicas != nil {
				pool.Spec.Replicas = before.Replicas
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// edit changes an object that may be changed by others at the same time; one
// that is gone needs no change.
func (u *Uninstall) edit(ctx context.Context, object client.Object, doing string, change func() error) error {
	first := true
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !first {
			if err := u.direct.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
		}
		first = false
		before, ok := object.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("copying a %T", object)
		}
		if err := change(); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if data, err := client.MergeFrom(before).Data(object); err != nil || string(data) == "{}" {
			return err
		}
		return u.direct.Patch(ctx, object, patch)
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("%s %s: %w", doing, object.GetName(), err)
	}
	return nil
}

// remover deletes the very incarnation that was observed.
func (u *Uninstall) remover(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := u.direct.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting %s: %w", object.GetName(), err)
}

// finish waits until the engine has terminated what it is at.
func (u *Uninstall) finish(ctx context.Context) error {
	err := installation.Await(ctx, u.req.Timeout, u.req.Progress, func(ctx context.Context) (bool, string, error) {
		claims, err := u.claims(ctx)
		if err != nil {
			return false, "", err
		}
		claims = slices.DeleteFunc(claims, func(c karpv1.NodeClaim) bool { return c.DeletionTimestamp.IsZero() })
		return len(claims) == 0, remaining(claims), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for nodes that are being terminated: %w", err)
	}
	return nil
}

// holder is an object with a finalizer that only Karpenter would remove.
type holder struct {
	kind      string
	finalizer string
	object    client.Object
}

// withFinalizers lists them. Objects of EKS Auto Mode are not among them: its Karpenter
// runs outside of the cluster.
func (u *Uninstall) withFinalizers(ctx context.Context) ([]holder, error) {
	var out []holder
	note := func(kind, finalizer string, object client.Object) {
		if controllerutil.ContainsFinalizer(object, finalizer) {
			out = append(out, holder{kind, finalizer, object})
		}
	}
	claims, err := u.claims(ctx)
	if err != nil {
		return nil, err
	}
	for i := range claims {
		note("NodeClaim", karpv1.TerminationFinalizer, &claims[i])
	}
	pools, err := u.pools(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pools {
		note("NodePool", karpv1.TerminationFinalizer, &pools[i])
	}
	classes := &metav1.PartialObjectMetadataList{}
	classes.SetGroupVersionKind(schema.GroupVersionKind{Group: nodeClassGroup, Version: "v1", Kind: "EC2NodeClassList"})
	if err := missingkind.Ignore(u.direct.List(ctx, classes)); err != nil {
		return nil, fmt.Errorf("listing EC2NodeClasses: %w", err)
	}
	for i := range classes.Items {
		note("EC2NodeClass", awsv1.TerminationFinalizer, &classes.Items[i])
	}
	// Whole Nodes, because their taints are read too.
	var nodes corev1.NodeList
	if err := u.direct.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	for i := range nodes.Items {
		if labels := nodes.Items[i].Labels; labels["eks.amazonaws.com/nodeclass"] == "" && labels["eks.amazonaws.com/compute-type"] != "auto" {
			note("Node", karpv1.TerminationFinalizer, &nodes.Items[i])
		}
	}
	return out, nil
}

// letIn takes from a node what only the controller would have taken off: the taint that
// waits for its GPUs, our record of them, and that of an update of its plugin.
func letIn(node *corev1.Node) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == gpu.StartupTaint })
	delete(node.Annotations, gpu.AllocatableAnnotation)
	gpu.DeletePluginUpdate(node.Annotations)
}

// release takes the finalizers off and deletes nothing. What was being deleted
// already goes now.
func (u *Uninstall) release(ctx context.Context) error {
	held, err := u.withFinalizers(ctx)
	if err != nil {
		return err
	}
	for _, h := range held {
		err := u.edit(ctx, h.object, "removing the finalizer of "+h.kind, func() error {
			controllerutil.RemoveFinalizer(h.object, h.finalizer)
			if node, ok := h.object.(*corev1.Node); ok {
				letIn(node)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
