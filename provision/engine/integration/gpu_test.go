package integration

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
)

const gpus = 4 // of a g4dn.12xlarge

// sharing serves the pools of the tests below with whole GPUs.
func sharing(context.Context) (gpu.Sharing, error) {
	return gpu.Sharing{Name: "nvidia", Configs: []gpu.PluginConfig{{Name: "whole", Pools: []string{"theirs", "users"}, Strategy: gpu.SharingStrategyNone, Replicas: 1}}}, nil
}

// withGPUs makes the engine register nodes with GPUs as the product does.
func (w *fixture) withGPUs(config *engine.Config) {
	book := startuptaint.NewFailureBackoff(clock.RealClock{})
	config.TransformNode = startuptaint.WithRecordedCapacity(w.logger())
	config.Decorate = func(c client.Client) engine.Decorator {
		return startuptaint.Decorate(startuptaint.Config{Sharing: sharing, Backoff: book, Reader: c})
	}
	config.Hooks = func(c client.Client) []cloudprovider.NodeLifecycleHook {
		return []cloudprovider.NodeLifecycleHook{startuptaint.NewHook(c, sharing)}
	}
}

// gpuNodes launches nodes with GPUs and does, in the place of package readiness,
// what releases them.
func (w *fixture) gpuNodes(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			w.got.show(t)
		}
	})
	plugin := w.plugin()
	w.create(t, plugin)
	var image string
	t.Run("Karpenter's user data brings the taint", func(t *testing.T) {
		claim, node := w.startsHeld(t, "theirs", awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}})
		if w.got.contains("tainted a node that came without the taint") {
			t.Error("the hook had to bring it")
		}
		image = claim.Status.ImageID
		w.restartBuysNothing(t, node, plugin)
	})
	t.Run("an image with user data of the user's own is tainted before it registers", func(t *testing.T) {
		family, data := awsv1.AMIFamilyCustom, w.ownUserData()
		w.startsHeld(t, "users", awsv1.EC2NodeClassSpec{
			AMIFamily: &family, UserData: &data, AMISelectorTerms: []awsv1.AMISelectorTerm{{ID: image}},
		})
		if !w.got.contains("tainted a node that came without the taint") {
			t.Error("the hook did not bring it, so this proves nothing")
		}
	})
}

// startsHeld brings up a node for a pod and checks that the pod waits until the
// node is released.
func (w *fixture) startsHeld(t *testing.T, name string, spec awsv1.EC2NodeClassSpec) (*karpv1.NodeClaim, *corev1.Node) {
	t.Helper()
	class, pool, pod := w.gpuPool(name, spec)
	for _, o := range []client.Object{class, pool, pod} {
		w.create(t, o)
	}
	claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
	w.eventually(t, "the node to register with all its GPUs", func() bool {
		claims := w.claims(t, name)
		if len(claims) != 1 || claims[0].Status.NodeName == "" {
			return false
		}
		claim = &claims[0]
		err := w.client.Get(t.Context(), client.ObjectKey{Name: claim.Status.NodeName}, node)
		return err == nil && node.Labels[karpv1.NodeRegisteredLabelKey] == "true" && has(node, gpus)
	})
	if !tainted(node.Spec.Taints) {
		t.Errorf("the node has the taints %v", node.Spec.Taints)
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
		t.Fatal(err)
	}
	if tainted(claim.Spec.StartupTaints) || claim.Annotations[karpv1.NodePoolHashAnnotationKey] != pool.Annotations[karpv1.NodePoolHashAnnotationKey] || pool.Hash() != claim.Annotations[karpv1.NodePoolHashAnnotationKey] {
		t.Errorf("the stored claim tells of the taint: %v, hash %s", claim.Spec.StartupTaints, claim.Annotations[karpv1.NodePoolHashAnnotationKey])
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.Spec.NodeName != "" {
		t.Errorf("the pod is on %q before the node was released: %v", pod.Spec.NodeName, err)
	}
	stored := node.DeepCopy()
	node.Spec.Taints = nil
	node.Annotations[gpu.AllocatableAnnotation] = gpu.PluginConfig{Strategy: gpu.SharingStrategyNone, Replicas: 1}.Allocatable(gpus).String()
	if err := w.client.Patch(t.Context(), node, client.MergeFrom(stored)); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the pod to run on the released node", func() bool {
		return w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == corev1.PodRunning
	})
	w.eventually(t, "the node to be initialized", func() bool {
		return w.client.Get(t.Context(), client.ObjectKeyFromObject(node), node) == nil && node.Labels[karpv1.NodeInitializedLabelKey] == "true"
	})
	return claim, node
}

