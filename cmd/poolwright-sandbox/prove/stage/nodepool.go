package stage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// nodePools is the kind of node pools as a history names it.
var nodePools = schema.GroupResource{Group: "karpenter.sh", Resource: "nodepools"}.String()

var nodePool = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}

// nodePoolText is a NodePool by its name and value; no stage has machines for it.
const nodePoolText = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  template:
    metadata: {labels: {value: %q}}
    spec:
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: none}
`

// poolName is the name of a NodePool of the model: they are in no namespace.
func (s *Stage) poolName(name string) string { return s.name + "-" + name }

// observePools adds the live NodePools of the stage.
func (s *Stage) observePools(ctx context.Context, event *history.Event) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(nodePool)
	err := s.config.Admin.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // no stage has brought them yet
	}
	for _, item := range list.Items {
		name, ours := strings.CutPrefix(item.GetName(), s.poolName(""))
		if !ours || item.GetDeletionTimestamp() != nil {
			continue
		}
		value, _, _ := unstructured.NestedString(item.Object, "spec", "template", "metadata", "labels", "value")
		event.Live = append(event.Live, history.State{Object: s.object("NodePool", name), Value: value, UID: string(item.GetUID())})
	}
	return err
}

// deletePools removes the NodePools of the stage.
func (s *Stage) deletePools(ctx context.Context) error {
	event := history.Event{}
	errs := []error{s.observePools(ctx, &event)}
	for _, state := range event.Live {
		pool := &unstructured.Unstructured{}
		pool.SetGroupVersionKind(nodePool)
		pool.SetName(state.Object.Name)
		errs = append(errs, client.IgnoreNotFound(s.config.Admin.Delete(ctx, pool)))
	}
	return errors.Join(errs...)
}

// AddNode gives a NodePool a node, and touches the NodePool as its controllers do then.
func (s *Stage) AddNode(ctx context.Context, o history.Object) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + o.Name, Labels: map[string]string{"karpenter.sh/nodepool": o.Name}}}
	if err := s.config.Admin.Create(ctx, node); err != nil {
		return err
	}
	s.controller.environment.later(func(ctx context.Context) error { return client.IgnoreNotFound(s.config.Admin.Delete(ctx, node)) })
	pool := &unstructured.Unstructured{}
	pool.SetGroupVersionKind(nodePool)
	pool.SetName(o.Name)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"prove.poolwright.dev/nodes":"1"}}}`))
	if err := s.config.Admin.Patch(ctx, pool, patch); err != nil {
		return err
	}
	s.Tap.Record(history.Event{Kind: history.LossAdded, Object: o, UID: string(pool.GetUID())})
	return nil
}

// AwaitHold waits until the Sync reports that a deletion waits for a person, or the object is
// gone, and then declares it again.
func (s *Stage) AwaitHold(ctx context.Context, kind, name, value string) error {
	err := s.eventually(ctx, "the deletion neither waits nor is made", func() error {
		event := history.Event{}
		if err := s.observePools(ctx, &event); err != nil {
			return err
		}
		there := false
		for _, state := range event.Live {
			there = there || state.Object == s.object(kind, name)
		}
		if !there {
			return nil
		}
		sync, err := s.readSync(ctx)
		if err != nil {
			return err
		}
		for _, pending := range sync.Status.Pending {
			if pending.Action == "delete" && strings.HasSuffix(pending.Object, "/"+s.poolName(name)) {
				return nil
			}
		}
		return fmt.Errorf("pending is %v", sync.Status.Pending)
	})
	if err != nil {
		return err
	}
	s.Model[kind+"/"+name] = value
	return s.Commit(ctx, "Keep the node pool")
}

// nodePoolLabel is on the nodes of a NodePool.
const nodePoolLabel = "karpenter.sh/nodepool"

// machines are what there is of each machine, by its instance.
func (s *Stage) machines(ctx context.Context) ([]history.Machine, error) {
	byInstance := map[string]*history.Machine{}
	var out []history.Machine
	of := func(providerID string) *history.Machine {
		id := providerID[strings.LastIndexByte(providerID, '/')+1:]
		if byInstance[id] == nil || id == "" {
			byInstance[id] = &history.Machine{}
		}
		return byInstance[id]
	}
	claims := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaimList"}}
	if err := s.config.Admin.List(ctx, claims); err != nil {
		return nil, err
	}
	for _, claim := range claims.Items {
		id, _, err := unstructured.NestedString(claim.Object, "status", "providerID")
		if err != nil {
			return nil, err
		}
		if id == "" {
			out = append(out, history.Machine{NodeClaim: claim.GetName()})
			continue
		}
		of(id).NodeClaim = claim.GetName()
	}
	var nodes corev1.NodeList
	if err := s.config.Admin.List(ctx, &nodes, client.HasLabels{nodePoolLabel}); err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		of(node.Spec.ProviderID).Node = node.Name
	}
	for _, i := range s.AWS.Instances() {
		if i.State != aws.ShuttingDown && i.State != aws.Terminated {
			of(i.ID).Instance = i.ID
		}
	}
	for _, m := range byInstance {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(a, b history.Machine) int {
		return strings.Compare(a.NodeClaim+"/"+a.Instance+"/"+a.Node, b.NodeClaim+"/"+b.Instance+"/"+b.Node)
	})
	return out, nil
}

// deleteEngineObjects removes what belongs to no namespace, without its controller.
func (s *Stage) deleteEngineObjects(ctx context.Context) error {
	var errs []error
	lists := []client.ObjectList{&v1alpha1.ClusterList{}}
	for _, kind := range []struct{ version, list string }{
		{"karpenter.sh/v1", "NodePoolList"}, {"karpenter.sh/v1", "NodeClaimList"}, {"karpenter.k8s.aws/v1", "EC2NodeClassList"},
	} {
		lists = append(lists, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": kind.version, "kind": kind.list}})
	}
	for _, list := range append(lists, &corev1.NodeList{}) {
		var options []client.ListOption
		if _, is := list.(*corev1.NodeList); is {
			options = append(options, client.HasLabels{nodePoolLabel})
		}
		err := s.config.Admin.List(ctx, list, options...)
		if meta.IsNoMatchError(err) {
			continue // no controller has brought the kind yet
		}
		errs = append(errs, err, meta.EachListItem(list, func(o runtime.Object) error { return s.purge(ctx, o.(client.Object)) }))
	}
	return errors.Join(errs...)
}

// purge deletes an object together with its finalizers.
func (s *Stage) purge(ctx context.Context, o client.Object) error {
	err := s.config.Admin.Delete(ctx, o)
	if err == nil {
		err = s.config.Admin.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
