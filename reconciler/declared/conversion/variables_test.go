package conversion

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/state"
)

const variablePool = `# a pool
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: ${POOL}   # per cluster
spec:
  weight: ${WEIGHT}
  disruption:
    consolidationPolicy: ${POLICY}
    expireAfter: ${EXPIRE:=168h}
  template:
    spec:
      nodeClassRef: {name: "${CLASS}"}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: ["${KIND}"]}
`

func TestVariablesStayAsTheyAreWritten(t *testing.T) {
	done, err := Files(fstest.MapFS{"a.yaml": {Data: []byte(variablePool)}}, ".", Options{})
	if err != nil {
		t.Fatal(err)
	}
	after := string(done.Files["a.yaml"])
	for _, kept := range []string{"# a pool", "name: ${POOL}   # per cluster", "weight: ${WEIGHT}", "consolidationPolicy: ${POLICY}", "expireAfter: ${EXPIRE:=168h}", "${CLASS}", `"${KIND}"`, "apiVersion: karpenter.sh/v1\n"} {
		if !strings.Contains(after, kept) {
			t.Errorf("%q is not in what was written", kept)
		}
	}
	reported := ""
	for _, c := range done.Changes {
		if c.Grade == Manual {
			reported += c.String() + "\n"
		}
		if c.Blocks {
			t.Errorf("this blocks: %s", c)
		}
	}
	if want := "a.yaml:9: manual: NodePool/${POOL}: ${POLICY} is kept as it is written"; !strings.Contains(reported, want) {
		t.Errorf("what a person is told: %s", reported)
	}
	again, err := Files(fstest.MapFS{"a.yaml": {Data: []byte(after)}}, ".", Options{})
	if err != nil || len(again.Files) > 0 {
		t.Errorf("a second conversion changes %d files, %v", len(again.Files), err)
	}
}

const (
	alphaPool  = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec:\n  providerRef: {name: c}\n"
	alphaClass = "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: c}\nspec:\n  instanceProfile: r\n"
	alphaTerms = "  subnetSelector: {a: b}\n  securityGroupSelector: {a: b}\n"
	oldFamily  = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec:\n  role: r\n  subnetSelectorTerms: [{id: subnet-1}]\n"
)

