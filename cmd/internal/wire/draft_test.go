package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/given"
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

func TestLintJudgesNoFieldThatHoldsAVariableWithoutAValue(t *testing.T) {
	linted, err := Lint(t.Context(), folder(t, "a.yaml", variablePool), given.Variables{})
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
		want = append(want, "a.yaml:"+line+": warning: ${"+name+"} has no value here, and fields that hold it are not judged; give it one with --substitute "+name+"=VALUE, or name the Sync's manifest with --sync-file")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLintJudgesWhatValuesMakeOfAnObject(t *testing.T) {
	values := map[string]string{"POOL": "gpu", "WEIGHT": "500", "KIND": "spot", "CLUSTER_NAME": "dev", "ALIAS": "al2023@v20250101", "SPACE": "default"}
	linted, err := Lint(t.Context(), folder(t, "a.yaml", variablePool), given.Variables{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range linted.Mistakes {
		got = append(got, strings.Join(strings.Fields(p.String())[:4], " "))
	}
	want := []string{"a.yaml:6: NodePool.karpenter.sh/gpu: spec.weight: 500:", "a.yaml:26: ${TOKEN} has no"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%v\n%s", linted.Mistakes, diff)
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
  substituteFrom: [{kind: SSMParameter, name: /aws/service/x, as: AMI}]
`

// What a parameter is, nobody knows without AWS; all other values are judged.
func TestParametersAreNotJudgedWhereNobodyReadsThem(t *testing.T) {
	const warned = "a.yaml:7: warning: ${AMI} is the value of SSM parameter /aws/service/x, which is not read here, and fields that hold it are not judged; give it one with --substitute AMI=VALUE"
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
			variables := given.Variables{Values: c.values, SyncFile: filepath.Join(folder(t, "sync.yaml", parameterSync+c.status), "sync.yaml")}
			dir := folder(t, "a.yaml", parameterClass)
			linted, err := Lint(t.Context(), dir, variables)
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
			judged := draft{unread: unread{"AMI": "x"}}.judgeableIn(os.DirFS(dir), linted.Mistakes)
			if diff := cmp.Diff(1, len(judged)); diff != "" {
				t.Errorf("%v\n%s", judged, diff)
			}
		})
	}
}
