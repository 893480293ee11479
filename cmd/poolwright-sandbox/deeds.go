package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// The resources that the story touches by name.
func nodePools() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
}

func nodeClaims() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
}

func syncs() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "poolwright.dev", Version: "v1alpha1", Resource: "syncs"}
}

func clusters() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "poolwright.dev", Version: "v1alpha1", Resource: "clusters"}
}

// push makes the example the first commit of a new repository.
func (s *story) push(ctx context.Context) error {
	commit, err := s.repo.push(ctx, "Add the node pools")
	if err != nil {
		return err
	}
	s.marks.mark(gitPushed, repository+"@main", "first commit "+commit[:8]+": three pools, two classes, the device plugin", time.Now())
	return nil
}

// bootstrap makes the AWS half, installs Poolwright and points the cluster at
// the repository, with the command of a user's first day.
func (s *story) bootstrap(ctx context.Context) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: systemNamespace},
		StringData: map[string]string{"username": s.repo.user, "password": s.repo.token},
	}
	if _, err := s.kube.CoreV1().Secrets(systemNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the Git credentials: %w", err)
	}
	// The kubelets here are played: no image is pulled, and nothing to wait for.
	err := s.product(ctx, "bootstrap", filepath.Join(s.repo.dir, syncPath),
		"--name="+syncName, "--url="+s.repo.url, "--secret=git", "--image=sandbox.invalid/poolwright:demo", "--yes", "--wait=false")
	if err != nil {
		return err
	}
	if err := s.introduceReviewer(ctx); err != nil {
		return err
	}
	patch := `{"spec":{"interval":"5s","pullRequests":{"provider":"Gitea","secretRef":{"name":"` + forgeSecret + `"},"interval":"5s"}}}`
	_, err = s.dyn.Resource(syncs()).Namespace(systemNamespace).Patch(ctx, syncName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("hurrying the Sync, and pointing it at pull requests: %w", err)
	}
	return nil
}

// product runs one of poolwright's commands to its end, as a user would in a shell
// with the world's exports.
func (s *story) product(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for name, value := range s.world.Env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("poolwright %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// startController runs the product beside the world, in the place of the pods
// that the played kubelets only pretend to run. It brings Karpenter's kinds, which
// the story watches.
func (s *story) startController(ctx context.Context) (err error) {
	s.controller, err = s.world.Run("poolwright", s.binary, "run",
		"--metrics-addr=127.0.0.1:0", "--health-addr=0", "--cache-dir="+filepath.Join(s.world.Dir, "mirrors"))
	if err != nil {
		return err
	}
	return s.retry(ctx, "waiting for Karpenter's kinds", func() error {
		_, err := s.dyn.Resource(nodePools()).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// retry does something that fails until the controller has come far enough, such
// as creating an object whose CRD it brings.
func (s *story) retry(ctx context.Context, what string, do func() error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%w)", what, err, context.Cause(ctx))
		}
	}
}

// engineReady waits for the engine and its pools. The engine starts only after
// the Cluster object has come from Git, so this is part of the first apply.
func (s *story) engineReady(ctx context.Context) error {
	return s.retry(ctx, "waiting for the engine", func() error {
		list, err := s.dyn.Resource(clusters()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d Cluster objects", len(list.Items))
		}
		if reason, message := condition(list.Items[0].Object, "Ready"); reason != "EngineRunning" {
			return fmt.Errorf("cluster is %s: %s", reason, message)
		}
		pool, err := s.dyn.Resource(nodePools()).Get(ctx, poolName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !conditionTrue(pool.Object, "Ready") {
			_, message := condition(pool.Object, "Ready")
			return fmt.Errorf("NodePool %s is not ready: %s", poolName, message)
		}
		return nil
	})
}

// createPod creates the workload that needs a GPU.
func (s *story) createPod(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join(s.repo.example, "workloads", "tinyllama.yaml"))
	if err != nil {
		return fmt.Errorf("reading the workload: %w", err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(raw, &pod); err != nil {
		return fmt.Errorf("decoding the workload: %w", err)
	}
	return s.retry(ctx, "creating the pod", func() error {
		_, err := s.kube.CoreV1().Pods(podNamespace).Create(ctx, &pod, metav1.CreateOptions{})
		return err
	})
}

// handEdit is the limit that somebody writes into the live pool.
const handEdit = "64"

// injectDrift edits the live pool by hand, as kubectl edit would.
func (s *story) injectDrift(ctx context.Context) error {
	at := time.Now()
	patch := fmt.Sprintf(`{"spec":{"limits":{"nvidia.com/gpu":%q}}}`, handEdit)
	_, err := s.dyn.Resource(nodePools()).Patch(ctx, poolName, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		return fmt.Errorf("editing NodePool %s by hand: %w", poolName, err)
	}
	s.marks.mark(driftInjected, "nodepool/"+poolName, "by hand: limits[nvidia.com/gpu] 4 -> "+handEdit, at)
	return nil
}

// The edit that is merged.
const (
	patience  = "consolidateAfter: 5m"
	hurry     = "consolidateAfter: 10s"
	hurryWord = "10s"
)

// hurryUp shortens the GPU pool's consolidateAfter.
func (s *story) hurryUp(text string) (string, error) {
	before, after, ok := strings.Cut(text, "name: "+poolName)
	if !ok || !strings.Contains(after, patience) {
		return "", fmt.Errorf("pool %s has no %q to shorten", poolName, patience)
	}
	return before + "name: " + poolName + strings.Replace(after, patience, hurry, 1), nil
}

// deletePod ends the only workload.
func (s *story) deletePod(ctx context.Context) error {
	if err := s.kube.CoreV1().Pods(podNamespace).Delete(ctx, podName, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", podName, err)
	}
	return nil
}

// condition returns the reason and message of an object's condition.
func condition(object map[string]any, kind string) (reason, message string) {
	c := findCondition(object, kind)
	reason, _ = c["reason"].(string)
	message, _ = c["message"].(string)
	return reason, message
}

func conditionTrue(object map[string]any, kind string) bool {
	return findCondition(object, kind)["status"] == "True"
}

func findCondition(object map[string]any, kind string) map[string]any {
	list, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	for _, e := range list {
		if c, ok := e.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}
