package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

const (
	systemNamespace = "poolwright-system"
	repository      = "nodes"
)

// opening is what every run begins with: from the push to an engine that runs. What is
// watched from then on is watched until ctx ends.
func (s *Run) opening(ctx context.Context) []scenarioStep {
	return []scenarioStep{
		{events: []string{sandboxReady}},
		{action: s.push, events: []string{gitPushed}},
		{action: s.bootstrap},
		{action: s.startController},
		{action: func(context.Context) error { return s.watchCRDs(ctx) }, events: []string{syncReady}},
		// The engine starts when the Cluster object has come from Git.
		{action: s.engineReady},
	}
}

// closing is what every run ends with.
func (s *Run) closing() []scenarioStep {
	return []scenarioStep{{action: s.noNodesLeft, events: []string{nodesZero}}}
}

// createWorkload creates a workload; then comes what brings its first node.
func (s *Run) createWorkload(r *workload) scenarioStep {
	return scenarioStep{action: func(ctx context.Context) error { return s.create(ctx, r) }, workload: r, events: nodeLaunchEvents(r)}
}

// nodeLaunchEvents is how a node comes for a pod.
func nodeLaunchEvents(r *workload) []string {
	events := []string{podPending, nodeClaimCreated, fleetRequested, nodeRegistered, gpuAllocatable, nodeInitialized, podBound, podRunning}
	if !r.needsGPU {
		events = slices.DeleteFunc(events, func(e string) bool { return e == gpuAllocatable })
	}
	return events
}

// deleteWorkload deletes a workload; then comes what ends its last node.
func (s *Run) deleteWorkload(r *workload) scenarioStep {
	return scenarioStep{action: func(ctx context.Context) error { return s.remove(ctx, r) }, workload: r, events: []string{podDeleted, instanceTerminated}}
}

// prepare is what a platform team has done before: a namespace, a user, a token,
// an empty repository and a working copy of the example.
func (s *Run) prepare(ctx context.Context) error {
	if err := s.namespace(ctx, systemNamespace); err != nil {
		return err
	}
	team, err := s.environment.Git.CreateUser(ctx, "platform-team")
	if err != nil {
		return err
	}
	remote, err := s.environment.Git.CreateRepository(ctx, team, repository, true)
	if err != nil {
		return err
	}
	token, err := s.environment.Git.CreateToken(ctx, team, "poolwright", "write:repository")
	if err != nil {
		return err
	}
	s.repo, err = cloneExample(s.Folder, filepath.Join(s.environment.Dir, "working-copy"), remote.URL, team.Name, token)
	if err != nil {
		return err
	}
	s.repo.team, s.repo.remote = team, remote
	return s.watch(ctx)
}

func (s *Run) namespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// push makes the example the first commit of a new repository.
func (s *Run) push(ctx context.Context) error {
	commit, err := s.repo.Push(ctx, "Add the node pools")
	if err != nil {
		return err
	}
	s.marks.mark(gitPushed, repository+"@main", "first commit "+commit[:8]+": "+s.scenario.contents, time.Now())
	return nil
}

// bootstrap makes the AWS half, installs Poolwright and points the cluster at
// the repository, with the command of a user's first day.
func (s *Run) bootstrap(ctx context.Context) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: systemNamespace},
		StringData: map[string]string{"username": s.repo.User, "password": s.repo.Token},
	}
	if _, err := s.kube.CoreV1().Secrets(systemNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the Git credentials: %w", err)
	}
	// The kubelets here are simulated: no image is pulled, and nothing to wait for.
	args := []string{"bootstrap", s.clusterFolder(),
		"--name=" + s.syncName(), "--url=" + s.repo.URL, "--secret=git", "--image=sandbox.invalid/poolwright:demo", "--yes", "--wait=false"}
	if s.Setup.SyncFile != "" {
		args = append(args, "--sync-file="+filepath.Join(s.repo.Dir, s.Setup.SyncFile))
	}
	if _, err := s.product(ctx, args...); err != nil {
		return err
	}
	return s.changeSync(ctx, `{"spec":{"interval":"5s"}}`)
}

// changeSync is a merge patch of the Sync.
func (s *Run) changeSync(ctx context.Context, patch string) error {
	_, err := s.dyn.Resource(syncs()).Namespace(systemNamespace).Patch(ctx, s.syncName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("changing the Sync: %w", err)
	}
	return nil
}

// product runs one of poolwright's commands to its end, as a user would in a shell
// with the sandbox's exports, and returns its standard output. An *exec.ExitError
// among its errors holds the exit code.
func (s *Run) product(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.Product, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range s.environment.Env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.Output()
	if err != nil {
		output := out
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			output = append(slices.Clone(out), exit.Stderr...)
		}
		return out, fmt.Errorf("poolwright %s: %w\n%s", args[0], err, output)
	}
	return out, nil
}

