package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

const (
	// consolidateAfter is that of the pool.
	consolidateAfter = 3 * time.Second
	// nominationTime is as long as Karpenter takes a node for one that a pod is on its way to: twice the
	// longest batch.
	nominationTime = 20 * time.Second
	// held is the name of the pool, its class and the pods.
	held = "held"
)

// NodeSystem provisions nodes in an environment of its own: a cluster has one Karpenter.
type NodeSystem struct {
	// Name is what its column is called.
	Name string
	// Processes are what it runs in.
	Processes   Processes
	Environment *Environment
}

// NodeUsage is what the life of some nodes took, from their pods to their end.
type NodeUsage struct {
	// Launch is from the creation of the first pod, or of its owner, to the first CreateFleet.
	Launch time.Duration
	// Terminate is from the end of consolidateAfter, counted from the deletion of the last pod, or of its owner, to
	// the last TerminateInstances.
	Terminate time.Duration
	// Usage is that of the processes in all that time.
	Usage Usage
}

// NodeComparison is what several systems took in the same rounds.
type NodeComparison struct {
	// Systems are their names in the order of the columns.
	Systems []string
	// Single are, by system, what one node took in each round, Owned what one took for the only pod of a ReplicaSet,
	// and Together what as many nodes as Nodes took.
	Single, Owned, Together map[string][]NodeUsage
	Nodes                   int
	// Load is the load average of the machine at the beginning of each round.
	Load []float64
}

// NodeConfig is a sandbox in which nodes are provisioned: a cluster and an account with what a Karpenter
// needs, and instances that are there soon.
func NodeConfig() sandbox.Config {
	config := sandbox.DefaultConfig()
	config.WithoutGit = true
	config.AWS.Region, config.AWS.Account, config.AWS.Cluster.Name = nodeRegion, nodeAccount, nodeCluster
	config.AWS.Roles = []string{nodeRole}
	config.AWS.Delays.Fleet, config.AWS.Delays.Running, config.AWS.Delays.Shutdown = 500*time.Millisecond, time.Second, time.Second
	config.Nodes = nodes.Delays{Join: 500 * time.Millisecond, NodeGone: time.Second}
	return config
}

// Begin makes the pool, and provisions one node: until then nothing is cached.
func (s NodeSystem) Begin(ctx context.Context) error {
	for _, text := range []string{nodeClass, nodePool} {
		object, err := decodeObject(text)
		if err != nil {
			return err
		}
		err = s.Environment.await(ctx, "the kind "+object.GetKind()+" is served", func() error { return s.Environment.Admin.Create(ctx, object.DeepCopy()) })
		if err != nil {
			return err
		}
	}
	_, err := s.life(ctx, pods(1))
	return err
}

// AddRound measures each system once with one node, and in the first round with several that become empty
// together. Each round begins with another system. Progress gets a line for each.
func (c *NodeComparison) AddRound(ctx context.Context, systems []NodeSystem, progress io.Writer) error {
	round, before := len(c.Load), load()
	single, owned, together := map[string]NodeUsage{}, map[string]NodeUsage{}, map[string]NodeUsage{}
	for i := range systems {
		s := systems[(round+i)%len(systems)]
		var err error
		if single[s.Name], err = s.life(ctx, pods(1)); err != nil {
			return err
		}
		if owned[s.Name], err = s.life(ctx, []client.Object{replicaSet()}); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(progress, "nodes, round %d, %s: CreateFleet after %.2f s, %.2f s for a ReplicaSet's pod, TerminateInstances %.2f s beyond consolidateAfter\n",
			round+1, s.Name, single[s.Name].Launch.Seconds(), owned[s.Name].Launch.Seconds(), single[s.Name].Terminate.Seconds())
		if round == 0 && c.Nodes > 0 {
			if together[s.Name], err = s.life(ctx, pods(c.Nodes)); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(progress, "nodes, %s: the last of %d terminated %.2f s beyond consolidateAfter\n", s.Name, c.Nodes, together[s.Name].Terminate.Seconds())
		}
	}
	// A round counts once it is whole.
	for name, used := range single {
		c.Single[name] = append(c.Single[name], used)
	}
	for name, used := range owned {
		c.Owned[name] = append(c.Owned[name], used)
	}
	for name, used := range together {
		c.Together[name] = append(c.Together[name], used)
	}
	c.Load = append(c.Load, before)
	return nil
}

