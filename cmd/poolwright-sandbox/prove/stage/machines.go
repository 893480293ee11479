package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox/history"
)

const (
	// Pool is the only NodePool of a stage with an engine.
	Pool = "gpu"
	// CheapestType is the instance type of it that Karpenter launches first.
	CheapestType = "g4dn.xlarge"
)

// engineObjects are what an engine needs: a Cluster, and a NodePool with GPUs, whose machines
// are Bottlerocket's, since these offer their GPUs without a plugin of ours.
const engineObjects = `apiVersion: poolwright.dev/v1alpha1
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
  amiSelectorTerms: [{alias: bottlerocket@latest}]
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
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge, g4dn.2xlarge]}
`

// StartEngine creates a Cluster and a NodePool, starts the controller, and returns once it can
// launch machines of the pool.
func (s *Stage) StartEngine(ctx context.Context) error {
	text := fmt.Sprintf(engineObjects, s.AWS.Config.Cluster.Name, s.AWS.Config.Region, s.AWS.Config.Account)
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1<<10); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if err := s.createOfKind(ctx, object); err != nil {
			return err
		}
	}
	// One that had to bring the kinds reads the Cluster only after it has been unchanged for
	// some time.
	if err := s.End(); err != nil {
		return err
	}
	if err := s.deleteLeases(ctx); err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	return s.eventually(ctx, "the engine is not ready", func() error {
		for _, object := range []struct{ version, kind, name string }{{"poolwright.dev/v1alpha1", "Cluster", "cluster"}, {"karpenter.sh/v1", "NodePool", Pool}} {
			if err := s.isReady(ctx, object.version, object.kind, object.name); err != nil {
				return err
			}
		}
		return nil
	})
}

// isReady returns why an object's condition Ready is not True, or nil.
func (s *Stage) isReady(ctx context.Context, version, kind, name string) error {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	if err := s.config.Admin.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return err
	}
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read); err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(read.Status.Conditions, "Ready") {
		return fmt.Errorf("the conditions of %s %s are %+v", kind, name, read.Status.Conditions)
	}
	return nil
}

// createOfKind creates an object, whose kind the first controller of all stages brings.
func (s *Stage) createOfKind(ctx context.Context, object client.Object) error {
	err := s.config.Admin.Create(ctx, object)
	if !meta.IsNoMatchError(err) {
		return err
	}
	if s.controller.process == nil {
		if err := s.Start(); err != nil {
			return err
		}
	}
	return s.eventually(ctx, "the kind is not there", func() error { return s.config.Admin.Create(ctx, object) })
}

// workload is the Deployment of a stage, each pod of which takes the GPU of a machine.
const workload = "inference"

// Deploy creates the Deployment with one replica.
func (s *Stage) Deploy(ctx context.Context) error {
	labels, one := map[string]string{"app": workload}, int32(1)
	var pod corev1.PodSpec
	err := yaml.Unmarshal([]byte(`
terminationGracePeriodSeconds: 0
nodeSelector: {karpenter.sh/nodepool: `+Pool+`}
tolerations: [{key: nvidia.com/gpu, operator: Exists}]
containers: [{name: main, image: registry.example.com/inference:1, resources: {limits: {nvidia.com/gpu: 1}}}]
`), &pod)
	if err != nil {
		return err
	}
	return s.config.Admin.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: workload, Namespace: s.Apps},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	})
}

// Scale sets the replicas of the Deployment. Where there are fewer than before, machines that
// are empty then may be ended.
func (s *Stage) Scale(ctx context.Context, replicas int) error {
	s.Tap.Record(history.Event{Kind: history.DisruptionAllowed, Object: history.Object{Kind: nodePools, Name: Pool}})
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: workload, Namespace: s.Apps}}
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	return s.config.Admin.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// ConvergeTo returns once there are that many machines, each of them a NodeClaim, an instance
// and a node that has one pod of the Deployment.
func (s *Stage) ConvergeTo(ctx context.Context, machines int) error {
	return s.eventually(ctx, fmt.Sprintf("there are not %d machines", machines), func() error {
		found, err := s.machines(ctx)
		if err != nil {
			return err
		}
		for _, m := range found {
			if m.NodeClaim == "" || m.Instance == "" || m.Node == "" {
				return fmt.Errorf("the machines are %+v", found)
			}
		}
		var pods corev1.PodList
		if err := s.config.Admin.List(ctx, &pods, client.InNamespace(s.Apps)); err != nil {
			return err
		}
		running := 0
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if len(found) != machines || running != machines || len(pods.Items) != running {
			return fmt.Errorf("the machines are %+v; of %d pods, %d run", found, len(pods.Items), running)
		}
		return nil
	})
}
