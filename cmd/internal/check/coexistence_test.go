package check

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

func deployment(namespace, name, image string, replicas int32, env ...corev1.EnvVar) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas = &replicas
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Image: image, Env: env}}
	return d
}

func TestAnExistingKarpenterIsReportedWithWhatBecomesOfIt(t *testing.T) {
	const image = "public.ecr.aws/karpenter/controller:"
	for name, c := range map[string]struct {
		has  *appsv1.Deployment
		want expected
	}{
		"the embedded version":          {deployment("karpenter", "karpenter", image+"1.15.2", 2), expected{Warning, "Deployment karpenter/karpenter", "Karpenter 1.15.2 runs: the engine waits", "take-over-karpenter.md"}},
		"an older one":                  {deployment("karpenter", "karpenter", image+"1.13.0", 2), expected{Warning, "Deployment karpenter/karpenter", "this is an upgrade", ""}},
		"one that is too old":           {deployment("karpenter", "karpenter", image+"1.0.6", 2), expected{Failed, "Deployment karpenter/karpenter", "cannot be taken over", "upgrade it to 1.1"}},
		"one before the CA in the hash": {deployment("karpenter", "karpenter", image+"1.8.0", 2), expected{Failed, "Deployment karpenter/karpenter", "every node may drift", ""}},
		"a newer one":                   {deployment("karpenter", "karpenter", image+"1.99.0", 2), expected{Failed, "Deployment karpenter/karpenter", "downgrade", "External"}},
		"one that was scaled to zero":   {deployment("karpenter", "karpenter", image+"1.15.2", 0), expected{OK, "Deployment karpenter/karpenter", "scaled to zero", ""}},
		"one with another lease": {deployment("karpenter", "karpenter", image+"1.15.2", 2, corev1.EnvVar{Name: "LEADER_ELECTION_NAME", Value: "mine"}),
			expected{Failed, "Deployment karpenter/karpenter", "both would run: LEADER_ELECTION_NAME is mine", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, []expected{c.want}, fixture{objects: []client.Object{c.has}}.checker(t).karpenter(t.Context()))
		})
	}
	compare(t, []expected{{OK, "", "no other Karpenter", ""}}, fixture{}.checker(t).karpenter(t.Context()))
}

func TestToolsThatManageObjectsAreNamed(t *testing.T) {
	flux := fixture{kinds: []schema.GroupVersionKind{{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}}}
	compare(t, []expected{{OK, "", "Flux is installed", "beside-flux-or-argocd.md"}}, flux.checker(t).flux(t.Context()))
	compare(t, []expected{{OK, "", "Argo CD is not installed", ""}}, flux.checker(t).argoCD(t.Context()))
	argo := fixture{kinds: []schema.GroupVersionKind{{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}}}
	compare(t, []expected{{OK, "", "Argo CD is installed", "beside-flux-or-argocd.md"}}, argo.checker(t).argoCD(t.Context()))
	// Argo Workflows is of the same group.
	workflows := fixture{kinds: []schema.GroupVersionKind{{Group: "argoproj.io", Version: "v1alpha1", Kind: "Workflow"}}}
	compare(t, []expected{{OK, "", "Argo CD is not installed", ""}}, workflows.checker(t).argoCD(t.Context()))
}

func TestAClusterAutoscalerIsAWarning(t *testing.T) {
	autoscaler := deployment("kube-system", "autoscaler", "registry.example.com:5000/autoscaling/cluster-autoscaler:v1.36.0@sha256:77", 1)
	compare(t, []expected{{Warning, "Deployment kube-system/autoscaler", "both may launch", ""}}, fixture{objects: []client.Object{autoscaler}}.checker(t).clusterAutoscaler(t.Context()))
	stopped := deployment("kube-system", "autoscaler", "cluster-autoscaler", 0)
	other := deployment("kube-system", "cluster-autoscaler", "cluster-proportional-autoscaler:1", 1)
	compare(t, []expected{{OK, "", "no Cluster Autoscaler", ""}}, fixture{objects: []client.Object{stopped, other}}.checker(t).clusterAutoscaler(t.Context()))
}

func TestPluginsThatAreNotOursAreWarnings(t *testing.T) {
	set := func(name, image string, labels map[string]string) *appsv1.DaemonSet {
		s := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: labels}}
		s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "plugin", Image: image}}
		return s
	}
	ours := set("nvidia-device-plugin-shared", "nvcr.io/nvidia/k8s-device-plugin:v0.19.3", map[string]string{gpu.ConfigLabel: "shared"})
	theirs := set("nvdp", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0", nil)
	compare(t, []expected{{OK, "", "no other device plugin", ""}}, fixture{objects: []client.Object{ours, set("x", "fluent-bit", nil)}}.checker(t).nvidiaPlugins(t.Context()))
	operator := []schema.GroupVersionKind{{Group: "nvidia.com", Version: "v1", Kind: "ClusterPolicy"}}
	compare(t, []expected{{Warning, "", "GPU Operator", ""}, {Warning, "DaemonSet kube-system/nvdp", "k8s-device-plugin:v0.17.0", "keep it away"}},
		fixture{objects: []client.Object{ours, theirs}, kinds: operator}.checker(t).nvidiaPlugins(t.Context()))
}