// life makes workloads that need a node each, deletes them once their pods run, and waits until the nodes are gone.
func (s NodeSystem) life(ctx context.Context, workloads []client.Object) (used NodeUsage, err error) {
	var created, emptied time.Time
	used.Usage, err = Measure(ctx, s.Processes, false, func(ctx context.Context) error {
		created = time.Now()
		for _, workload := range workloads {
			if err := s.Environment.Admin.Create(ctx, workload); err != nil {
				return fmt.Errorf("creating a workload: %w", err)
			}
		}
		if err := s.Environment.await(ctx, "the pods run", func() error { return s.running(ctx, len(workloads)) }); err != nil {
			return err
		}
		// Nothing shows that a nomination has ended.
		pauseFor(ctx, nominationTime)
		for _, workload := range workloads {
			if err := s.Environment.Admin.Delete(ctx, workload, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				return fmt.Errorf("deleting a workload: %w", err)
			}
		}
		emptied = time.Now()
		return s.Environment.await(ctx, "the nodes are gone", func() error { return s.claims(ctx, 0) })
	})
	if err != nil {
		return used, fmt.Errorf("%s: %w", s.Name, err)
	}
	launches, ends := s.requests("CreateFleet", created), s.requests("TerminateInstances", emptied)
	if len(launches) == 0 || len(ends) == 0 {
		return used, fmt.Errorf("%s: %d CreateFleet and %d TerminateInstances were requested", s.Name, len(launches), len(ends))
	}
	used.Launch, used.Terminate = launches[0].Sub(created), ends[len(ends)-1].Sub(emptied)-consolidateAfter
	return used, nil
}

// running returns nil while so many pods run on as many initialized nodes.
func (s NodeSystem) running(ctx context.Context, n int) error {
	list := &corev1.PodList{}
	if err := s.Environment.Admin.List(ctx, list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels(podLabels())); err != nil {
		return fmt.Errorf("listing the pods: %w", err)
	}
	if len(list.Items) != n {
		return fmt.Errorf("there are %d pods", len(list.Items))
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", p.Name, p.Status.Phase)
		}
	}
	return s.claims(ctx, n)
}

// claims returns nil while there are so many NodeClaims, all of them initialized.
func (s NodeSystem) claims(ctx context.Context, n int) error {
	list := listOf(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"})
	if err := s.Environment.Admin.List(ctx, list); err != nil {
		return fmt.Errorf("listing NodeClaims: %w", err)
	}
	if len(list.Items) != n {
		return fmt.Errorf("there are %d NodeClaims", len(list.Items))
	}
	for i := range list.Items {
		if !hasCondition(&list.Items[i], "Initialized") {
			return errors.New("a NodeClaim is not initialized")
		}
	}
	return nil
}

// requests are the times of an operation's requests after a moment, in their order.
func (s NodeSystem) requests(operation string, after time.Time) []time.Time {
	var all []time.Time
	for _, call := range s.Environment.AWS.Calls() {
		if call.Operation == operation && !call.Dry && call.Time.After(after) {
			all = append(all, call.Time)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func podLabels() map[string]string { return map[string]string{"app": held} }

// podSpec is that of a pod that needs a node: more than half of the types' two processors.
func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: map[string]string{"karpenter.sh/nodepool": held}, TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/app:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1100m")},
		}}},
	}
}

// pods are so many without an owner: whether more of them come is not known.
func pods(n int) []client.Object {
	var all []client.Object
	for i := range n {
		all = append(all, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", held, i), Namespace: metav1.NamespaceDefault, Labels: podLabels()}, Spec: podSpec(),
		})
	}
	return all
}

// replicaSet is the owner of one pod.
func replicaSet() *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: held, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: podLabels()},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels()}, Spec: podSpec()},
		},
	}
}

// hasCondition reports whether a condition of an object is true.
func hasCondition(u *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == kind {
			return condition["status"] == string(metav1.ConditionTrue)
		}
	}
	return false
}
