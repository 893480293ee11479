package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// declare adds an object of a kind, written in YAML.
func declare(t *testing.T, kind, text string) (provision.ClusterSnapshot, error) {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	var out provision.ClusterSnapshot
	err := workload.Add(&out, kind, object)
	return out, err
}

// summary is what a workload requests, without its pods' containers.
type summary struct {
	Kind, Namespace, Name, Owner string
	// Replicas is -1 for none declared.
	Replicas int
	Selects  bool
}

func TestAddReadsEachKindThatHasPods(t *testing.T) {
	const template = "template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c}]}}"
	tests := map[string]struct {
		kind, text string
		want       summary
	}{
		"a Deployment is one whose pods a ReplicaSet owns": {
			"apps/v1/Deployment", "{metadata: {name: x, namespace: ml}, spec: {replicas: 3, selector: {matchLabels: {app: x}}, " + template + "}}",
			summary{"Deployment", "ml", "x", "ReplicaSet", 3, true}},
		"a Deployment that declares no replicas leaves them open": {
			"apps/v1/Deployment", "{metadata: {name: x}, spec: {" + template + "}}", summary{"Deployment", "default", "x", "ReplicaSet", -1, false}},
		"a Deployment may have none": {
			"apps/v1/Deployment", "{metadata: {name: x}, spec: {replicas: 0, " + template + "}}", summary{"Deployment", "default", "x", "ReplicaSet", 0, false}},
		"a ReplicaSet": {
			"apps/v1/ReplicaSet", "{metadata: {name: x}, spec: {replicas: 2, selector: {matchLabels: {app: x}}, " + template + "}}",
			summary{"ReplicaSet", "default", "x", "ReplicaSet", 2, true}},
		"a StatefulSet": {
			"apps/v1/StatefulSet", "{metadata: {name: x}, spec: {replicas: 2, selector: {matchLabels: {app: x}}, " + template + "}}",
			summary{"StatefulSet", "default", "x", "StatefulSet", 2, true}},
		"a Job has one pod at a time": {
			"batch/v1/Job", "{metadata: {name: x}, spec: {" + template + "}}", summary{"Job", "default", "x", "Job", 1, false}},
		"a Job has no more pods than completions are left": {
			"batch/v1/Job", "{metadata: {name: x}, spec: {parallelism: 8, completions: 3, " + template + "}}", summary{"Job", "default", "x", "Job", 3, false}},
		"a Job that is suspended has none": {
			"batch/v1/Job", "{metadata: {name: x}, spec: {parallelism: 8, suspend: true, " + template + "}}", summary{"Job", "default", "x", "Job", 0, false}},
		"a CronJob has none until its schedule": {
			"batch/v1/CronJob", "{metadata: {name: x}, spec: {schedule: '@daily', jobTemplate: {spec: {parallelism: 4, " + template + "}}}}",
			summary{"CronJob", "default", "x", "Job", 0, false}},
		"a Pod has no owner": {
			"v1/Pod", "{metadata: {name: x, labels: {app: x}}, spec: {containers: [{name: c}]}}", summary{"Pod", "default", "x", "", -1, false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := declare(t, tt.kind, tt.text)
			if err != nil || len(got.Workloads) != 1 {
				t.Fatal(got.Workloads, err)
			}
			w := got.Workloads[0]
			is := summary{Kind: w.Kind, Namespace: w.Pod.Namespace, Name: w.Pod.Name, Replicas: -1, Selects: w.Selector != nil}
			if w.Replicas != nil {
				is.Replicas = int(*w.Replicas)
			}
			if len(w.Pod.OwnerReferences) > 0 {
				is.Owner = w.Pod.OwnerReferences[0].Kind
			}
			if diff := cmp.Diff(tt.want, is); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if w.Pod.Labels["app"] != "x" || len(w.Pod.Spec.Containers) != 1 {
				t.Errorf("the pod is not of the template: %v", w.Pod)
			}
		})
	}
}

