package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
)

// serve is a Deployment as teams write it: only limits, no toleration of what the
// API server adds itself.
const serve = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  replicas: 2
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      containers:
      - name: c
        resources: {requests: {cpu: 1}, limits: {nvidia.com/gpu: 1}}
`

// tainted is the pool with a taint more.
var tainted = strings.Replace(pool, "taints: [", "taints: [{key: x, effect: NoSchedule}, ", 1)

// of makes the pod one of a workload's.
func of(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = kind, name
	}
}

func TestDeclaredWorkloads(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(serve, old) {
			t.Fatalf("nothing is declared as %q", old)
		}
		return strings.Replace(serve, old, new, 1)
	}
	none := with("replicas: 2", "replicas: 0")
	tests := map[string]struct {
		before, after []string
		live          func(*provision.ClusterSnapshot)
		want          map[string][]string
	}{
		"that are new and fit": {
			[]string{pool, class}, []string{pool, class, serve}, nil,
			map[string][]string{"scheduled": {"Deployment serve gpu new and 1 more"}}},
		"that are new and find no node": {
			[]string{pool, class}, []string{tainted, class, serve}, nil,
			map[string][]string{"waiting": {"Deployment serve new and 1 more"}}},
		"that are new and of which one finds room under the limit": {
			[]string{pool, class}, []string{strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 1", 1), class, serve}, nil,
			map[string][]string{"scheduled": {"Deployment serve gpu new"}, "waiting": {"Deployment serve new"}}},
		"that fit before and after are not reported": {
			[]string{pool, class, serve}, []string{pool, class, serve}, nil, map[string][]string{}},
		"that a new taint shuts out": {
			[]string{pool, class, serve}, []string{tainted, class, serve}, nil,
			map[string][]string{"unscheduled": {"Deployment serve and 1 more"}}},
		"that a pool's removal shuts out": {
			[]string{pool, class, serve}, []string{class, serve}, nil,
			map[string][]string{"unscheduled": {"Deployment serve and 1 more"}}},
		"that another label of the pool shuts out": {
			[]string{pool, class, with("    spec:\n", "    spec:\n      nodeSelector: {team: ml}\n")},
			[]string{strings.Replace(pool, "{team: ml}", "{team: vision}", 1), class, with("    spec:\n", "    spec:\n      nodeSelector: {team: ml}\n")}, nil,
			map[string][]string{"unscheduled": {"Deployment serve and 1 more"}}},
		"that go to zero are requested later": {
			[]string{pool, class, none}, []string{tainted, class, none}, nil,
			map[string][]string{"unscheduled": {"Deployment serve later"}}},
		"that go to zero and are new": {
			[]string{pool, class}, []string{pool, class, none}, nil,
			map[string][]string{"scheduled": {"Deployment serve gpu new later"}}},
		"of which the pods are there are not counted twice": {
			[]string{strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 2", 1), class, serve},
			[]string{strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 2", 1), class, serve},
			func(f *provision.ClusterSnapshot) {
				for _, name := range []string{"a", "b"} {
					_, node := run(f, "gpu", name, time.Hour)
					pod(f, "serve-1f-"+name, node.Name, of("ReplicaSet", "serve-1f"))
				}
			}, map[string][]string{}},
		"that grow request the difference": {
			[]string{pool, class, serve}, []string{pool, class, with("replicas: 2", "replicas: 5")},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				pod(f, "serve-1f-a", node.Name, of("ReplicaSet", "serve-1f"))
			}, map[string][]string{"scheduled": {"Deployment serve gpu new and 2 more"}}},
		"whose pods find none now and one after": {
			[]string{tainted, class, serve}, []string{pool, class, serve}, nil,
			map[string][]string{"scheduled": {"Deployment serve gpu and 1 more"}}},
		"that follow their pool's new label and taint move with it": {
			[]string{pool, class, serve},
			[]string{tainted, class, with("    spec:\n", "    spec:\n      tolerations: [{operator: Exists}]\n")},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				pod(f, "serve-1f-a", node.Name, of("ReplicaSet", "serve-1f"))
			}, map[string][]string{}},
		"that request more than there is from now on": {
			[]string{pool, class, serve}, []string{pool, class, with("nvidia.com/gpu: 1", "nvidia.com/gpu: 4")},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				pod(f, "serve-1f-a", node.Name, of("ReplicaSet", "serve-1f"))
			}, map[string][]string{"unscheduled": {"Deployment serve and 1 more"}}},
		"that go let their pods end": {
			[]string{pool, class, serve}, []string{tainted, class},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				pod(f, "serve-1f-a", node.Name, of("ReplicaSet", "serve-1f"))
			}, map[string][]string{}},
		"without a number of which none is there go to zero": {
			[]string{pool, class, with("  replicas: 2\n", "")}, []string{tainted, class, with("  replicas: 2\n", "")},
			func(f *provision.ClusterSnapshot) { run(f, "gpu", "a", time.Hour) },
			map[string][]string{"unscheduled": {"Deployment serve later"}}},
		"that run on a pool that goes": {
			[]string{pool, class, serve}, []string{class, serve},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				for _, name := range []string{"serve-1f-a", "serve-1f-b"} {
					pod(f, name, node.Name, of("ReplicaSet", "serve-1f"))
				}
			}, map[string][]string{"unscheduled": {"serve-1f-a", "serve-1f-b"}}},
		"that the API server would refuse are reported, and their pods stay": {
			[]string{pool, class, serve}, []string{pool, class, with("    spec:\n", "    spec:\n      nodeSelector: {'/': x}\n")},
			func(f *provision.ClusterSnapshot) {
				_, node := run(f, "gpu", "a", time.Hour)
				pod(f, "serve-1f-a", node.Name, of("ReplicaSet", "serve-1f"))
			}, map[string][]string{}},
		"of a thousand replicas are reported in one line": {
			[]string{pool, class, with("replicas: 2", "replicas: 1000")}, []string{tainted, class, with("replicas: 2", "replicas: 1000")}, nil,
			map[string][]string{"unscheduled": {"Deployment serve and 999 more"}}},
		"of a thousand replicas that double": {
			[]string{pool, class, with("replicas: 2", "replicas: 1000")}, []string{pool, class, with("replicas: 2", "replicas: 2000")}, nil,
			map[string][]string{"scheduled": {"Deployment serve gpu new and 999 more"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := read(t, tt.before...)
			if tt.live != nil {
				tt.live(&before)
			}
			got := compare(t, before, read(t, tt.after...))
			if diff := cmp.Diff(tt.want, placed(got.PodScheduling)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, p := range append(got.PodScheduling.Unschedulable, got.PodScheduling.NewlyUnschedulable...) {
				if p.Reason == "" {
					t.Errorf("no reason is given for %s", p.Name)
				}
			}
		})
	}
}

// placed is the fit as short text, with what is told of workloads.
func placed(f provision.PodScheduling) map[string][]string {
	out := map[string][]string{}
	for name, list := range map[string][]provision.Placement{"scheduled": f.NewlySchedulable, "unscheduled": f.NewlyUnschedulable, "waiting": f.Unschedulable} {
		for _, p := range list {
			text := strings.Join(strings.Fields(p.Workload+" "+p.Name+" "+p.Pool), " ")
			if p.New {
				text += " new"
			}
			if p.Inactive {
				text += " later"
			}
			if p.Similar > 0 {
				text += fmt.Sprint(" and ", p.Similar, " more")
			}
			out[name] = append(out[name], text)
		}
	}
	return out
}

// TestWhatIsRequestedLaterDoesNotCompete has two models that go to zero, under a
// limit of one GPU: each can be had.
func TestWhatIsRequestedLaterDoesNotCompete(t *testing.T) {
	zero := strings.Replace(serve, "replicas: 2", "replicas: 0", 1)
	other := strings.ReplaceAll(zero, "serve", "other")
	huge := strings.Replace(strings.ReplaceAll(zero, "serve", "huge"), "nvidia.com/gpu: 1", "nvidia.com/gpu: 9", 1)
	small := strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 1", 1)
	before, after := read(t, small, class), read(t, small, class, zero, other, huge)
	pod(&before, "waits", "")
	want := map[string][]string{
		"scheduled": {"Deployment other gpu new later", "Deployment serve gpu new later"}, "waiting": {"Deployment huge new later"},
	}
	if diff := cmp.Diff(want, placed(compare(t, before, after).PodScheduling)); diff != "" {
		t.Error(diff)
	}
}

func TestTheKindsOfWorkloads(t *testing.T) {
	template := "{metadata: {labels: {app: w}}, spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}}"
	tests := map[string]struct {
		text, want string
		live       func(*provision.ClusterSnapshot)
	}{
		"a StatefulSet": {"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: w}\nspec: {replicas: 3, template: " + template + "}", "StatefulSet w gpu new and 2 more", nil},
		"a StatefulSet with a pod": {"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: w}\nspec: {replicas: 3, template: " + template + "}", "StatefulSet w gpu new and 1 more",
			func(f *provision.ClusterSnapshot) { pod(f, "w-0", "somewhere", of("StatefulSet", "w")) }},
		"a ReplicaSet without a number": {"apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: w}\nspec: {template: " + template + "}", "ReplicaSet w gpu new", nil},
		"a Job of many at a time":       {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: w}\nspec: {parallelism: 4, completions: 3, template: " + template + "}", "Job w gpu new and 2 more", nil},
		"a Job that is suspended":       {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: w}\nspec: {suspend: true, template: " + template + "}", "Job w gpu new later", nil},
		"a Job that is done": {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: w}\nspec: {template: " + template + "}", "",
			func(f *provision.ClusterSnapshot) {
				pod(f, "w-x", "somewhere", of("Job", "w")).Status.Phase = corev1.PodSucceeded
			}},
		"a CronJob": {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: w}\nspec: {schedule: '0 3 * * *', jobTemplate: {spec: {parallelism: 9, template: " + template + "}}}", "CronJob w gpu new later", nil},
		"a CronJob that runs": {"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: w}\nspec: {schedule: '0 3 * * *', jobTemplate: {spec: {template: " + template + "}}}", "",
			func(f *provision.ClusterSnapshot) { pod(f, "w-29000000-x", "somewhere", of("Job", "w-29000000")) }},
		"a Pod": {"apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}", "Pod w gpu new", nil},
		"a Pod that is there": {"apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}", "",
			func(f *provision.ClusterSnapshot) {
				pod(f, "w", "somewhere", func(p *corev1.Pod) { p.OwnerReferences = nil })
			}},
		"a Deployment whose selector finds a pod of nobody": {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec: {selector: {matchLabels: {app: w}}, template: " + template + "}", "",
			func(f *provision.ClusterSnapshot) {
				pod(f, "free", "somewhere", func(p *corev1.Pod) { p.OwnerReferences, p.Labels["app"] = nil, "w" })
			}},
		"a Deployment beside one whose name begins like it": {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec: {selector: {matchLabels: {app: w}}, template: " + template + "}", "Deployment w gpu new",
			func(f *provision.ClusterSnapshot) {
				pod(f, "w-a-1f-x", "somewhere", of("ReplicaSet", "w-a-1f"), func(p *corev1.Pod) { p.Labels["app"], p.Labels["pod-template-hash"] = "w", "1f" })
			}},
		"a Pod that is sent to a node by name": {"apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {nodeName: node-1, containers: [{name: c}]}", "", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := read(t, pool, class)
			if tt.live != nil {
				tt.live(&before)
			}
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			if diff := cmp.Diff(want, placed(compare(t, before, read(t, pool, class, tt.text)).PodScheduling)["scheduled"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestATimeSlicedPoolTakesAPodForEachSlice(t *testing.T) {
	eight := strings.Replace(serve, "replicas: 2", "replicas: 8", 1)
	one := strings.Replace(pool, "nvidia.com/gpu: 8", "nvidia.com/gpu: 8, cpu: 4", 1)
	eight = strings.Replace(eight, "{requests: {cpu: 1}, ", "{", 1)
	want := map[string][]string{"scheduled": {"Deployment serve gpu and 6 more"}}
	if diff := cmp.Diff(want, placed(compare(t, read(t, one, class, eight), read(t, one, class, slices8, eight)).PodScheduling)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A p5.48xlarge has eight H100, each of which MIG partitions into seven. The overlay is that of a DevicePlugin with strategy single.
func TestAPoolPartitionedByMIGTakesAPodForEachDevice(t *testing.T) {
	const sevenths = `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: poolwright-gpu-8-gpu}
