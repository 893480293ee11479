package substitute_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
)

var key = []byte("a key of thirty-two random bytes")

// values has plain variables by name.
func values(t testing.TB, plain map[string]string, more ...substitute.Source) substitute.Values {
	t.Helper()
	v, err := substitute.NewValues(fluxexpr.Parse, key, append(more, substitute.Public("spec.substitute", plain))...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// read parses manifests, and returns what finds their documents again.
func read(t testing.TB, text string) ([]manifest.Object, func(state.Origin) (manifest.Document, bool)) {
	t.Helper()
	docs, problems, err := manifest.NewTree(nil, manifest.Limits{}).Parse("a.yaml", []byte(text))
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	var objects []manifest.Object
	for _, d := range docs {
		o, problems := d.Objects()
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		objects = append(objects, o...)
	}
	return objects, func(at state.Origin) (manifest.Document, bool) {
		return manifest.Around(docs, at.Line)
	}
}

// apply fills values into one object, without a problem.
func apply(t testing.TB, text string, v substitute.Values, o substitute.Options) map[string]any {
	t.Helper()
	objects, documents := read(t, text)
	o.Documents = documents
	out, problems, err := substitute.Apply(objects, v, o)
	if err != nil || len(problems) > 0 || len(out) != 1 {
		t.Fatalf("%d objects, %v, %v", len(out), problems, err)
	}
	return out[0].Object
}

// problems are those of filling values in, one a line.
func problems(t testing.TB, text string, v substitute.Values, o substitute.Options) string {
	t.Helper()
	objects, documents := read(t, text)
	o.Documents = documents
	_, found, err := substitute.Apply(objects, v, o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, p := range found {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	objects, _ := read(t, text)
	return objects[0].Object
}

// configMap is an object with one field under data.
func configMap(entry string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n" + indent(entry)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

func TestVariablesAreFilledInAsFluxDocumentsIt(t *testing.T) {
	v := values(t, map[string]string{
		"cluster_env": "prod", "cluster_region": "eu-central-1", "id": "123", "enabled": "true", "quote": `"`, "empty": "",
		"list": "[a, b]", "map": "{a: 1}", "lines": "one\ntwo\n", "windows": "one\r\n", "dollar": "${cluster_env}", "comment": "a #b", "mixed": "aBcabc",
	})
	for _, c := range []struct{ name, in, want string }{
		{"a variable alone", "a: ${cluster_env}", "a: prod"},
		{"a quoted variable", `a: "${cluster_region}"`, "a: eu-central-1"},
		{"a default that is not needed", "a: ${cluster_env:=dev}", "a: prod"},
		{"a default that is needed", "a: ${other:=dev}", "a: dev"},
		{"the other way to write a default", "a: ${other:-dev}", "a: dev"},
		{"a default for an empty value", "a: ${empty:=dev}", "a: dev"},
		{"a default that is a variable", "a: ${other:=${cluster_env}}", "a: prod"},
		{"two variables in one text", "a: ${cluster_env}-${cluster_region}/x", "a: prod-eu-central-1/x"},
		{"a position", "a: ${cluster_region:3}", "a: central-1"},
		{"a position and a length", "a: ${cluster_region:0:2}", "a: eu"},
		{"a replaced part", "a: ${cluster_region/central/west}", "a: eu-west-1"},
		{"all replaced parts", "a: ${cluster_region//-/_}", "a: eu_central_1"},
		{"a replaced start", "a: ${cluster_region/#eu/us}", "a: us-central-1"},
		{"a replaced end", "a: ${cluster_region/%1/2}", "a: eu-central-2"},
		{"a cut start", "a: ${cluster_region#*-}", "a: central-1"},
		{"a cut end", "a: ${cluster_region%-*}", "a: eu-central"},
		{"capitals", "a: ${cluster_env^^}", "a: PROD"},
		{"a first capital", "a: ${cluster_env^}", "a: Prod"},
		{"small letters", "a: ${mixed,,}", "a: abcabc"},
		{"a length", "a: ${#cluster_env}", "a: 4"},
		{"a variable without a value", "a: x${other}", "a: x"},
		{"a field of nothing", "a: ${other}", "a: null"},
		{"a number", "a: ${id}", "a: 123"},
		{"a number that was quoted in the file", `a: "${id}"`, "a: 123"},
		{"a number between variables that are quotes", "a: ${quote}${id}${quote}", `a: "123"`},
		{"a boolean", "a: ${enabled}", "a: true"},
		{"a boolean within text", "a: x-${enabled}", "a: x-true"},
		{"a list", "a: ${list}", "a: [a, b]"},
		{"a map", "a: ${map}", "a: {a: 1}"},
		{"a value of several lines", "a: ${lines}", "a: onetwo"},
		{"a value with a Windows line end", "a: ${windows}", "a: one"},
		{"a value of the form of a variable", "a: ${dollar}", "a: ${cluster_env}"},
		{"a value with a comment", "a: ${comment}", "a: a"},
		{"a key", "kubernetes.io/cluster/${cluster_env}: owned", "kubernetes.io/cluster/prod: owned"},
		{"an escaped variable", "a: $${cluster_env}", "a: ${cluster_env}"},
		{"an escaped variable beside another", "a: $${x} ${cluster_env}", "a: ${x} prod"},
		{"two dollars", "a: echo $$", "a: echo $"},
		{"a shell's variable", "a: echo $HOME $(date)", "a: echo $HOME $(date)"},
		{"a template of another tool", "a: '{{ .Values.x }} ${cluster_env}'", "a: '{{ .Values.x }} prod'"},
		{"a script", "a: |\n  #!/bin/sh\n  echo ${cluster_env} $1\n  exit 0\n", "a: |\n  #!/bin/sh\n  echo prod $1\n  exit 0\n"},
		{"a default of several lines", "a: |\n  x\n  ${other:=one\n  two}\n", "a: |\n  x\n  one\n  two\n"},
		{"a text as long as YAML would fold", "a: " + strings.Repeat("word ", 60) + "${cluster_env}", "a: " + strings.Repeat("word ", 60) + "prod"},
		{"a text that needs quotes", `a: "x: ${cluster_env}"`, `a: "x: prod"`},
		{"letters of other alphabets", "größe: ${cluster_env} größer ${id}", "größe: prod größer 123"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := apply(t, configMap(c.in), v, substitute.Options{})
			if d := cmp.Diff(object(t, configMap(c.want)), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestObjectsAreLeftAlone(t *testing.T) {
	plain := values(t, map[string]string{"a": "x"})
	none := values(t, nil)
	in := func(metadata string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n" + metadata + "data: {a: '${a:=d}', b: $$}\n"
	}
	on := "  %s: {kustomize.toolkit.fluxcd.io/substitute: %s}\n"
	for _, c := range []struct {
		name    string
		text    string
		values  substitute.Values
		options substitute.Options
		alone   bool
	}{
		{"by a label", in(fmt.Sprintf(on, "labels", "disabled")), plain, substitute.Options{}, true},
		{"by an annotation", in(fmt.Sprintf(on, "annotations", "disabled")), plain, substitute.Options{}, true},
		{"by no other value of it", in(fmt.Sprintf(on, "annotations", "enabled")), plain, substitute.Options{}, false},
		{"where no variable has a value", in(""), none, substitute.Options{}, true},
		{"by the zero values", in(""), substitute.Values{}, substitute.Options{Always: true}, true},
		{"but not where it is always to be done", in(""), none, substitute.Options{Always: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := object(t, c.text)
			got := apply(t, c.text, c.values, c.options)
			if alone := cmp.Equal(before, got); alone != c.alone {
				t.Error(cmp.Diff(before, got))
			}
		})
	}
}

func TestLaterSourcesWin(t *testing.T) {
	v, err := substitute.NewValues(fluxexpr.Parse, key,
		substitute.Public("ConfigMap ns/one", map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"}),
		substitute.Secret("Secret ns/two", map[string][]byte{"b": []byte("2"), "c": []byte("2")}),
		substitute.Public("ConfigMap ns/three", map[string]string{"c": "3"}),
		substitute.Public("spec.substitute", map[string]string{"d": "4"}))
	if err != nil {
		t.Fatal(err)
	}
	got := apply(t, configMap("a: x${a}\nc: x${c}\nd: x${d}"), v, substitute.Options{})
	if d := cmp.Diff(map[string]any{"a": "x1", "c": "x3", "d": "x4"}, got["data"]); d != "" {
		t.Error(d)
	}
	if p := problems(t, configMap("b: ${b}"), v, substitute.Options{}); !strings.Contains(p, "Secret ns/two") {
		t.Error("the value of the Secret did not win: ", p)
	}
}

func TestProblemsNameThePlaceTheVariableAndTheRemedy(t *testing.T) {
	v := values(t, map[string]string{"CLUSTER_NAME": "dev", "return": "a\rb: c", "colon": "a: b", "anchor": "*x", "one": "k", "two": "k"},
		substitute.Secret("Secret poolwright-system/vars", map[string][]byte{"TOKEN": []byte("hunter2-hunter2")}))
	strict := substitute.Options{Strict: true}
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"a variable without a value", "a: b\nc: ${CLUSTER_NAM}", []string{"a.yaml:7: ", "${CLUSTER_NAM} has no value", "spec.substitute", "${CLUSTER_NAM:=value}", "$${CLUSTER_NAM}", `did you mean "CLUSTER_NAME"?`}},
		{"a variable without a value in a function", "a: ${X^^}", []string{"a.yaml:6: ${X} has no value"}},
		{"a variable without a value in a default", "a: ${X:=${Y}}", []string{"a.yaml:6: ${Y} has no value"}},
		{"a variable in a list", "a: {b: [x, '${X}']}", []string{"a.yaml:6: ${X}"}},
		{"a variable in a line of a script", "a: |\n  #!/bin/sh\n  set -e\n  echo ${X}\n", []string{"a.yaml:9: ${X}"}},
		{"a variable of CloudFormation", "a: ${AWS::Region}", []string{"a.yaml:6: ${AWS…} starts an expression that cannot be filled in", "$${", "kustomize.toolkit.fluxcd.io/substitute: disabled"}},
		{"an expression that does not end", "a: ${CLUSTER_NAME", []string{"a.yaml:6: ${CLUSTER_NAME…} starts"}},
		{"an expression that ends in another field", "a: ${X:=foo\nb: bar}", []string{"a.yaml:6: ${X…} starts", "closed in the field where they start"}},
		{"an expression that is a key and its value", "${CLUSTER_NAME: 1}", []string{"a.yaml:6: ${CLUSTER_NAME…} starts"}},
		{"no name", "a: ${}", []string{"a.yaml:6: ${} starts"}},
		{"a text cut out of the largest integer", "a: ${CLUSTER_NAME:1:9223372036854775807}", []string{"a.yaml:6: ${CLUSTER_NAME…} starts"}},
		{"two problems", "a: ${X}\nb: ${Y}", []string{"a.yaml:6: ${X}", "a.yaml:7: ${Y}"}},
		{"a value with a carriage return", "a: ${return}", []string{"a.yaml:6: ${return} comes to text with a line break", "return in spec.substitute"}},
		{"a value with a colon", "a: b\nc: ${colon}", []string{"a.yaml:7: with ${colon} filled in, this is not valid YAML", "${quote}"}},
		{"a value that is an alias", "a: ${anchor}", []string{"with ${anchor} filled in"}},
		{"a key that comes out twice", "${one}: 1\n${two}: 2", []string{`a.yaml:7: with ${one}, ${two} filled in, key "k" is given twice; give the variables different values`}},
		{"a secret in another object", "a: x${TOKEN}", []string{"a.yaml:6: the value of ${TOKEN} comes from Secret poolwright-system/vars, and may stand only in an entry of data or stringData of a Secret"}},
		{"a secret's length", "a: ${#TOKEN}", []string{"the value of ${TOKEN}"}},
		{"a secret as a default", "a: ${CLUSTER_NAME:=${TOKEN}}", []string{"the value of ${TOKEN}"}},
		{"a secret in a key", "x${TOKEN}: a", []string{"the value of ${TOKEN}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, configMap(c.in), v, strict)
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("%q is not in\n%s", w, got)
				}
			}
			if strings.Contains(got, "hunter2") {
				t.Error("the value of a Secret is in a problem: ", got)
			}
		})
	}
}

func TestWhatASecretHoldsIsInNoProblem(t *testing.T) {
	v := values(t, map[string]string{"colon": "a: b", "one": "swordfish", "two": "swordfish", "quote": `"`, "anchor": "*swordfish", "tag": "!!int"})
	for _, in := range []string{
		"a: swordfish ${colon}", "${one}: 1\n${two}: 2", "a: ${anchor}", "a: ${tag} swordfish", "a: swordfish${", "a: swordfish${X:=swordfish}${Y}",
		"a: ${X/swordfish}", "a: ${quote}swordfish\nb: swordfish${quote}", "a: ${X:swordfish",
	} {
		for _, head := range []string{"apiVersion: v1\nkind: Secret\n", "apiVersion: v1\nkind: ${K:=Secret}\n"} {
			got := problems(t, head+"metadata: {name: s}\nstringData:\n"+indent(in), v, substitute.Options{Strict: true})
			if got == "" || strings.Contains(got, "swordfish") {
				t.Errorf("%s: %q", in, got)
			}
		}
	}
}

func TestAnObjectWithAProblemDoesNotStopTheOthers(t *testing.T) {
	objects, _ := read(t, configMap("a: ${X}")+"---\n"+configMap("a: ${Y}"))
	out, found, err := substitute.Apply(objects, values(t, map[string]string{"Y": "1"}), substitute.Options{Strict: true})
	if err != nil || len(out) != 1 || len(found) != 1 || found[0].Origin != (state.Origin{File: "a.yaml", Line: 1}) {
		t.Error(out, found, err)
	}
}

func TestNamesThatFluxRefusesAreRefused(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "_": true, "CLUSTER_NAME": true, "a1": true,
		"1a": false, "a-b": false, "ca.crt": false, "": false, "é": false,
	} {
		_, err := substitute.NewValues(fluxexpr.Parse, key, substitute.Secret("Secret ns/s", map[string][]byte{name: []byte("hunter2")}))
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			continue
		}
		if class, reason, _ := state.Classify(err); class != state.Stalled || reason != "InvalidVariable" || !strings.Contains(err.Error(), "Secret ns/s") || strings.Contains(err.Error(), "hunter2") {
			t.Error(class, reason, err)
		}
	}
}

func TestInputIsNotChanged(t *testing.T) {
	objects, _ := read(t, configMap("a: ${a}\nb: {c: ['${a}']}"))
	before, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := substitute.Apply(objects, values(t, map[string]string{"a": "1"}), substitute.Options{}); err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(objects); string(after) != string(before) {
		t.Errorf("%s became %s", before, after)
	}
}

func yamlOf(t testing.TB, v any) string {
	t.Helper()
	b, err := sigsyaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAValueThatEmptiesWhatAnObjectIsKnownByIsRefused(t *testing.T) {
	v := values(t, map[string]string{"EMPTY": "", "TILDE": "~", "NS": "team", "QUOTE": `"`})
	for name, tt := range map[string]struct{ text, want string }{
		"the namespace":                {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: ${EMPTY}", "a.yaml:5: with ${EMPTY} filled in, metadata.namespace is empty"},
		"the namespace, quoted":        {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: '${QUOTE}${EMPTY}${QUOTE}'}", "metadata.namespace is empty"},
		"the namespace, null":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: '${TILDE}'}", "metadata.namespace is empty"},
		"the name":                     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '${EMPTY}'}", "metadata.name is empty"},
		"the kind":                     {"apiVersion: v1\nkind: '${EMPTY}'\nmetadata: {name: a}", "kind is empty"},
		"the version":                  {"apiVersion: '${EMPTY}'\nkind: ConfigMap\nmetadata: {name: a}", "apiVersion is empty"},
		"a value that is not empty":    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: '${NS}'}", ""},
		"a part that is empty":         {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: '${NS}${EMPTY}'}", ""},
		"a namespace that Git empties": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: '', labels: {a: '${NS}'}}", ""},
	} {
		objects, documents := read(t, tt.text)
		out, problems, err := substitute.Apply(objects, v, substitute.Options{Strict: true, Documents: documents})
		switch {
		case err != nil, tt.want == "" && len(problems) > 0, tt.want != "" && (len(out) > 0 || len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want)):
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
}