// startController runs the product beside the sandbox, in the place of the pods
// that the simulated kubelets only pretend to run. It brings Karpenter's kinds, which
// the run watches.
func (s *Run) startController(ctx context.Context) (err error) {
	s.controller, err = s.environment.Run("poolwright", s.Product, "run",
		"--metrics-addr="+s.MetricsAddress, "--health-addr=0", "--cache-dir="+filepath.Join(s.environment.Dir, "caches"))
	if err != nil {
		return err
	}
	return s.retry(ctx, "waiting for Karpenter's kinds", func() error {
		_, err := s.dyn.Resource(nodePools()).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// engineReady waits for the engine and its pools. The engine starts only after
// the Cluster object has come from Git, so this is part of the first apply.
func (s *Run) engineReady(ctx context.Context) error {
	return s.retry(ctx, "waiting for the engine", func() error {
		list, err := s.dyn.Resource(clusters()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d Cluster objects", len(list.Items))
		}
		if _, reason, message := ready(&list.Items[0]); reason != "EngineRunning" {
			return fmt.Errorf("cluster is %s: %s", reason, message)
		}
		for _, r := range s.scenario.workloads {
			if err := s.poolReady(ctx, r.pool); err != nil {
				return err
			}
		}
		return nil
	})
}

// poolReady is nil once a pool can be launched from, and else an error with what its class
// lacks.
func (s *Run) poolReady(ctx context.Context, name string) error {
	pool, err := s.dyn.Resource(nodePools()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	is, _, ofPool := ready(pool)
	if is {
		return nil
	}
	ref, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
	class, err := s.dyn.Resource(nodeClasses()).Get(ctx, ref, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, _, ofClass := ready(class)
	return fmt.Errorf("NodePool %s is not ready: %s; EC2NodeClass %s: %s", name, ofPool, ref, ofClass)
}

// create creates the workload, with one pod where it starts with none: whatever
// would scale it is not here.
func (s *Run) create(ctx context.Context, r *workload) error {
	if err := s.namespace(ctx, r.owner.GetNamespace()); err != nil {
		return err
	}
	for _, object := range r.objects {
		object = object.DeepCopy()
		if replicas, found, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); found && replicas == 0 {
			if err := unstructured.SetNestedField(object.Object, int64(r.pods()), "spec", "replicas"); err != nil {
				return fmt.Errorf("scaling %s: %w", object.GetName(), err)
			}
		}
		err := s.retry(ctx, "creating "+object.GetKind()+" "+object.GetName(), func() error {
			_, err := s.resource(object).Create(ctx, object, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resource is where an object is created and deleted.
func (s *Run) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return s.dyn.Resource(kind).Namespace(object.GetNamespace())
}

// remove deletes what makes the workload's pods, and waits until these are gone.
func (s *Run) remove(ctx context.Context, r *workload) error {
	background := metav1.DeletePropagationBackground
	if err := s.resource(r.owner).Delete(ctx, r.owner.GetName(), metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return fmt.Errorf("deleting %s: %w", r.title(), err)
	}
	err := s.retry(ctx, "waiting for the pods' end", func() error {
		pods, err := s.podsOf(ctx, r)
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods))
		}
		return err
	})
	if err != nil {
		return err
	}
	r.marks.mark(podDeleted, r.title(), "the last one of its pool", time.Now())
	return nil
}

// podsOf lists the pods of a workload.
func (s *Run) podsOf(ctx context.Context, r *workload) ([]corev1.Pod, error) {
	list, err := s.kube.CoreV1().Pods(r.owner.GetNamespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !r.owns(&p) }), nil
}

// noNodesLeft waits until nothing is left that Karpenter made.
func (s *Run) noNodesLeft(ctx context.Context) error {
	err := s.retry(ctx, "waiting for zero", func() error {
		var left []string
		claims, err := s.dyn.Resource(nodeClaims()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, c := range claims.Items {
			left = append(left, "nodeclaim/"+c.GetName())
		}
		if n := s.gpuNodes(ctx); n != 0 {
			left = append(left, fmt.Sprintf("%d nodes of Karpenter's", n))
		}
		for _, i := range s.environment.AWS.Instances() {
			// Nobody but Karpenter gives its instances a pool.
			if i.State != sandboxaws.Terminated && i.Tags[poolLabel] != "" {
				left = append(left, "instance/"+i.ID)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("still there: %s", strings.Join(left, ", "))
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.marks.mark(nodesZero, s.pools(), "no NodeClaim, no node, no instance: $0/h", time.Now())
	return nil
}

// pools names the pools that the run is about.
func (s *Run) pools() string {
	var names []string
	for _, r := range s.scenario.workloads {
		names = append(names, "nodepool/"+r.pool)
	}
	return strings.Join(names, " ")
}

// gpuNodes counts the nodes of Karpenter's; -1 where they cannot be listed.
func (s *Run) gpuNodes(ctx context.Context) int {
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool"})
	if err != nil {
		return -1
	}
	return len(nodes.Items)
}
