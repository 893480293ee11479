package offline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/unset"
	"github.com/poolwright/poolwright/reconciler/variables"
)

const variablePool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: ${POOL}
spec:
  weight: ${WEIGHT}
  limits: {cpu: "${CPU:=10}"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: "${POOL}"}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: ["${KIND}"]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: "${POOL}"}
spec:
  role: KarpenterNodeRole-${CLUSTER_NAME}
  amiSelectorTerms: [{alias: "${ALIAS}"}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: "${CLUSTER_NAME}"}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: "${CLUSTER_NAME}"}}]
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: "${SPACE}"}
stringData: {token: "Bearer ${TOKEN}"}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: script
  annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}
data: {run: "echo ${HOME}"}
`

func TestLintChecksNoFieldThatHoldsAVariableWithoutAValue(t *testing.T) {
	linted, err := Lint(t.Context(), folder(t, "a.yaml", variablePool), variables.Input{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range linted.All() {
		got = append(got, p.String())
	}
	var want []string
	for _, one := range []string{"4 POOL", "6 WEIGHT", "12 KIND", "18 CLUSTER_NAME", "19 ALIAS", "25 SPACE", "26 TOKEN"} {
		line, name, _ := strings.Cut(one, " ")
		want = append(want, "a.yaml:"+line+": warning: ${"+name+"} has no value here, and fields that contain it are not validated; give it one with --substitute "+name+"=VALUE, or name the Sync's manifest with --sync-file")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLintChecksWhatValuesMakeOfAnObject(t *testing.T) {
	values := map[string]string{"POOL": "gpu", "WEIGHT": "500", "KIND": "spot", "CLUSTER_NAME": "dev", "ALIAS": "al2023@v20250101", "SPACE": "default"}
	linted, err := Lint(t.Context(), folder(t, "a.yaml", variablePool), variables.Input{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range linted.Problems {
		got = append(got, strings.Join(strings.Fields(p.String())[:4], " "))
	}
	want := []string{"a.yaml:6: NodePool.karpenter.sh/gpu: spec.weight: 500:", "a.yaml:26: ${TOKEN} has no"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v\n%s", linted.Problems, diff)
	}
}

const parameterClass = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  amiFamily: AL2023
  role: KarpenterNodeRole-${CLUSTER_NAME}
  amiSelectorTerms: [{id: "${AMI}"}]
  subnetSelectorTerms: [{id: "${SUBNET}"}]
  securityGroupSelectorTerms: [{tags: {a: "${CLUSTER_NAME}"}}]
`

const parameterSync = `apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: dev}
spec:
  source: {git: {url: https://git.example.com/nodes.git}}
  substitute: {CLUSTER_NAME: dev, SUBNET: none}
  substituteFrom: [{kind: SSMParameter, name: /aws/service/x, variable: AMI}]
`

// What a parameter is, nobody knows without AWS; all other values are judged.
func TestParametersAreNotCheckedWhereNobodyReadsThem(t *testing.T) {
	const warned = "a.yaml:7: warning: ${AMI} is the value of SSM parameter /aws/service/x, which is not read here, and fields that contain it are not validated; give it one with --substitute AMI=VALUE"
	const subnet = "a.yaml:8: EC2NodeClass.karpenter.k8s.aws/gpu: spec.subnetSelectorTerms[0].id:"
	for name, c := range map[string]struct {
		status string
		values map[string]string
		want   []string // the beginning of each finding
	}{
		"that nobody gives":                {"", nil, []string{warned, subnet}},
		"that a flag gives":                {"", map[string]string{"AMI": "ami-1"}, []string{subnet}},
		"that the file's status has":       {"status: {parameters: [{variable: AMI, name: /aws/service/x, value: ami-1}]}\n", nil, []string{subnet}},
		"but a value that a flag gives is": {"", map[string]string{"AMI": "none"}, []string{"a.yaml:7: EC2NodeClass.karpenter.k8s.aws/gpu: spec.amiSelectorTerms[0].id:", subnet}},
	} {
		t.Run(name, func(t *testing.T) {
			in := variables.Input{Values: c.values, SyncFile: filepath.Join(folder(t, "sync.yaml", parameterSync+c.status), "sync.yaml")}
			dir := folder(t, "a.yaml", parameterClass)
			linted, err := Lint(t.Context(), dir, in)
			if err != nil {
				t.Fatal(err)
			}
			found := linted.All()
			if len(found) != len(c.want) {
				t.Fatalf("findings: %v", found)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(found[i].String(), want) {
					t.Errorf("%q does not begin with %q", found[i], want)
				}
			}
			written, err := declared.Load(os.DirFS(dir), ".", declared.Options{UnresolvedVariables: true})
			if err != nil {
				t.Fatal(err)
			}
			checked := unset.Variables{Parameters: variables.Unknown{"AMI": "x"}}.LintableIn(written.Set, os.DirFS(dir), linted.Problems)
			if diff := cmp.Diff(1, len(checked)); diff != "" {
				t.Errorf("%v\n%s", checked, diff)
			}
		})
	}
}

