package iam

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/internal/golden"
)

const template = "poolwright.cloudformation.yaml"

// pseudo are the placeholders that CloudFormation fills in by itself.
var pseudo = map[string]string{"Partition": "AWS::Partition", "Region": "AWS::Region", "Account": "AWS::AccountId"}

// resources are those that hold policies, by the policy's file.
var resources = map[string]string{"resources.json": "ResourcesPolicy", "deny.json": "DenyPolicy", "engine.json": "EnginePolicy", "report.json": "ReportPolicy", "boundary.json": "BoundaryPolicy"}

func TestTheTemplateHoldsThePolicies(t *testing.T) {
	if golden.Updating() {
		rewrite(t)
	}
	root := parsed(t)
	for file, resource := range resources {
		node := at(t, root, "Resources", resource, "Properties", "PolicyDocument")
		if node.Tag != "!Sub" {
			t.Fatalf("the PolicyDocument of %s has the tag %q", resource, node.Tag)
		}
		for _, v := range []Values{sandbox(), {
			Partition: "aws-cn", Region: "cn-north-1", Account: "111111111111", Cluster: "b", NodeRole: "c", Queue: "d",
			InstanceProfile: "e", PermissionsBoundary: "f", ControllerRole: "h", DiscoveryKey: "team/g", DiscoveryValue: "i", DiscoveryOld: "*",
		}} {
			want, err := v.document(file)
			if err != nil {
				t.Fatal(err)
			}
			got := sub(t, node.Value, v.withDefaults().fields())
			if diff := cmp.Diff(object(t, want), object(t, got)); diff != "" {
				t.Errorf("%s is not %s; run go test ./config/iam -update (-file +template):\n%s", resource, file, diff)
			}
		}
	}
}

func TestTheTemplateTakesWhatThePoliciesTake(t *testing.T) {
	root := parsed(t)
	for _, f := range forms {
		if pseudo[f.field] != "" {
			continue
		}
		// The template counts within the pattern.
		counted := strings.NewReplacer("]+", fmt.Sprintf("]{1,%d}", f.most), "]*", fmt.Sprintf("]{0,%d}", f.most-1)).Replace(f.form.String())
		if got := at(t, root, "Parameters", f.field, "AllowedPattern").Value; got != counted {
			t.Errorf("parameter %s takes %s, and Values %s", f.field, got, counted)
		}
	}
	if got, want := at(t, root, "Parameters", "DiscoveryKey", "Default").Value, sandbox().withDefaults().DiscoveryKey; got != want {
		t.Errorf("the default of DiscoveryKey is %s, not %s", got, want)
	}
}

func TestTheTemplateNamesOnlyWhatItHas(t *testing.T) {
	root := parsed(t)
	known := []string{"AWS::Partition", "AWS::Region", "AWS::AccountId"}
	for _, section := range []string{"Parameters", "Resources"} {
		for i := 0; i < len(at(t, root, section).Content); i += 2 {
			known = append(known, at(t, root, section).Content[i].Value)
		}
	}
	used := map[string]bool{}
	var walk func(*yaml.Node)
	walk = func(n *yaml.Node) {
		switch n.Tag {
		case "!Ref":
			used[n.Value] = true
		case "!GetAtt":
			name, _, _ := strings.Cut(n.Value, ".")
			used[name] = true
		case "!Sub":
			for _, m := range placeholder.FindAllString(n.Value, -1) {
				used[strings.Trim(m, "${}")] = true
			}
		}
		for _, c := range n.Content {
			walk(c)
		}
	}
	walk(root)
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !slices.Contains(known, name) {
			t.Errorf("the template uses %s, which it does not have", name)
		}
	}
	trusts := at(t, root, "Resources", "Role", "Properties", "AssumeRolePolicyDocument").Content
	for _, trust := range trusts[1:] {
		object(t, sub(t, trust.Value, map[string]string{
			"Partition": "aws", "Region": "r", "Account": "1", "Cluster": "c", "Issuer": "i", "Namespace": "n", "ServiceAccount": "s",
		}))
	}
}

func parsed(t *testing.T) *yaml.Node {
	t.Helper()
	raw, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

// at follows keys down.
func at(t *testing.T, n *yaml.Node, path ...string) *yaml.Node {
	t.Helper()
	for _, key := range path {
		i := slices.IndexFunc(n.Content, func(c *yaml.Node) bool { return c.Value == key })
		if i < 0 || i+1 >= len(n.Content) {
			t.Fatalf("the template has no %s", strings.Join(path, "."))
		}
		n = n.Content[i+1]
	}
	return n
}

// sub is Fn::Sub; a name without a value is an error.
func sub(t *testing.T, text string, values map[string]string) string {
	t.Helper()
	all := maps.Clone(values)
	for name, own := range pseudo {
		all[own] = values[name]
		delete(all, name) // CloudFormation does not know it by this name
	}
	out, err := fill(text, all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func object(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// rewrite puts the policies' files into the template.
func rewrite(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for file, resource := range resources {
		policy, err := documents.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body := string(policy)
		for name, own := range pseudo {
			body = strings.ReplaceAll(body, "${"+name+"}", "${"+own+"}")
		}
		body = "        " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n        ") + "\n"
		block := regexp.MustCompile(`(?m)(^  ` + resource + `:\n(?:    .*\n)*?      PolicyDocument: !Sub \|\n)(?:        .*\n)+`)
		if !block.MatchString(text) {
			t.Fatalf("the template has no PolicyDocument of %s", resource)
		}
		text = block.ReplaceAllStringFunc(text, func(old string) string { return block.FindStringSubmatch(old)[1] + body })
	}
	if err := os.WriteFile(template, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
