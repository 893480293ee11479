// Package config_test holds the manifests of config/ to what they promise.
package config_test

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/internal/golden"
)

func TestTheDefaultInstallationRendersAsItsGolden(t *testing.T) {
	var all bytes.Buffer
	for _, r := range build(t).Resources() {
		if r.GetKind() == "CustomResourceDefinition" {
			continue // generated; its source is reconciler/api
		}
		raw, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n")
		all.Write(raw)
	}
	golden.Compare(t, "testdata/default.yaml", all.Bytes())
}

func TestTheDefaultInstallationBringsEveryCRD(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("crd", "poolwright.dev_*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rendered := 0
	for _, r := range build(t).Resources() {
		if r.GetKind() == "CustomResourceDefinition" {
			rendered++
		}
	}
	if rendered != len(files) || rendered == 0 {
		t.Errorf("%d CRDs are rendered, and config/crd has %d files: name each in config/crd/kustomization.yaml", rendered, len(files))
	}
}

func TestTheControllerRunsWithTheLeastThatAPodCanHave(t *testing.T) {
	deployment := one[appsv1.Deployment](t, "Deployment", "poolwright")
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	never := func(v *bool) bool { return v != nil && !*v }
	always := func(v *bool) bool { return v != nil && *v }
	for promise, kept := range map[string]bool{
		"two replicas":                     *deployment.Spec.Replicas == 2,
		"an account of its own":            pod.ServiceAccountName == "poolwright",
		"system-cluster-critical":          pod.PriorityClassName == "system-cluster-critical",
		"not root":                         always(pod.SecurityContext.RunAsNonRoot) && *pod.SecurityContext.RunAsUser == 65532,
		"the runtime's seccomp profile":    pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"a read-only root":                 always(container.SecurityContext.ReadOnlyRootFilesystem),
		"no privilege escalation":          never(container.SecurityContext.AllowPrivilegeEscalation),
		"no capabilities":                  slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"a memory limit":                   !container.Resources.Limits.Memory().IsZero(),
		"no CPU limit, which would stall":  container.Resources.Limits.Cpu().IsZero(),
		"a start-up and a liveness probe":  container.StartupProbe != nil && container.LivenessProbe != nil,
		"a readiness probe":                container.ReadinessProbe != nil,
		"replicas spread over nodes":       pod.TopologySpreadConstraints[0].TopologyKey == corev1.LabelHostname,
		"never on a node that it provides": pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil,
	} {
		if !kept {
			t.Errorf("the Deployment lacks: %s", promise)
		}
	}
}

func TestEveryArgumentOfTheDeploymentIsAFlagOfTheCommand(t *testing.T) {
	var source bytes.Buffer
	files, err := filepath.Glob(filepath.Join("..", "cmd", "internal", "cli", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("finding the command's source: %d files, %v", len(files), err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(raw)
	}
	args := one[appsv1.Deployment](t, "Deployment", "poolwright").Spec.Template.Spec.Containers[0].Args
	for _, arg := range args[1:] {
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.Contains(source.String(), `"`+name+`"`) {
			t.Errorf("the Deployment passes --%s, which the command line does not know", name)
		}
	}
}

// Karpenter's chart says what a version of it needs; ours must grant as much.
func TestTheEngineIsGrantedAllThatKarpentersChartGrants(t *testing.T) {
	granted := one[rbacv1.ClusterRole](t, "ClusterRole", "poolwright-engine").Rules
	// What the chart grants and no controller here uses.
	unused := map[string]string{
		"autoscaling.k8s.io": "Karpenter's list of controllers has none of VerticalPodAutoscalers yet",
	}
	for _, template := range []string{"clusterrole.yaml", "clusterrole-core.yaml"} {
		for _, rule := range chartRules(t, template) {
			for _, want := range single(rule) {
				if unused[want.APIGroups[0]] != "" || want.Resources[0] == "pods" && want.Verbs[0] == "patch" {
					continue // The second is for the gate PodDeletionCostManagement, which is refused.
				}
				if !slices.ContainsFunc(granted, func(r rbacv1.PolicyRule) bool { return grants(r, want) }) {
					t.Errorf("config/rbac/engine.yaml does not grant %s on %s.%s, and Karpenter's chart (%s) does", want.Verbs[0], want.Resources[0], want.APIGroups[0], template)
				}
			}
		}
	}
}

// The permissions that the code uses whatever a repository holds; without the cluster reconciler's
// role they are all that there is.
func TestTheControllersRolesGrantWhatTheProcessUses(t *testing.T) {
	everywhere := one[rbacv1.ClusterRole](t, "ClusterRole", "poolwright-controller").Rules
	inside := one[rbacv1.Role](t, "Role", "poolwright-controller").Rules
	for _, c := range []struct {
		rules           []rbacv1.PolicyRule
		group, resource string
		verbs           []string
	}{
		// The Sync controller's cache spans all namespaces, to refuse Syncs elsewhere.
		{everywhere, "poolwright.dev", "syncs", []string{"get", "list", "watch"}},
		{everywhere, "poolwright.dev", "syncs/status", []string{"patch"}},
		{everywhere, "poolwright.dev", "clusters", []string{"get", "list", "watch"}},
		{everywhere, "poolwright.dev", "clusters/status", []string{"patch"}},
		{everywhere, "poolwright.dev", "deviceplugins", []string{"get", "list", "watch"}},
		{everywhere, "poolwright.dev", "deviceplugins/status", []string{"patch"}},
		{everywhere, "apiextensions.k8s.io", "customresourcedefinitions", []string{"get", "create", "update", "patch"}},
		{everywhere, "", "namespaces", []string{"get", "create"}},
		{inside, "poolwright.dev", "syncs", []string{"update", "patch"}}, // finalizers, and that a webhook came
		{inside, "", "secrets", []string{"get", "create", "patch", "delete"}},
		{inside, "", "configmaps", []string{"get", "list", "create", "update", "delete"}},
		{inside, "coordination.k8s.io", "leases", []string{"create"}},
		{inside, "", "events", []string{"create", "patch"}},
	} {
		for _, verb := range c.verbs {
			want := rbacv1.PolicyRule{APIGroups: []string{c.group}, Resources: []string{c.resource}, Verbs: []string{verb}}
			if !slices.ContainsFunc(c.rules, func(r rbacv1.PolicyRule) bool { return grants(r, want) }) {
				t.Errorf("config/rbac/controller.yaml does not grant %s on %s.%s", verb, c.resource, c.group)
			}
		}
	}
}

// The same for GPU sharing, which must work where the engine's role is left out.
func TestTheRoleForGPUsGrantsWhatItsControllersUse(t *testing.T) {
	everywhere := one[rbacv1.ClusterRole](t, "ClusterRole", "poolwright-gpu").Rules
	plugins := one[rbacv1.Role](t, "Role", "poolwright-gpu-plugins").Rules
	for _, c := range []struct {
		rules           []rbacv1.PolicyRule
		group, resource string
		verbs           []string
	}{
		{everywhere, "", "nodes", []string{"get", "list", "watch", "patch"}},
		{everywhere, "", "pods", []string{"get", "list", "watch"}},
		{everywhere, "apps", "daemonsets", []string{"get", "list", "watch"}},
		{everywhere, "karpenter.sh", "nodeclaims", []string{"get", "list", "watch", "patch", "delete"}},
		{everywhere, "karpenter.sh", "nodeoverlays", []string{"get", "list", "watch"}},
		{everywhere, "karpenter.sh", "nodepools", []string{"get"}},
		{everywhere, "", "events", []string{"create", "patch"}},
		{plugins, "", "pods", []string{"delete"}},
	} {
		for _, verb := range c.verbs {
			want := rbacv1.PolicyRule{APIGroups: []string{c.group}, Resources: []string{c.resource}, Verbs: []string{verb}}
			if !slices.ContainsFunc(c.rules, func(r rbacv1.PolicyRule) bool { return grants(r, want) }) {
				t.Errorf("config/rbac/gpu.yaml does not grant %s on %s.%s", verb, c.resource, c.group)
			}
		}
	}
}

func TestTheControllerReachesNoMoreThanItNeeds(t *testing.T) {
	policy := one[networkingv1.NetworkPolicy](t, "NetworkPolicy", "poolwright")
	if !slices.Equal(policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}) {
		t.Errorf("it is for %v", policy.Spec.PolicyTypes)
	}
	passes := func(at netip.AddrPort, protocol corev1.Protocol) bool {
		return slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
			port := len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
				return *p.Protocol == protocol && p.Port.IntValue() == int(at.Port())
			})
			return port && (len(rule.To) == 0 || slices.ContainsFunc(rule.To, func(to networkingv1.NetworkPolicyPeer) bool {
				return netip.MustParsePrefix(to.IPBlock.CIDR).Contains(at.Addr()) && !slices.ContainsFunc(to.IPBlock.Except, func(not string) bool {
					return netip.MustParsePrefix(not).Contains(at.Addr())
				})
			}))
		})
	}
	for name, c := range map[string]struct {
		at       string
		protocol corev1.Protocol
		want     bool
	}{
		"DNS":                             {"10.100.0.10:53", corev1.ProtocolUDP, true},
		"DNS over TCP":                    {"10.100.0.10:53", corev1.ProtocolTCP, true},
		"a DNS cache on the node":         {"169.254.20.10:53", corev1.ProtocolUDP, true},
		"the API server":                  {"10.100.0.1:443", corev1.ProtocolTCP, true},
		"a forge":                         {"140.82.112.3:443", corev1.ProtocolTCP, true},
		"a Git server by ssh":             {"140.82.112.3:22", corev1.ProtocolTCP, true},
		"instance metadata on 22":         {"169.254.169.254:22", corev1.ProtocolTCP, false},
		"AWS over IPv6":                   {"[2600:1f18::1]:443", corev1.ProtocolTCP, true},
		"the Pod Identity agent":          {"169.254.170.23:80", corev1.ProtocolTCP, true},
		"the Pod Identity agent by IPv6":  {"[fd00:ec2::23]:80", corev1.ProtocolTCP, true},
		"instance metadata":               {"169.254.169.254:80", corev1.ProtocolTCP, false},
		"instance metadata on 443":        {"169.254.169.254:443", corev1.ProtocolTCP, false},
		"instance metadata by IPv6":       {"[fd00:ec2::254]:80", corev1.ProtocolTCP, false},
		"a container's task metadata":     {"169.254.170.2:80", corev1.ProtocolTCP, false},
		"a neighbour on the link":         {"[fe80::1]:443", corev1.ProtocolTCP, false},
		"a pod's plain HTTP":              {"10.0.12.7:80", corev1.ProtocolTCP, false},
		"a kubelet":                       {"10.0.12.7:10250", corev1.ProtocolTCP, false},
		"a database":                      {"10.0.12.7:5432", corev1.ProtocolTCP, false},
		"QUIC, which nothing of it takes": {"140.82.112.3:443", corev1.ProtocolUDP, false},
	} {
		if got := passes(netip.MustParseAddrPort(c.at), c.protocol); got != c.want {
			t.Errorf("%s: passes %t", name, got)
		}
	}
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			if open := len(rule.From) == 0; open != (p.Port.String() == "webhook") {
				t.Errorf("port %s is open to everybody: %t", p.Port.String(), open)
			}
		}
	}
}

