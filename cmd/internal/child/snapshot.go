package child

import (
	"bufio"
	"encoding/json"
	"fmt"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
)

// forecastRequest is what to compare. The objects of which there are many follow
// it, each once, and are named by their places.
type forecastRequest struct {
	Settings engine.Settings `json:"settings"`
	Before   encodedSnapshot `json:"before"`
	After    encodedSnapshot `json:"after"`
	// Follow counts the objects that follow, in the order of many's fields, and Shapes those
	// of the pods, which come before the first pod.
	Follow [5]int `json:"follow"`
	Shapes int    `json:"shapes"`
	// SameOfferings is whether After has the prices and offerings of Before, which are long and
	// then sent once.
	SameOfferings bool `json:"sameOfferings,omitempty"`
}

// encodedSnapshot is a provision.ClusterSnapshot whose long lists are places of what follows; -1 is a
// nil object. A list that is nil stays nil: to package simulate it means something else
// than an empty one.
type encodedSnapshot struct {
	// Rest is all but the long lists.
	Rest                 provision.ClusterSnapshot `json:"rest"`
	NodeClaims           []int                     `json:"nodeClaims"`
	Nodes                []int                     `json:"nodes"`
	Pods                 []int                     `json:"pods"`
	PodDisruptionBudgets []int                     `json:"budgets"`
	DaemonSets           []int                     `json:"daemonSets"`
}

// many are the objects of which there are many.
type many struct {
	claims  table[karpv1.NodeClaim]
	nodes   table[corev1.Node]
	pods    table[corev1.Pod]
	budgets table[policyv1.PodDisruptionBudget]
	sets    table[appsv1.DaemonSet]
}

// put takes the long lists of a snapshot in.
func (m *many) put(f provision.ClusterSnapshot) encodedSnapshot {
	out := encodedSnapshot{
		NodeClaims: m.claims.put(f.NodeClaims), Nodes: m.nodes.put(f.Nodes), Pods: m.pods.put(f.Pods),
		PodDisruptionBudgets: m.budgets.put(f.PodDisruptionBudgets), DaemonSets: m.sets.put(f.DaemonSets),
	}
	f.NodeClaims, f.Nodes, f.Pods, f.PodDisruptionBudgets, f.DaemonSets = nil, nil, nil, nil, nil
	f.NodePools, f.NodeClasses = slimAll[karpv1.NodePool](f.NodePools), slimAll[awsv1.EC2NodeClass](f.NodeClasses)
	f.Overlays, f.RuntimeClasses = slimAll[karpv1alpha1.NodeOverlay](f.Overlays), slimAll[nodev1.RuntimeClass](f.RuntimeClasses)
	out.Rest = f
	return out
}

// get is the snapshot again.
func (m *many) get(f encodedSnapshot) (out provision.ClusterSnapshot, err error) {
	out = f.Rest
	if out.NodeClaims, err = m.claims.get(f.NodeClaims); err != nil {
		return out, err
	}
	if out.Nodes, err = m.nodes.get(f.Nodes); err != nil {
		return out, err
	}
	if out.Pods, err = m.pods.get(f.Pods); err != nil {
		return out, err
	}
	if out.PodDisruptionBudgets, err = m.budgets.get(f.PodDisruptionBudgets); err != nil {
		return out, err
	}
	out.DaemonSets, err = m.sets.get(f.DaemonSets)
	return out, err
}

// send sends two snapshots.
func send(to *writer, settings engine.Settings, before, after provision.ClusterSnapshot) error {
	var m many
	same := after.Cluster.Offerings == before.Cluster.Offerings
	if same {
		after.Cluster.Offerings = nil
	}
	req := forecastRequest{Settings: settings, Before: m.put(before), After: m.put(after), SameOfferings: same}
	pods, shapes, err := encodePods(m.pods.all)
	if err != nil {
		return err
	}
	req.Follow = [...]int{len(m.claims.all), len(m.nodes.all), len(m.pods.all), len(m.budgets.all), len(m.sets.all)}
	req.Shapes = len(shapes)
	head, err := json.Marshal(req)
	if err != nil {
		return fmt.Errorf("writing what to compare: %w", err)
	}
	under := to.to
	buffer := bufio.NewWriterSize(under, 64<<10)
	to.to = buffer
	defer func() { to.to = under }()
	if err := to.send(frameRequest, head); err != nil {
		return err
	}
	for _, err := range []error{
		sendAll[karpv1.NodeClaim](to, m.claims, asJSON), sendAll[corev1.Node](to, m.nodes, reducedNode),
		sendPods(to, pods, shapes), sendAll[policyv1.PodDisruptionBudget](to, m.budgets, (*policyv1.PodDisruptionBudget).Marshal),
		sendAll[appsv1.DaemonSet](to, m.sets, (*appsv1.DaemonSet).Marshal),
	} {
		if err != nil {
			return err
		}
	}
	return buffer.Flush()
}