func TestAddRefusesWhatIsNoObject(t *testing.T) {
	for name, text := range map[string]string{
		"it has no name":              "{metadata: {}, spec: {}}",
		"it has no metadata":          "{spec: {}}",
		"its metadata is a list":      "{metadata: [x]}",
		"its replicas are a text":     "{metadata: {name: x}, spec: {replicas: many}}",
		"a quantity of it is none":    "{metadata: {name: x}, spec: {template: {spec: {containers: [{name: c, resources: {limits: {cpu: x}}}]}}}}",
		"its containers are a string": "{metadata: {name: x}, spec: {template: {spec: {containers: x}}}}",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := declare(t, "apps/v1/Deployment", text); err == nil || len(got.Workloads) > 0 {
				t.Errorf("it is read as %v, with the error %v", got.Workloads, err)
			}
		})
	}
	if got, err := declare(t, "v1/ConfigMap", "{metadata: {}}"); err != nil || len(got.Workloads) > 0 {
		t.Errorf("a kind without pods is read as %v, with the error %v", got.Workloads, err)
	}
}

// completed is the pod's spec as the API server of EKS would keep it.
func completed(t *testing.T, spec string) corev1.PodSpec {
	t.Helper()
	got, err := declare(t, "v1/Pod", "{metadata: {name: x}, spec: "+spec+"}")
	if err != nil {
		t.Fatal(err)
	}
	return got.Workloads[0].Pod.Spec
}