// What is found of other fields than those that hold a variable does not depend on it.
func TestLintChecksAllOtherFieldsOfAnObjectWithAVariable(t *testing.T) {
	class := func(version, rest string) string {
		return "apiVersion: karpenter.k8s.aws/" + version + "\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n" + rest
	}
	pool := func(version, rest string) string {
		return "apiVersion: karpenter.sh/" + version + "\nkind: NodePool\nmetadata: {name: a}\nspec:\n  template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}, requirements: []}}\n" + rest
	}
	const (
		terms   = "  subnetSelectorTerms: [{tags: {Name: \"${X}\"}}]\n  securityGroupSelectorTerms: [{tags: {Name: \"${X}\"}}]\n"
		cluster = "---\napiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {name: c, region: eu-west-1, accountID: \"111122223333\", version: \"1.33\"}\n"
	)
	for name, c := range map[string]struct{ text, want string }{
		"a required field is missing":           {class("v1", "  role: r\n  tags: {team: \"${X}\"}\n  subnetSelectorTerms: [{tags: {Name: x}}]\n  amiSelectorTerms: [{alias: al2@latest}]\n"), "spec.securityGroupSelectorTerms: this field is required"},
		"an alias is refused":                   {class("v1", "  role: r\n  amiSelectorTerms: [{alias: al2@latest}]\n"+terms) + cluster, "alias al2@latest is refused at Kubernetes 1.33"},
		"a rule between other fields":           {class("v1", "  role: r\n  instanceProfile: p\n  amiSelectorTerms: [{alias: al2023@latest}]\n"+terms), "must specify exactly one of ['role', 'instanceProfile']"},
		"a rule about which fields there are":   {class("v1", "  role: r-${X}\n  instanceProfile: p\n  amiSelectorTerms: [{alias: al2023@latest}]\n"+terms), "must specify exactly one of ['role', 'instanceProfile']"},
		"a rule on a field that is none":        {class("v1", "  role: r\n  tags: {team: \"${X}\"}\n  amiSelectorTerms: [{id: ami-0123456789abcdef0}]\n"+terms), "must specify amiFamily"},
		"a field that is not known":             {class("v1", "  role: r\n  tag: {team: \"${X}\"}\n  amiSelectorTerms: [{alias: al2023@latest}]\n"+terms), "spec.tag: unknown field"},
		"an old API":                            {class("v1beta1", "  role: r\n  amiFamily: AL2023\n"+terms), "an old API of Karpenter, followed as v1"},
		"budgets of an old API":                 {pool("v1beta1", "  limits: {nvidia.com/gpu: \"${X}\"}\n  disruption: {budgets: [{nodes: \"1\"}]}\n"), "budgets no longer hold back expiry"},
		"a launch template":                     {"apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: a}\nspec: {launchTemplate: x, tags: {a: \"${X}\"}}\n", "Karpenter v1 takes no launch templates"},
		"a version that is not served":          {pool("v7", "  weight: ${X}\n"), "v7 NodePool is not known"},
		"something declared twice":              {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"${X}\"}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: \"${X}\"}\n", "is declared twice"},
		"text that is marked to stay as it is":  {"apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c, annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}\nspec: {name: c, region: \"${X}\", accountID: \"111122223333\"}\n", "spec.region:"},
		"not the number of an old API":          {"apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: {ttlSecondsAfterEmpty: \"${X}\", ttlSecondsUntilExpired: 600, providerRef: {name: a}}\n", "warning: ${X} has no value here"},
		"not what stops an old API below":       {"apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec:\n  providerRef:\n    name: a\n    kind: ${X}\n", "a.yaml:7: warning: ${X} has no value here"},
		"a variable beside what stops":          {"# gone\n---\napiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  role: r\n  amiFamily: Ubuntu\n  tags:\n    team: ${X}\n", "a.yaml:10: warning: ${X} has no value here"},
		"not a rule about values of some field": {strings.Replace(pool("v1", ""), "requirements: []", "requirements: [{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [\"${X}\"]}]", 1), "warning: ${X} has no value here"},
		"not what is made of a family":          {class("v1", "  role: r\n  amiFamily: AL2023\n  amiSelectorTerms: [{alias: \"al2${X}@latest\"}]\n"+terms), "warning: ${X} has no value here"},
	} {
		t.Run(name, func(t *testing.T) {
			linted, err := Lint(t.Context(), folder(t, "a.yaml", c.text), variables.Input{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, "not ") && len(linted.Problems) > 0 {
				t.Errorf("problems: %v", linted.Problems)
			}
			for _, p := range linted.All() {
				if strings.Contains(p.String(), c.want) {
					return
				}
			}
			t.Errorf("%q is not among %v", c.want, linted.All())
		})
	}
}
