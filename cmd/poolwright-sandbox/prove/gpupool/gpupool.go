// Package gpupool is the NodePool with GPUs of a fixture with an engine: the objects that are created
// for it, the pods that request its GPUs, and what goes wrong on its machines.
//
// It creates nothing. Start reading at Config.Objects.
package gpupool

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

const (
	// Pool is the only NodePool of a fixture with an engine.
	Pool = "gpu"
	// CheapestType is the instance type of it that Karpenter launches first.
	CheapestType = "g4dn.xlarge"
	// ReadyTimeout is how long a node has to offer its GPUs where Config.NeverOffers, which is the
	// least that a DevicePlugin may have.
	ReadyTimeout = time.Minute
)

// Config is what is particular to the machines of the pool.
type Config struct {
	// CapacityType is on-demand where it is empty.
	CapacityType string
	// NeverOffers has those of the cheapest instance type never advertise their GPUs.
	NeverOffers bool
	// Shared has them offer their GPUs by the DevicePlugin of PluginSpec, which is declared in Git.
	// Otherwise they are Bottlerocket's, which offer GPUs without a plugin of ours.
	Shared bool
}

// objects are what an engine needs: a Cluster, and a NodePool with GPUs.
const objects = `apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: cluster}
spec:
  name: %[1]s
  region: %[2]s
  account: %[3]q
  engine: {mode: Embedded, batchIdleDuration: 100ms, interruptionQueue: %[1]s}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  amiSelectorTerms: [{alias: %[6]s}]
  role: KarpenterNodeRole-sandbox
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: %[1]s}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: %[1]s}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s, budgets: [{nodes: 100%%}]}
  template:
%[5]s    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [%[4]s]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g4dn.2xlarge]}
`

// faultyLabel is on the nodes of a pool whose machines of the cheapest instance type never advertise their GPUs.
const faultyLabel = "prove.poolwright.dev/never-offers"

// faultyTemplate is a part of the NodePool's template of such a pool, devicePlugin its DevicePlugin.
const (
	faultyTemplate = "    metadata: {labels: {" + faultyLabel + ": \"true\"}}\n"
	devicePlugin   = `---
apiVersion: poolwright.dev/v1alpha1
kind: DevicePlugin
metadata: {name: nvidia}
spec:
  configs: [{name: whole, nodePools: [gpu], readyTimeout: 1m}]
`
)

// Objects are a Cluster, and the pool with what belongs to it.
func (c Config) Objects(cluster, region, account string) ([]*unstructured.Unstructured, error) {
	template, plugin, image := "", "", "bottlerocket@latest"
	if c.NeverOffers {
		template, plugin = faultyTemplate, devicePlugin
	}
	if c.Shared {
		image = "al2023@latest"
	}
	text := fmt.Sprintf(objects, cluster, region, account, cmp.Or(c.CapacityType, "on-demand"), template, image) + plugin
	var out []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1<<10); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, object)
	}
}

// PluginName is the name of the DevicePlugin of PluginSpec.
const PluginName = "nvidia"

// PluginSpec is the spec of the DevicePlugin, as YAML, by which so many pods share each GPU of the pool.
func PluginSpec(replicas int) string {
	return fmt.Sprintf("  configs: [{name: shared, nodePools: [%s], timeSlicing: {replicas: %d}}]\n", Pool, replicas)
}

// PodSpec is that of a pod which takes the GPU of a machine, or the part of it that it is shared by.
func PodSpec() (spec corev1.PodSpec, err error) {
	err = yaml.Unmarshal([]byte(`
terminationGracePeriodSeconds: 0
nodeSelector: {karpenter.sh/nodepool: `+Pool+`}
tolerations: [{key: nvidia.com/gpu, operator: Exists}]
containers: [{name: main, image: registry.example.com/inference:1, resources: {limits: {nvidia.com/gpu: 1}}}]
`), &spec)
	return spec, err
}

// FaultOf is what goes wrong on a machine.
func FaultOf(m nodes.Machine) nodes.Fault {
	if m.Type == CheapestType && strings.Contains(m.UserData, faultyLabel) {
		return nodes.Fault{MissingGPUs: 1}
	}
	return nodes.Fault{}
}

// Registered is when the node of a NodeClaim registered, an error where it has not.
func Registered(claim *unstructured.Unstructured) (time.Time, error) {
	found, err := Conditions(claim)
	if err != nil {
		return time.Time{}, err
	}
	condition := meta.FindStatusCondition(found, "Registered")
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return time.Time{}, fmt.Errorf("the conditions of NodeClaim %s are %+v", claim.GetName(), found)
	}
	return condition.LastTransitionTime.Time, nil
}

// Conditions are those of an object's status.
func Conditions(object *unstructured.Unstructured) ([]metav1.Condition, error) {
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read)
	return read.Status.Conditions, err
}