func TestPodsAreCompletedAsTheAPIServerDoes(t *testing.T) {
	exists := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	}
	tests := map[string]struct {
		spec        string
		requests    corev1.ResourceList
		tolerations []corev1.Toleration
	}{
		"a limit is requested, and tolerated where it is a device": {
			spec:        "{containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2, cpu: 1}}}]}",
			requests:    corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2"), "cpu": resource.MustParse("1")},
			tolerations: []corev1.Toleration{exists("nvidia.com/gpu")},
		},
		"a request stays beside a higher limit": {
			spec:     "{containers: [{name: c, resources: {requests: {cpu: 1}, limits: {cpu: 4}}}]}",
			requests: corev1.ResourceList{"cpu": resource.MustParse("1")},
		},
		"devices of init containers are tolerated, in the order of their names": {
			spec:        "{initContainers: [{name: i, resources: {limits: {vpc.amazonaws.com/efa: 1, aws.amazon.com/neuron: 1}}}], containers: [{name: c, resources: {limits: {cpu: 1}}}]}",
			requests:    corev1.ResourceList{"cpu": resource.MustParse("1")},
			tolerations: []corev1.Toleration{exists("aws.amazon.com/neuron"), exists("vpc.amazonaws.com/efa")},
		},
		"a device that is tolerated by another operator is tolerated by the plugin's, too": {
			spec:        "{tolerations: [{operator: Exists}], containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}",
			requests:    corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
			tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}, exists("nvidia.com/gpu")},
		},
		"one toleration is for the same device in two containers": {
			spec:        "{containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}, {name: d, resources: {limits: {nvidia.com/gpu: 1}}}]}",
			requests:    corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
			tolerations: []corev1.Toleration{exists("nvidia.com/gpu")},
		},
		"huge pages and attachable volumes are Kubernetes' own": {
			spec:     "{containers: [{name: c, resources: {requests: {hugepages-2Mi: 2Mi, kubernetes.io/x: 1, requests.example.com/x: 1}}}]}",
			requests: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi"), "kubernetes.io/x": resource.MustParse("1"), "requests.example.com/x": resource.MustParse("1")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			spec := completed(t, tt.spec)
			if diff := cmp.Diff(tt.requests, spec.Containers[0].Resources.Requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.tolerations, spec.Tolerations); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPortsAndVolumesAreCompleted(t *testing.T) {
	port := func(spec string) corev1.ContainerPort {
		return completed(t, spec).Containers[0].Ports[0]
	}
	if got := port("{containers: [{name: c, ports: [{containerPort: 80}]}]}"); got.HostPort != 0 || got.Protocol != corev1.ProtocolTCP {
		t.Errorf("a port of the pod's network is %v", got)
	}
	if got := port("{hostNetwork: true, containers: [{name: c, ports: [{containerPort: 80, protocol: UDP}]}]}"); got.HostPort != 80 || got.Protocol != corev1.ProtocolUDP {
		t.Errorf("a port of the host's network is %v", got)
	}
	if got := completed(t, "{volumes: [{name: v, persistentVolumeClaim: {claimName: c}}], containers: [{name: c}]}"); len(got.Volumes) > 0 {
		t.Errorf("volumes, whose place is not known, are kept: %v", got.Volumes)
	}
}

// Limits of the whole pod are requests unless a container has one of its own.
func TestLimitsOfThePodAreRequestedUnlessAContainerRequestsThem(t *testing.T) {
	spec := completed(t, "{resources: {limits: {cpu: 4, memory: 1Gi}}, containers: [{name: c, resources: {requests: {memory: 1Mi}}}]}")
	if diff := cmp.Diff(corev1.ResourceList{"cpu": resource.MustParse("4")}, spec.Resources.Requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParallelismIsHowManyPodsAJobHasAtATime(t *testing.T) {
	n := func(i int32) *int32 { return &i }
	no, yes := false, true
	for name, tt := range map[string]struct {
		job  batchv1.JobSpec
		want int32
	}{
		"one by default":                        {batchv1.JobSpec{}, 1},
		"one for many completions":              {batchv1.JobSpec{Completions: n(9)}, 1},
		"as many as run side by side":           {batchv1.JobSpec{Parallelism: n(5)}, 5},
		"no more than completions":              {batchv1.JobSpec{Parallelism: n(5), Completions: n(2)}, 2},
		"none of none":                          {batchv1.JobSpec{Parallelism: n(0)}, 0},
		"none where no completion is requested": {batchv1.JobSpec{Completions: n(0)}, 0},
		"none while it is suspended":            {batchv1.JobSpec{Parallelism: n(5), Suspend: &yes}, 0},
		"all where it is resumed":               {batchv1.JobSpec{Parallelism: n(5), Suspend: &no}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			if got := *workload.Parallelism(tt.job); got != tt.want {
				t.Errorf("%d pods, not %d", got, tt.want)
			}
		})
	}
}

func TestWithRuntimeClassAddsWhatTheClassRequires(t *testing.T) {
	class := &nodev1.RuntimeClass{
		Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("250m")}},
		Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{"runtime": "kata", "team": "class"},
			Tolerations:  []corev1.Toleration{{Key: "kata", Operator: corev1.TolerationOpExists}, {Key: "a", Operator: corev1.TolerationOpExists}},
		},
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"team": "pod", "disk": "fast"},
		Tolerations:  []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}},
	}}
	was := pod.DeepCopy()
	got := workload.WithRuntimeClass(pod, class)
	want := corev1.PodSpec{
		Overhead:     corev1.ResourceList{"cpu": resource.MustParse("250m")},
		NodeSelector: map[string]string{"runtime": "kata", "team": "class", "disk": "fast"},
		Tolerations:  []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}, {Key: "kata", Operator: corev1.TolerationOpExists}},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(was, pod); diff != "" {
		t.Errorf("the pod itself is changed (-was +is):\n%s", diff)
	}
	if got := workload.WithRuntimeClass(&corev1.Pod{}, class); got.Spec.NodeSelector["runtime"] != "kata" {
		t.Errorf("a pod without a selector gets %v", got.Spec.NodeSelector)
	}
	if diff := cmp.Diff(was, workload.WithRuntimeClass(pod, &nodev1.RuntimeClass{})); diff != "" {
		t.Errorf("a class that requires nothing adds (-was +is):\n%s", diff)
	}
}