// receive is the other side of send. Want returns the next frame of that type.
func receive(want func(frameType) ([]byte, error)) (settings engine.Settings, before, after provision.ClusterSnapshot, err error) {
	raw, err := want(frameRequest)
	if err != nil {
		return settings, before, after, err
	}
	var req forecastRequest
	if err := json.Unmarshal(raw, &req); err != nil {
		return settings, before, after, fmt.Errorf("reading what to compare: %w", err)
	}
	settings = req.Settings
	var m many
	next := func() ([]byte, error) { return want(frameObject) }
	for i, read := range []func(int) error{
		func(n int) error { return receiveAll(next, &m.claims, n, fromJSON) },
		func(n int) error { return receiveAll(next, &m.nodes, n, (*corev1.Node).Unmarshal) },
		func(n int) error { return receivePods(next, &m.pods, req.Shapes, n) },
		func(n int) error {
			return receiveAll(next, &m.budgets, n, (*policyv1.PodDisruptionBudget).Unmarshal)
		},
		func(n int) error { return receiveAll(next, &m.sets, n, (*appsv1.DaemonSet).Unmarshal) },
	} {
		if err := read(req.Follow[i]); err != nil {
			return settings, before, after, fmt.Errorf("reading what to compare: %w", err)
		}
	}
	if before, err = m.get(req.Before); err == nil {
		after, err = m.get(req.After)
	}
	if req.SameOfferings {
		after.Cluster.Offerings = before.Cluster.Offerings
	}
	return settings, before, after, err
}

// table is objects, each once, with their places.
type table[T any] struct {
	at  map[*T]int
	all []*T
}

func (t *table[T]) put(list []*T) []int {
	if list == nil {
		return nil
	}
	if t.at == nil {
		t.at = make(map[*T]int, len(list))
	}
	out := make([]int, len(list))
	for i, o := range list {
		at, ok := t.at[o]
		switch {
		case o == nil:
			at = -1
		case !ok:
			at = len(t.all)
			t.at[o], t.all = at, append(t.all, o)
		}
		out[i] = at
	}
	return out
}

func (t *table[T]) get(places []int) ([]*T, error) {
	if places == nil {
		return nil, nil
	}
	out := make([]*T, len(places))
	for i, at := range places {
		if at < -1 || at >= len(t.all) {
			return nil, fmt.Errorf("reading what to compare: there is no object %d", at)
		}
		if at >= 0 {
			out[i] = t.all[at]
		}
	}
	return out, nil
}

// object is a pointer to a Kubernetes object.
type object[T any] interface {
	*T
	metav1.Object
}

// slim is the object without its managedFields, which are large and mean nothing here.
// The given one stays as it is.
func slim[T any, P object[T]](o *T) *T {
	if o == nil || len(P(o).GetManagedFields()) == 0 {
		return o
	}
	c := *o
	P(&c).SetManagedFields(nil)
	return &c
}

func slimAll[T any, P object[T]](list []*T) []*T {
	if list == nil {
		return nil
	}
	out := make([]*T, len(list))
	for i, o := range list {
		out[i] = slim[T, P](o)
	}
	return out
}

func sendAll[T any, P object[T]](to *writer, t table[T], encode func(*T) ([]byte, error)) error {
	for _, o := range t.all {
		raw, err := encode(slim[T, P](o))
		if err != nil {
			return fmt.Errorf("writing what to compare: %T %s: %w", o, P(o).GetName(), err)
		}
		if err := to.send(frameObject, raw); err != nil {
			return err
		}
	}
	return nil
}

func receiveAll[T any](next func() ([]byte, error), into *table[T], n int, decode func(*T, []byte) error) error {
	for range n {
		raw, err := next()
		if err != nil {
			return err
		}
		o := new(T)
		if err := decode(o, raw); err != nil {
			return fmt.Errorf("%T: %w", o, err)
		}
		into.all = append(into.all, o)
	}
	return nil
}

func asJSON[T any](o *T) ([]byte, error)     { return json.Marshal(o) }
func fromJSON[T any](o *T, raw []byte) error { return json.Unmarshal(raw, o) }
