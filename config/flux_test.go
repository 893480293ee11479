package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// syncsByStatus are Syncs whose status real runs have written, by what happened.
func syncsByStatus(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	raw, err := os.ReadFile("../.ci/argocd/testdata/syncs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name   string
		Object map[string]any
	}
	if err := yaml.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, one := range all {
		object, err := json.Marshal(one.Object)
		if err != nil {
			t.Fatal(err)
		}
		out[one.Name] = &unstructured.Unstructured{}
		if err := out[one.Name].UnmarshalJSON(object); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// What kustomize-controller waits for: by kstatus alone, and by the expressions of the example. Both must agree, but for a Sync
// without a status, which kstatus takes for ready, and the expressions for unknown.
func TestFluxWaitsForASyncThatIsNotReady(t *testing.T) {
	raw, err := os.ReadFile("flux/examples/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example struct {
		Spec struct {
			HealthCheckExprs []kustomize.CustomHealthCheck
		}
	}
	if err := yaml.Unmarshal(raw, &example); err != nil || len(example.Spec.HealthCheckExprs) != 1 {
		t.Fatalf("%+v, %v", example, err)
	}
	newReader, err := cel.NewStatusReader(example.Spec.HealthCheckExprs)
	if err != nil {
		t.Fatal(err)
	}
	reader := newReader(nil)
	page, err := os.ReadFile("../docs/howto/beside-flux-or-argocd.md")
	if err != nil {
		t.Fatal(err)
	}
	expression := regexp.MustCompile("(?m)^`current: (.*RolledOut.*)`\\.$").FindSubmatch(page)
	if expression == nil {
		t.Fatal("the page has no expression for the end of a roll-out")
	}
	example.Spec.HealthCheckExprs[0].Current = string(expression[1])
	newRolledOut, err := cel.NewStatusReader(example.Spec.HealthCheckExprs)
	if err != nil {
		t.Fatal(err)
	}
	rolledOut := newRolledOut(nil)
	want := map[string]status.Status{
		"no run has begun":                                           status.UnknownStatus,
		"the source has not responded yet":                           status.InProgressStatus,
		"a revision is applied":                                      status.CurrentStatus,
		"a changed spec is not applied yet":                          status.InProgressStatus,
		"a changed spec cannot be applied, and is tried again":       status.InProgressStatus,
		"the source cannot be reached":                               status.InProgressStatus,
		"the repository has a problem":                               status.FailedStatus,
		"the spec was changed since a problem":                       status.InProgressStatus,
		"a deletion waits for a confirmation":                        status.FailedStatus,
		"a deletion waits, and another token is quoted":              status.FailedStatus,
		"drift is only reported":                                     status.CurrentStatus,
		"it is suspended":                                            status.CurrentStatus,
		"it is suspended for a reason":                               status.CurrentStatus,
		"it is suspended until a time":                               status.CurrentStatus,
		"it is suspended until what is no time":                      status.CurrentStatus,
		"it is suspended until what is a time but for its separator": status.CurrentStatus,
		"it is suspended while a deletion waits":                     status.InProgressStatus,
		"replacing nodes waits for a confirmation":                   status.InProgressStatus,
		"nodes of an applied revision are to be replaced":            status.CurrentStatus,
		"an applied revision is loaded again":                        status.InProgressStatus,
		"it is in another namespace":                                 status.FailedStatus,
	}
	syncs := syncsByStatus(t)
	if len(syncs) != len(want) {
		t.Errorf("%d Syncs, and %d are listed", len(syncs), len(want))
	}
	for name, sync := range syncs {
		by, err := status.Compute(sync)
		if err != nil {
			t.Fatal(err)
		}
		alone := want[name]
		if alone == status.UnknownStatus {
			alone = status.CurrentStatus
		}
		if by.Status != alone {
			t.Errorf("%s: %s by kstatus, want %s", name, by.Status, alone)
		}
		read, err := reader.ReadStatusForObject(t.Context(), nil, sync)
		if err != nil || read.Status != want[name] {
			t.Errorf("%s: %+v by the expressions, %v, want %s", name, read, err, want[name])
		}
		// The end of a roll-out: only what is Current, and rolled out or suspended, is.
		for _, nodes := range [][2]string{{"True", "UpToDate"}, {"False", "RollingOut"}, {"Unknown", "Progressing"}, {}} {
			object := sync.DeepCopy()
			suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
			if suspended {
				nodes = [2]string{"Unknown", "Suspended"}
			}
			setRolledOut(t, object, nodes[0], nodes[1])
			expected := want[name]
			if expected == status.CurrentStatus && nodes[0] != "True" && !suspended {
				expected = status.InProgressStatus
			}
			read, err := rolledOut.ReadStatusForObject(t.Context(), nil, object)
			if err != nil || read.Status != expected {
				t.Errorf("%s, %v: %+v by the expressions for a roll-out, %v, want %s", name, nodes, read, err, expected)
			}
		}
	}
}

// setRolledOut replaces the condition RolledOut of a Sync that has conditions; none with an empty status.
func setRolledOut(t *testing.T, sync *unstructured.Unstructured, is, reason string) {
	t.Helper()
	all, found, err := unstructured.NestedSlice(sync.Object, "status", "conditions")
	if err != nil || !found {
		return
	}
	all = slices.DeleteFunc(all, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "RolledOut"
	})
	if is != "" {
		all = append(all, map[string]any{"type": "RolledOut", "status": is, "reason": reason})
	}
	if err := unstructured.SetNestedSlice(sync.Object, all, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
}

// crdOfFlux is a CRD with these versions, each with the kinds that Flux lists at a path.
func crdOfFlux(name, list string, versions ...string) string {
	out := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + ".notification.toolkit.fluxcd.io}\nspec:\n  versions:\n"
	for _, v := range versions {
		out += fmt.Sprintf("  - name: %s\n    schema: {openAPIV3Schema: {properties: {spec: {properties: {%s: {items: {properties: {kind: {enum: [Kustomization]}}}}}}}}}\n", v, list)
	}
	return out
}

// The versions are those of notification-controller's CRDs from Flux 2.2 (1.2.0) to 2.9 (1.9.3).
func TestEachFluxHasAComponentThatLetsAlertsAndReceiversNameSyncs(t *testing.T) {
	of := map[string]string{
		".":        crdOfFlux("alerts", "eventSources", "v1beta3") + "---\n" + crdOfFlux("receivers", "resources", "v1"),
		"flux-2.7": crdOfFlux("alerts", "eventSources", "v1beta2", "v1beta3") + "---\n" + crdOfFlux("receivers", "resources", "v1", "v1beta2"),
		"flux-2.2": crdOfFlux("alerts", "eventSources", "v1beta1", "v1beta2", "v1beta3") + "---\n" + crdOfFlux("receivers", "resources", "v1", "v1beta1", "v1beta2"),
	}
	for folder := range of {
		for crds, content := range of {
			overlay := t.TempDir()
			if err := os.CopyFS(filepath.Join(overlay, "kinds"), os.DirFS("flux/kinds")); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"crds.yaml": content, "kustomization.yaml": "resources: [crds.yaml]\ncomponents: [kinds/" + folder + "]\n"} {
				if err := os.WriteFile(filepath.Join(overlay, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
			if folder != crds {
				if err == nil {
					t.Errorf("the component %s renders with the CRDs for %s", folder, crds)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[string]int{}
			for _, object := range rendered.Resources() {
				kinds[object.GetKind()]++
				for _, version := range strings.Split(object.MustYaml(), "schema:")[1:] {
					named := strings.Contains(version, "- Sync\n")
					if newest := strings.Contains(version, "eventSources") == strings.Contains(object.MustYaml(), "v1beta3"); named && !newest {
						t.Errorf("%s: another version has the kind:\n%s", folder, object.MustYaml())
					}
				}
				if object.GetKind() == "CustomResourceDefinition" && strings.Count(object.MustYaml(), "- Sync\n") != 1 {
					t.Errorf("%s:\n%s", folder, object.MustYaml())
				}
			}
			// No permissions, which only Receivers need. No NetworkPolicy: where Flux has none of its own, one would cut notification-controller off from all others, and
			// where it has them, its allow-webhooks admits every namespace.
			want := map[string]int{"CustomResourceDefinition": 2}
			if !maps.Equal(kinds, want) {
				t.Errorf("%s renders %v", folder, kinds)
			}
		}
	}
}

// A patch can change the spec of a Sync, and so the repository that it follows.
func TestReceiversOfFluxMayPatchOnlySyncsOfTheControllersNamespace(t *testing.T) {
	overlay := t.TempDir()
	if err := os.CopyFS(overlay, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte("resources: [default]\ncomponents: [flux/receivers]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, object := range kustomized(t, overlay).Resources() {
		if object.GetName() != "poolwright-flux-receiver" {
			continue
		}
		about := object.GetKind() + " " + object.GetNamespace()
		if strings.HasSuffix(object.GetKind(), "Role") {
			for _, rule := range decode[rbacv1.ClusterRole](t, object.MustYaml()).Rules {
				got[about] = append(got[about], rule.Verbs...)
			}
			continue
		}
		for _, subject := range decode[rbacv1.ClusterRoleBinding](t, object.MustYaml()).Subjects {
			got[about] = append(got[about], subject.Namespace+"/"+subject.Name)
		}
	}
	account := []string{"flux-system/notification-controller"}
	want := map[string][]string{"ClusterRole ": {"get", "list", "watch"}, "ClusterRoleBinding ": account, "Role poolwright-system": {"patch"}, "RoleBinding poolwright-system": account}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Flux with --no-cross-namespace-refs refuses an Alert, or a Receiver, of a Sync in another namespace than its own.
func TestTheExamplesForFluxAreInTheNamespaceOfTheSyncsThatTheyName(t *testing.T) {
	for _, file := range []string{"alert.yaml", "receiver.yaml"} {
		raw, err := os.ReadFile(filepath.Join("flux/examples", file))
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(string(raw), "\n---\n") {
			var object struct {
				Metadata struct{ Namespace string }
				Spec     struct{ EventSources, Resources []struct{ Namespace string } }
			}
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			for _, named := range append(object.Spec.EventSources, object.Spec.Resources...) {
				if named.Namespace != object.Metadata.Namespace {
					t.Errorf("%s is in %s and names a Sync in %s", file, object.Metadata.Namespace, named.Namespace)
				}
			}
			if object.Metadata.Namespace != "poolwright-system" {
				t.Errorf("%s has an object in %s", file, object.Metadata.Namespace)
			}
		}
	}
}

func TestTheComponentForFluxSendsEventsToWhereThePolicyLetsThem(t *testing.T) {
	overlay := t.TempDir()
	if err := os.CopyFS(overlay, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte("resources: [default]\ncomponents: [flux/controller]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, object := range kustomized(t, overlay).Resources() {
		switch object.GetKind() {
		case "Deployment":
			found++
			args := decode[appsv1.Deployment](t, object.MustYaml()).Spec.Template.Spec.Containers[0].Args
			if !slices.Contains(args, "--events-addr=http://notification-controller.flux-system.svc.cluster.local./") || args[0] != "run" {
				t.Errorf("the controller runs with %v", args)
			}
		case "NetworkPolicy":
			found++
			egress := decode[networkingv1.NetworkPolicy](t, object.MustYaml()).Spec.Egress
			last := egress[len(egress)-1]
			if len(last.To) != 1 || last.To[0].PodSelector.MatchLabels["app"] != "notification-controller" ||
				last.To[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "flux-system" || last.Ports[0].Port.IntValue() != 9090 {
				t.Errorf("out to %+v", last)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d of the two objects are there", found)
	}
}

func TestTheComponentForSourcesOfFluxGrantsAndOpensNoMoreThanTheyNeed(t *testing.T) {
	overlay := t.TempDir()
	if err := os.CopyFS(overlay, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte("resources: [default]\ncomponents: [flux/sources]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, object := range kustomized(t, overlay).Resources() {
		if object.GetName() != "poolwright-flux-sources" && object.GetKind() != "NetworkPolicy" {
			continue
		}
		found[object.GetKind()]++
		switch object.GetKind() {
		case "Role":
			want := []rbacv1.PolicyRule{{APIGroups: []string{"source.toolkit.fluxcd.io"}, Resources: []string{"gitrepositories", "ocirepositories", "buckets", "externalartifacts"}, Verbs: []string{"get", "watch"}}}
			if diff := cmp.Diff(want, decode[rbacv1.Role](t, object.MustYaml()).Rules); diff != "" || object.GetNamespace() != "flux-system" {
				t.Errorf("in %s (-want +got)\n%s", object.GetNamespace(), diff)
			}
		case "NetworkPolicy":
			policy := decode[networkingv1.NetworkPolicy](t, object.MustYaml()).Spec
			if object.GetNamespace() == "flux-system" {
				from := policy.Ingress[0].From[0]
				if len(policy.Ingress) != 1 || policy.PodSelector.MatchLabels["app"] != "source-controller" || from.PodSelector.MatchLabels["app.kubernetes.io/name"] != "poolwright" ||
					from.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "poolwright-system" || policy.Ingress[0].Ports[0].Port.IntValue() != 9090 {
					t.Errorf("into %+v", policy)
				}
				continue
			}
			last := policy.Egress[len(policy.Egress)-1]
			if last.To[0].PodSelector.MatchLabels["app"] != "source-controller" || last.To[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "flux-system" || last.Ports[0].Port.IntValue() != 9090 {
				t.Errorf("out to %+v", last)
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"Role": 1, "RoleBinding": 1, "NetworkPolicy": 2}, found); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
