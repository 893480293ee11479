// Package reconcilertest has the objects and files that the tests of several
// packages declare: a Cluster, a DevicePlugin, and a NodePool with GPUs. It is for
// tests only, and refuses to hold what the tests of one package need. Start reading
// at Cluster.
package reconcilertest

import (
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Cluster is a Cluster named "cluster" with the embedded engine, which edit may
// change; nil leaves it as it is.
func Cluster(edit func(*v1alpha1.Cluster)) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	c.Spec = v1alpha1.ClusterSpec{Name: "dev", Region: "eu-west-1", Account: "111122223333", Engine: v1alpha1.EngineSpec{Mode: v1alpha1.EngineEmbedded}}
	if edit != nil {
		edit(c)
	}
	return c
}

// Client is that of an API server which holds these objects, and serves our kinds
// alone. Their status is written with them, not as a subresource.
func Client(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// InstalledClient is that of an API server which holds these objects, and serves the
// kinds of Kubernetes and of CRDs beside ours.
func InstalledClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	if err := errors.Join(v1alpha1.AddToScheme(clientgoscheme.Scheme), apiextensionsv1.AddToScheme(clientgoscheme.Scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
}

// ClusterFile is a file that declares a Cluster. What spec holds is added to its
// spec, indented by two blanks; its first line is the file's line 8.
func ClusterFile(name, spec string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec:\n  name: dev\n  region: eu-west-1\n  account: \"111122223333\"\n" + spec
}

// DevicePluginFile is a file that declares a DevicePlugin with these configurations, a
// list as YAML in one line.
func DevicePluginFile(name, configs string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: " + name + "}\nspec:\n  configs: " + configs + "\n"
}

// GPUPoolFile is a file that declares the NodePool "gpu", with two problems in what
// concerns GPUs: line 7 limits a resource that no node has, and line 13 sets a taint
// that the device plugin does not tolerate.
const GPUPoolFile = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  limits:
    cpu: 1000
    gpu: 30
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints:
        - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
        - {key: tier, value: premium, effect: NoSchedule}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
  disruption: {consolidateAfter: 5m, budgets: [{nodes: 100%}]}
`