func TestWhatHangsOnAVariableIsExactOrForAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		object   string
		blocks   bool
		reported string // of the report, empty for nothing that needs a person
		wrote    string // of the file
	}{
		"seconds, which take an s":               {alphaPool + "  ttlSecondsAfterEmpty: ${TTL}\n", false, "", "consolidateAfter: ${TTL}s\n"},
		"seconds with a default":                 {alphaPool + "  ttlSecondsAfterEmpty: ${TTL:=30}\n", false, "", "consolidateAfter: ${TTL:=30}s\n"},
		"seconds on one line":                    {alphaPool[:len(alphaPool)-len("  providerRef: {name: c}\n")-len("spec:\n")] + "spec: {providerRef: {name: c}, ttlSecondsAfterEmpty: \"${TTL}\"}\n", false, "", "consolidateAfter: '${TTL}s'"},
		"seconds until a node is too old":        {alphaPool + "  ttlSecondsUntilExpired: ${AGE}\n", false, "", "expireAfter: ${AGE}s\n"},
		"seconds of a function":                  {alphaPool + "  ttlSecondsAfterEmpty: ${TTL/m/}\n", true, "a.yaml:6: manual: Provisioner/p: spec.ttlSecondsAfterEmpty depends on ${TTL/m/}, whose value a conversion does not have; write the number, convert, and put the variable back into spec.disruption.consolidateAfter, with an s behind it", ""},
		"whether there is consolidation":         {alphaPool + "  consolidation: {enabled: \"${C}\"}\n", true, "spec.consolidation.enabled depends on ${C}", ""},
		"the key of a requirement":               {alphaPool + "  requirements: [{key: \"${K}\", operator: Exists}]\n", true, "the key of a requirement is ${K}", ""},
		"all requirements":                       {alphaPool + "  requirements: ${R}\n", true, "spec.requirements must be a list of mappings; ${R} is filled in too late for a conversion", ""},
		"ids":                                    {alphaClass + "  subnetSelector: {aws-ids: \"${S}\"}\n  securityGroupSelector: {a: b}\n", false, "a.yaml:6: manual: AWSNodeTemplate/c: subnetSelector: aws-ids is ${S}: where its value is a list with commas, write a term for each of them", "- id: ${S}\n"},
		"a tag":                                  {alphaClass + "  subnetSelector: {a: b}\n  securityGroupSelector: {Name: \"${S}\"}\n", false, "securityGroupSelector: Name is ${S}: where its value is a list", "${S}"},
		"owners":                                 {alphaClass + alphaTerms + "  amiSelector: {\"aws::name\": x, \"aws::owners\": \"${O}\"}\n", false, "amiSelector: aws::owners is ${O}: where its value is a list", "owner: ${O}\n"},
		"a tag of v1beta1":                       {oldFamily + "  amiFamily: AL2023\n  securityGroupSelectorTerms: [{tags: {Name: \"${S}\"}}]\n", false, "a.yaml:8: manual: EC2NodeClass/c: securityGroupSelectorTerms: Name is ${S}: where its value is a list", "{Name: \"${S}\"}"},
		"a cluster's name, which has no comma":   {oldFamily + "  amiFamily: AL2023\n  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: \"${S}\"}}]\n", false, "", "\"${S}\""},
		"a comma within an expression":           {oldFamily + "  amiFamily: AL2023\n  securityGroupSelectorTerms: [{tags: {Name: \"${S:=a,b}\"}}]\n", false, "Name is ${S:=a,b}: where", "{Name: \"${S:=a,b}\"}"},
		"a family, of which an alias is made":    {oldFamily + "  amiFamily: ${F}\n  securityGroupSelectorTerms: [{id: sg-1}]\n", true, "amiFamily is ${F}, and what becomes of it depends on its value", ""},
		"a family beside terms":                  {oldFamily + "  amiFamily: ${F}\n  amiSelectorTerms: [{id: ami-1}]\n  securityGroupSelectorTerms: [{id: sg-1}]\n", false, "amiFamily ${F} is kept as it is written", "amiFamily: ${F}\n"},
		"and ids that are none are blocked, too": {alphaClass + "  subnetSelector: {aws-ids: \" ,\"}\n  securityGroupSelector: {a: b}\n", true, "spec.subnetSelector: aws-ids is empty", ""},
	} {
		t.Run(name, func(t *testing.T) {
			done, err := Files(fstest.MapFS{"a.yaml": {Data: []byte(c.object)}}, ".", Options{})
			if err != nil {
				t.Fatal(err)
			}
			reported := ""
			for _, change := range done.Changes {
				if change.Grade == Manual {
					reported += change.String() + "\n"
				}
			}
			if done.Blocked() != c.blocks || !strings.Contains(reported, c.reported) || c.reported == "" && reported != "" {
				t.Errorf("blocked: %v; a person is told: %s", done.Blocked(), reported)
			}
			if after := string(done.Files["a.yaml"]); !strings.Contains(after, c.wrote) || c.blocks && after != "" {
				t.Errorf("written:\n%s", after)
			}
		})
	}
}

func TestADraftReportsNothingOfWhatDependsOnAVariable(t *testing.T) {
	objects := []state.Item{
		draftOf("karpenter.sh", "Provisioner", "v1alpha5", map[string]any{
			"providerRef": map[string]any{"name": "c"}, "ttlSecondsAfterEmpty": "${TTL/m/}", "consolidation": map[string]any{"enabled": "${C}"},
			"requirements": []any{map[string]any{"key": "${K}", "operator": "Exists"}},
		}),
		draftOf("karpenter.k8s.aws", "EC2NodeClass", "v1beta1", map[string]any{
			"role": "r", "amiFamily": "${F}", "subnetSelectorTerms": []any{map[string]any{"tags": map[string]any{"Name": "${S}"}}},
		}),
	}
	kept, changes, problems, err := Objects(objects, Options{UnresolvedVariables: true})
	if err != nil || len(problems) > 0 || len(kept) != 2 {
		t.Fatalf("%d are kept: %v, %v", len(kept), problems, err)
	}
	for _, c := range changes {
		if c.Grade == Manual {
			t.Errorf("told: %s", c)
		}
	}
	if _, _, problems, err = Objects(objects, Options{}); err != nil || len(problems) != 3 {
		t.Errorf("what is no draft: %v, %v", problems, err)
	}
}

func draftOf(group, kind, version string, spec map[string]any) state.Item {
	return state.Item{
		Key: state.Key{Target: "kubernetes", Group: group, Kind: kind, Name: "x"}, Version: version, Origin: state.Origin{File: kind + ".yaml", Line: 1},
		Object: map[string]any{"apiVersion": group + "/" + version, "kind": kind, "metadata": map[string]any{"name": "x"}, "spec": spec},
	}
}