func TestOnlyTheLoopsRoleIsWide(t *testing.T) {
	for _, r := range build(t).Resources() {
		if r.GetKind() != "ClusterRole" && r.GetKind() != "Role" {
			continue
		}
		role := decode[rbacv1.ClusterRole](t, r.MustYaml())
		for _, rule := range role.Rules {
			wide := slices.Contains(rule.Verbs, "*") || slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*")
			if wide && role.Name != "poolwright-cluster-reconciler" {
				t.Errorf("%s %s grants a wildcard: %v", r.GetKind(), role.Name, rule)
			}
			if slices.Contains(rule.Verbs, "impersonate") || slices.Contains(rule.Verbs, "*") {
				t.Errorf("%s %s lets the controller be somebody else: %v", r.GetKind(), role.Name, rule)
			}
			own := r.GetKind() == "Role" && r.GetNamespace() == "poolwright-system"
			// A watch is of the metadata of one: see reconciler/variables.
			byName := !slices.ContainsFunc(rule.Verbs, func(verb string) bool {
				return !slices.Contains([]string{"get", "watch", "create", "patch", "delete"}, verb)
			})
			if slices.Contains(rule.Resources, "secrets") && !(own && byName) {
				t.Errorf("%s %s does more with secrets than to handle those of its own namespace by their names: %v", r.GetKind(), role.Name, rule)
			}
		}
	}
}

