// Package forecasttest has a small cluster, for tests of what changes do to one.
package forecasttest

import (
	"maps"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Declared are the objects of a cluster with one GPU node of the pool "gpu": its Cluster,
// EC2NodeClass, NodePool, NodeClaim and Node, in this order.
func Declared(t *testing.T) []client.Object {
	t.Helper()
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	class.Spec.Role = "node"
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pool.Spec.Disruption = karpv1.Disruption{ConsolidateAfter: karpv1.MustParseNillableDuration("1m"), Budgets: []karpv1.Budget{{Nodes: "1"}}}
	pool.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: awsapis.Group, Kind: "EC2NodeClass", Name: "gpu"},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"g4dn.xlarge"}}},
	}
	labels := map[string]string{
		karpv1.NodePoolLabelKey: "gpu", corev1.LabelInstanceTypeStable: "g4dn.xlarge", karpv1.CapacityTypeLabelKey: "on-demand",
		corev1.LabelTopologyZone: "eu-west-1a", corev1.LabelArchStable: "amd64", karpv1.NodeInitializedLabelKey: "true", karpv1.NodeRegisteredLabelKey: "true",
	}
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1", Labels: labels, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour))}}
	// As Karpenter stamps them.
	class.Annotations = map[string]string{awsv1.AnnotationEC2NodeClassHash: "1", awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion}
	pool.Annotations = map[string]string{karpv1.NodePoolHashAnnotationKey: pool.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion}
	claim.Annotations = maps.Clone(class.Annotations)
	maps.Copy(claim.Annotations, pool.Annotations)
	claim.Spec.NodeClassRef = pool.Spec.Template.Spec.NodeClassRef
	claim.Status.ProviderID, claim.Status.NodeName = "aws:///eu-west-1a/i-1", "node-1"
	for _, condition := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		claim.StatusConditions().SetTrue(condition)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: labels}, Spec: corev1.NodeSpec{ProviderID: claim.Status.ProviderID}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), "nvidia.com/gpu": resource.MustParse("1")}
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	cluster.Spec = v1alpha1.ClusterSpec{Name: "dev", Region: "eu-west-1", Account: "111122223333", Engine: v1alpha1.EngineSpec{Mode: v1alpha1.EngineEmbedded}}
	return []client.Object{cluster, class, pool, claim, n}
}

// Live is Declared as the API server would hold them: with defaults.
func Live(t *testing.T) []client.Object {
	t.Helper()
	objects := Declared(t)
	class, _ := objects[1].(*awsv1.EC2NodeClass)
	class.Spec.MetadataOptions = &awsv1.MetadataOptions{HTTPEndpoint: new("enabled"), HTTPProtocolIPv6: new("disabled"), HTTPPutResponseHopLimit: new(int64(1)), HTTPTokens: new("required")}
	claim, _ := objects[3].(*karpv1.NodeClaim)
	claim.Status.ImageID = "ami-1"
	return objects
}