// restartBuysNothing takes the plugin away and wants a pod that needs GPUs to wait
// for it, on the node that is there.
func (w *fixture) restartBuysNothing(t *testing.T, node *corev1.Node, plugin *appsv1.DaemonSet) {
	t.Helper()
	if err := w.client.Delete(t.Context(), plugin.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the node to offer no GPU", func() bool {
		return w.client.Get(t.Context(), client.ObjectKeyFromObject(node), node) == nil && has(node, 0)
	})
	_, _, pod := w.gpuPool("theirs", awsv1.EC2NodeClassSpec{})
	pod.Name = "second"
	w.create(t, pod)
	w.eventually(t, "Karpenter to name the node for the pod", func() bool {
		events := &corev1.EventList{}
		if err := w.client.List(t.Context(), events, client.InNamespace(pod.Namespace)); err != nil {
			return false
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == pod.Name && e.Reason == "Nominated" {
				if !strings.Contains(e.Message, node.Name) {
					t.Errorf("Karpenter says %q", e.Message)
				}
				return true
			}
		}
		return false
	})
	if n := len(w.claims(t, "theirs")); n != 1 {
		t.Errorf("there are %d nodes", n)
	}
	again := w.plugin()
	w.eventually(t, "the old DaemonSet to be gone", func() bool { return w.client.Create(t.Context(), again) == nil })
	w.eventually(t, "the pod to run", func() bool {
		return w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName == node.Name
	})
}

func (w *fixture) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := w.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func (w *fixture) claims(t *testing.T, pool string) []karpv1.NodeClaim {
	t.Helper()
	claims := &karpv1.NodeClaimList{}
	if err := w.client.List(t.Context(), claims, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		t.Fatal(err)
	}
	return claims.Items
}

func has(node *corev1.Node, gpus int64) bool {
	quantity := node.Status.Allocatable[gpu.Resource]
	return quantity.Value() == gpus
}

func tainted(taints []corev1.Taint) bool {
	for _, taint := range taints {
		if taint.Key == gpu.StartupTaint {
			return true
		}
	}
	return false
}

// gpuPool is a pool of nodes with four GPUs, and a pod for one of them.
func (w *fixture) gpuPool(name string, spec awsv1.EC2NodeClassSpec) (*awsv1.EC2NodeClass, *karpv1.NodePool, *corev1.Pod) {
	class, pool, pod := w.pool()
	class.Name, pool.Name, pod.Name = name, name, name
	class.Spec.AMIFamily, class.Spec.UserData, class.Spec.AMISelectorTerms = spec.AMIFamily, spec.UserData, spec.AMISelectorTerms
	template := &pool.Spec.Template.Spec
	template.NodeClassRef.Name = name
	template.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"g4dn.12xlarge"}},
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
	}
	pod.Spec.NodeSelector[karpv1.NodePoolLabelKey] = name
	one := corev1.ResourceList{gpu.Resource: resource.MustParse("1")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	return class, pool, pod
}

// plugin is NVIDIA's device plugin, on every node.
func (w *fixture) plugin() *appsv1.DaemonSet {
	labels := map[string]string{"app": "plugin"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "plugin", Namespace: gpu.PluginNamespace}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers:  []corev1.Container{{Name: "plugin", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"}},
	}}
	return set
}

// ownUserData joins the cluster like Karpenter's, and knows nothing of our taint.
func (w *fixture) ownUserData() string {
	api := w.REST()
	return fmt.Sprintf(`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: %s
    apiServerEndpoint: %s
    certificateAuthority: %s
    cidr: 10.100.0.0/16
  kubelet:
    config:
      registerWithTaints:
      - {key: karpenter.sh/unregistered, effect: NoExecute}
--//--
`, w.settings.Cluster, api.Host, base64.StdEncoding.EncodeToString(api.CAData))
}