spec:
  requirements:
  - {key: karpenter.sh/nodepool, operator: In, values: [gpu]}
  - {key: karpenter.k8s.aws/instance-gpu-manufacturer, operator: In, values: [nvidia]}
  - {key: karpenter.k8s.aws/instance-gpu-count, operator: In, values: ["8"]}
  capacity: {nvidia.com/gpu: "56", nvidia.com/gpu.shared: "0"}
  weight: 10000
`
	of := func(replicas, nodes int) map[string][]string {
		t.Helper()
		pods := strings.Replace(serve, "replicas: 2", fmt.Sprintf("replicas: %d", replicas), 1)
		pods = strings.Replace(pods, "{requests: {cpu: 1}, ", "{", 1)
		limited := strings.Replace(pool, "nvidia.com/gpu: 8", fmt.Sprintf("cpu: %d", 192*nodes), 1)
		limited = strings.Replace(limited, "g4dn.xlarge, g5.xlarge", "p5.48xlarge", 1)
		f, err := simulate.Compare(engine.Offline(t.Context(), settings()), read(t, limited, class), read(t, limited, class, sevenths, pods), prices(t, "p5"))
		if err != nil {
			t.Fatal(err)
		}
		return placed(f.PodScheduling)
	}
	for name, tt := range map[string]struct {
		replicas, nodes int
		want            map[string][]string
	}{
		"56 pods fit on one node":   {56, 1, map[string][]string{"scheduled": {"Deployment serve gpu new and 55 more"}}},
		"the 57th finds no other":   {57, 1, map[string][]string{"scheduled": {"Deployment serve gpu new and 55 more"}, "waiting": {"Deployment serve new"}}},
		"57 pods fit on two nodes":  {57, 2, map[string][]string{"scheduled": {"Deployment serve gpu new and 56 more"}}},
		"112 pods fit on two nodes": {112, 2, map[string][]string{"scheduled": {"Deployment serve gpu new and 111 more"}}},
		"the 113th finds no other":  {113, 2, map[string][]string{"scheduled": {"Deployment serve gpu new and 111 more"}, "waiting": {"Deployment serve new"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, of(tt.replicas, tt.nodes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestARuntimeClassAddsItsOverhead(t *testing.T) {
	runtime := "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\nscheduling: {nodeSelector: {team: vision}}"
	text := strings.Replace(serve, "    spec:\n", "    spec:\n      runtimeClassName: nvidia\n", 1)
	got := compare(t, read(t, pool, class), read(t, pool, class, text, runtime))
	if diff := cmp.Diff(map[string][]string{"waiting": {"Deployment serve new and 1 more"}}, placed(got.PodScheduling)); diff != "" {
		t.Error(diff)
	}
	got = compare(t, read(t, pool, class), read(t, pool, class, text))
	if len(got.Unknown) == 0 || !strings.HasPrefix(got.Unknown[0].Text, "RuntimeClass nvidia is not known here") {
		t.Errorf("unknown: %q", texts(got.Unknown))
	}
}

func TestWhatTheAPIServerWouldAdd(t *testing.T) {
	snapshot := read(t, serve)
	w := snapshot.Workloads[0]
	is := []any{w.Kind, *w.Replicas, w.Selector, w.Pod.Namespace, w.Pod.Name, w.Pod.Spec.Tolerations, w.Pod.Spec.Containers[0].Resources.Requests.Name("nvidia.com/gpu", "").String()}
	want := []any{"Deployment", int32(2), &metav1.LabelSelector{MatchLabels: map[string]string{"app": "serve"}}, "default", "serve",
		[]corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, "1"}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
