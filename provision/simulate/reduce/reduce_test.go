package reduce_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/simulate/reduce"
	"github.com/poolwright/poolwright/provision/simulate/reduce/reducetest"
)

// unread are the fields that a forecast does not read. A field that Kubernetes adds is in none
// of the lists: whoever upgrades finds out whether Karpenter reads it.
var unread = map[string]string{
	"ObjectMeta": "GenerateName SelfLink ResourceVersion Generation DeletionGracePeriodSeconds Finalizers ManagedFields",
	"PodSpec": "Volumes EphemeralContainers RestartPolicy TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy ServiceAccountName " +
		"DeprecatedServiceAccount AutomountServiceAccountToken HostNetwork HostPID HostIPC ShareProcessNamespace SecurityContext ImagePullSecrets " +
		"Hostname Subdomain SchedulerName HostAliases PriorityClassName DNSConfig ReadinessGates RuntimeClassName EnableServiceLinks PreemptionPolicy " +
		"SetHostnameAsFQDN OS HostUsers HostnameOverride SchedulingGroup EvictionResponders",
	"PodStatus": "ObservedGeneration Message Reason HostIP HostIPs PodIP PodIPs QOSClass EphemeralContainerStatuses Resize ExtendedResourceClaimStatus VolumeHealth",
	"Container": "Image Command Args WorkingDir EnvFrom Env ResizePolicy RestartPolicyRules VolumeMounts VolumeDevices LivenessProbe ReadinessProbe " +
		"StartupProbe Lifecycle TerminationMessagePath TerminationMessagePolicy ImagePullPolicy SecurityContext Stdin StdinOnce TTY",
	"ContainerStatus": "State LastTerminationState Ready RestartCount Image ImageID ContainerID Started VolumeMounts User AllocatedResourcesStatus StopSignal",
	"PodCondition":    "ObservedGeneration LastProbeTime LastTransitionTime Message",
	"NodeSpec":        "PodCIDR PodCIDRs ConfigSource DoNotUseExternalID PodPreemptionPolicy",
	"NodeStatus":      "Phase Addresses DaemonEndpoints NodeInfo Images VolumesInUse VolumesAttached Config RuntimeHandlers Features DeclaredFeatures",
}

func TestEachFieldIsKeptOrListedAsUnread(t *testing.T) {
	var full corev1.Pod
	reducetest.Fill(t, &full)
	full.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	id, shape := reduce.Split(&full)
	pod := id.Of(shape)
	var fullNode corev1.Node
	reducetest.Fill(t, &fullNode)
	node := reduce.Node(&fullNode)
	for _, reduced := range []any{
		pod.ObjectMeta, node.ObjectMeta, pod.Spec, pod.Status, pod.Spec.Containers[0], pod.Spec.InitContainers[0],
		pod.Status.ContainerStatuses[0], pod.Status.InitContainerStatuses[0], pod.Status.Conditions[0], node.Spec, node.Status,
	} {
		v := reflect.ValueOf(reduced)
		dropped := []string{}
		for i := range v.NumField() {
			if v.Field(i).IsZero() && (v.Type().Field(i).Name != "Namespace" || v.Type() != reflect.TypeFor[metav1.ObjectMeta]()) {
				dropped = append(dropped, v.Type().Field(i).Name)
			}
		}
		listed := strings.Fields(unread[v.Type().Name()])
		slices.Sort(dropped)
		slices.Sort(listed)
		if diff := cmp.Diff(listed, dropped); diff != "" {
			t.Errorf("%s has other fields than those that are kept or listed: find out whether a forecast reads them (-listed +dropped):\n%s", v.Type(), diff)
		}
	}
}

// readers are the packages whose code reads pods in a forecast.
var readers = map[string]string{
	"sigs.k8s.io/karpenter":    "pkg/controllers/provisioning/scheduling pkg/controllers/state pkg/scheduling pkg/utils/pod pkg/utils/pdb pkg/utils/resources pkg/utils/disruption pkg/utils/daemonset",
	"k8s.io/component-helpers": "resource",
}

// irrelevant are those of the unread fields that this code reads nevertheless, with why that
// makes no difference.
var irrelevant = map[string]string{
	"PodSpec.Volumes": "pods are placed without volumes, as where those are is not known",
}

func TestWhatKarpenterReadsOfPodsIsKept(t *testing.T) {
	found := map[string]bool{}
	for module, folders := range readers {
		dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		files := 0
		for folder := range strings.FieldsSeq(folders) {
			names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), folder, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if strings.HasSuffix(name, "_test.go") {
					continue
				}
				file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				files++
				ast.Inspect(file, func(n ast.Node) bool {
					for _, field := range unreadIn(n) {
						found[field] = true
						if irrelevant[field] == "" {
							t.Errorf("%s/%s reads %s, which is dropped", module, folder, field)
						}
					}
					return true
				})
			}
		}
		if files == 0 {
			t.Errorf("%s has no files", module)
		}
	}
	for field := range irrelevant {
		if !found[field] {
			t.Errorf("%s is not read any more: remove it from the list", field)
		}
	}
}

// unreadIn are the unread fields of pods that an expression selects: those of spec and status by
// the field before them, those of a container by their own name.
func unreadIn(n ast.Node) (out []string) {
	selected, ok := n.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	kinds := map[string]string{"Spec": "PodSpec", "Status": "PodStatus"}
	if parent, ok := selected.X.(*ast.SelectorExpr); ok {
		if kind := kinds[parent.Sel.Name]; slices.Contains(strings.Fields(unread[kind]), selected.Sel.Name) {
			out = append(out, kind+"."+selected.Sel.Name)
		}
	}
	if of, ok := selected.X.(*ast.Ident); ok && (of.Name == "container" || of.Name == "c") && slices.Contains(strings.Fields(unread["Container"]), selected.Sel.Name) {
		out = append(out, "Container."+selected.Sel.Name)
	}
	return out
}

func TestPodsOfOneShapeShareIt(t *testing.T) {
	made := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{}
		reducetest.Fill(t, pod)
		pod.Name, pod.Spec.NodeName, pod.Status.PodIP = name, "node-of-"+name, "10.0.0."+name
		change(pod)
		return pod
	}
	var pods reduce.Pods
	var got []*corev1.Pod
	for i, change := range []func(*corev1.Pod){
		func(*corev1.Pod) {}, func(p *corev1.Pod) { p.Spec.Containers[0].Env = nil }, func(p *corev1.Pod) { p.Labels["other"] = "label" },
	} {
		pod := made(fmt.Sprint(i), change)
		was := pod.DeepCopy()
		reduced, err := pods.Pod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(was, pod); diff != "" {
			t.Errorf("the given pod was changed: %s", diff)
		}
		if reduced.Name != pod.Name || reduced.Spec.NodeName != pod.Spec.NodeName {
			t.Errorf("%s on %s became %s on %s", pod.Name, pod.Spec.NodeName, reduced.Name, reduced.Spec.NodeName)
		}
		got = append(got, reduced)
	}
	if &got[0].Spec.Containers[0] != &got[1].Spec.Containers[0] {
		t.Error("pods that differ in what is dropped do not share what is kept")
	}
	if &got[0].Spec.Containers[0] == &got[2].Spec.Containers[0] {
		t.Error("pods of two shapes share one")
	}
}