func build(t *testing.T) resmap.ResMap {
	t.Helper()
	return kustomized(t, "default")
}

// kustomized renders a folder, as kubectl kustomize does.
func kustomized(t *testing.T, folder string) resmap.ResMap {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("rendering %s: %v", folder, err)
	}
	return rendered
}

// one decodes the only object of its kind and name, refusing unknown fields.
func one[T any](t *testing.T, kind, name string) T {
	t.Helper()
	for _, r := range build(t).Resources() {
		if r.GetKind() == kind && r.GetName() == name {
			return decode[T](t, r.MustYaml())
		}
	}
	t.Fatalf("config/default has no %s %s", kind, name)
	var none T
	return none
}

func decode[T any](t *testing.T, raw string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(raw), &object); err != nil {
		t.Fatalf("decoding %T: %v\n%s", object, err, raw)
	}
	return object
}

// chartRules reads the rules of a role in the pinned provider's chart: the last
// document of the template, without the template's own lines.
func chartRules(t *testing.T, template string) []rbacv1.PolicyRule {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatalf("finding the provider's module: %v", err)
	}
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "charts", "karpenter", "templates", template))
	if err != nil {
		t.Fatal(err)
	}
	_, role, _ := strings.Cut(string(raw), "\n---\n")
	plain := regexp.MustCompile(`(?m)^.*\{\{.*$`).ReplaceAllString(role, "")
	var parsed rbacv1.ClusterRole
	if err := yaml.Unmarshal([]byte(plain), &parsed); err != nil {
		t.Fatalf("reading %s: %v", template, err)
	}
	if len(parsed.Rules) == 0 {
		t.Fatalf("%s has no rules any more: find where the chart keeps them", template)
	}
	return parsed.Rules
}

// single splits a rule into rules of one group, resource and verb each.
func single(rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				out = append(out, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}})
			}
		}
	}
	return out
}

func grants(have, want rbacv1.PolicyRule) bool {
	return len(have.ResourceNames) == 0 &&
		slices.Contains(have.APIGroups, want.APIGroups[0]) &&
		slices.Contains(have.Resources, want.Resources[0]) &&
		slices.Contains(have.Verbs, want.Verbs[0])
}
