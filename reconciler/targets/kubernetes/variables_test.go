package kubernetes_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

const tokenFromVariable = `
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: $NS}
stringData: {header: "Bearer ${TOKEN}"}
data: {raw: "${ENCODED}"}
`

// filled is what is declared with variables of a Secret.
func (b *bench) filled(text string, values substitute.Values) state.Set {
	b.Helper()
	var objects []manifest.Object
	for _, item := range b.declare(text).Items() {
		objects = append(objects, manifest.Object{Item: item})
	}
	objects, problems, err := substitute.Apply(objects, values, substitute.Options{Strict: true})
	if err != nil || len(problems) > 0 {
		b.Fatal(problems, err)
	}
	var items []state.Item
	for _, o := range objects {
		item, err := o.Checked()
		if err != nil {
			b.Fatal(err)
		}
		items = append(items, item)
	}
	return state.NewSet(items...)
}

func TestASecretsVariableIsAppliedAndNeverShown(t *testing.T) {
	var values substitute.Values
	b := newBench(t, func(c *kubernetes.Config) {
		c.Reveal = func(object map[string]any) (map[string]any, error) { return substitute.Reveal(object, values) }
	})
	variables := func(token string) {
		key, err := b.target.Key(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		values, err = substitute.NewValues(fluxexpr.Parse, key, substitute.Secret("Secret ns/vars", map[string][]byte{
			"TOKEN": []byte(token), "ENCODED": []byte(base64.StdEncoding.EncodeToString([]byte(token + "-raw"))),
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	live := func() string {
		b.Helper()
		data, _ := b.get("v1", "Secret", "token").Object["data"].(map[string]any)
		header, _ := base64.StdEncoding.DecodeString(fmt.Sprint(data["header"]))
		raw, _ := base64.StdEncoding.DecodeString(fmt.Sprint(data["raw"]))
		return string(header) + ", " + string(raw)
	}

	variables("hunter2")
	got := fmt.Sprintf("%+v", b.reconcile(b.filled(tokenFromVariable, values)))
	if got := live(); got != "Bearer hunter2, hunter2-raw" {
		t.Fatalf("applied: %s", got)
	}
	b.converged(b.filled(tokenFromVariable, values))

	// A process that starts anew writes nothing.
	b.restart()
	variables("hunter2")
	b.converged(b.filled(tokenFromVariable, values))

	variables("rotated1")
	p := b.reconcile(b.filled(tokenFromVariable, values))
	digests := regexp.MustCompile("masked:[0-9a-f]{32}")
	lines := digests.ReplaceAllString(strings.Join(b.lines(p), "\n"), "masked")
	if diff := cmp.Diff("update Secret/$NS/token\n  data.header: masked -> masked\n  data.raw: masked -> masked", lines); diff != "" {
		t.Error(diff)
	}
	if got := live(); got != "Bearer rotated1, rotated1-raw" {
		t.Errorf("applied after the rotation: %s", got)
	}
	got += fmt.Sprintf("%+v %+v", p, b.shards())
	marks := fmt.Sprint(b.filled(tokenFromVariable, values).Items()[0].Object["stringData"])
	for _, secret := range []string{"hunter2", "rotated1", base64.StdEncoding.EncodeToString([]byte("Bearer hunter2")), strings.Fields(marks)[1][:20]} {
		if strings.Contains(got, secret) {
			t.Errorf("%q is shown", secret)
		}
	}
}

func TestASecretsVariableThatIsNoBase64IsAProblemOfItsSecretAlone(t *testing.T) {
	values, err := substitute.NewValues(fluxexpr.Parse, []byte("a key of 16 bytes"), substitute.Secret("Secret ns/vars", map[string][]byte{"ENCODED": []byte("p%ss")}))
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(c *kubernetes.Config) {
		c.Reveal = func(object map[string]any) (map[string]any, error) { return substitute.Reveal(object, values) }
	})
	got := b.problems(b.filled("apiVersion: v1\nkind: Secret\nmetadata: {name: token, namespace: $NS}\ndata: {raw: \"${ENCODED}\"}\n", values))
	want := []string{"file0.yaml:1: Secret/$NS/token: filling in values of Secrets: an entry of data is not base64 once ${ENCODED} is filled in; put it into stringData, which takes text"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever a stranger's revision makes of a Secret's variable, a review says the same of
// it for any two values.
func TestAReviewIsTheSameWhateverTheValueOfASecretIs(t *testing.T) {
	const base = "apiVersion: v1\nkind: Secret\nmetadata: {name: token, namespace: $NS}\nstringData: {a: \"${TOKEN}\"}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: known, namespace: $NS}\nstringData: {a: h}\n"
	head := func(text string) string { return strings.Replace(base, "stringData: {a: h}", text, 1) }
	heads := map[string]string{
		"the same":                      base,
		"a pattern that must be base64": head(`data: {a: "${TOKEN##hu*}"}`),
		"the whole as base64":           head(`data: {a: "${TOKEN}"}`),
		"a part against a known value":  head(`stringData: {a: "${TOKEN:0:1}"}`),
		"a length beyond the limit":     head(`stringData: {a: "${MANY//a/${TOKEN}}"}`),
		"a literal":                     strings.Replace(base, `"${TOKEN}"`, "hunter2", 1),
		"a literal as base64":           strings.Replace(base, `stringData: {a: "${TOKEN}"}`, "data: {a: aHVudGVyMg==}", 1),
		"an expression of equal value":  strings.Replace(base, `"${TOKEN}"`, `"${TOKEN/x/x}"`, 1),
		"another Secret":                base + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: other, namespace: $NS}\ndata: {a: \"${TOKEN}\"}\n",
	}
	digests := regexp.MustCompile("masked:[0-9a-f]{32}")
	reported := func(token string) map[string][]string {
		var values substitute.Values
		review := false
		b := newBench(t, func(c *kubernetes.Config) {
			c.Preview = review
			c.Reveal = func(object map[string]any) (map[string]any, error) {
				if review {
					t.Errorf("%v is revealed to a review", object["metadata"])
				}
				return substitute.Reveal(object, values)
			}
		})
		key, err := b.target.Key(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		values, err = substitute.NewValues(fluxexpr.Parse, key, substitute.Secret("Secret ns/vars", map[string][]byte{"TOKEN": []byte(token)}),
			substitute.Public("spec.substitute", map[string]string{"MANY": strings.Repeat("a", 60_000)}))
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := values.Encode()
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := substitute.Decode(fluxexpr.Parse, sealed)
		if err != nil {
			t.Fatal(err)
		}
		b.reconcile(b.filled(base, values))
		review = true
		out := map[string][]string{}
		for name, text := range heads {
			got := b.propose(b.filled(base, foreign), b.filled(text, foreign))
			lines := append(b.warnings(got.Proposed), b.warnings(got.Drift)...)
			for _, p := range got.Problems {
				lines = append(lines, p.String())
			}
			for i, line := range lines {
				lines[i] = digests.ReplaceAllString(line, "masked")
			}
			out[name] = lines
		}
		return out
	}
	short := reported("hunter2")
	for _, other := range []string{"aaaa", strings.Repeat("x", 4000)} {
		if diff := cmp.Diff(short, reported(other)); diff != "" {
			t.Error(diff)
		}
	}
	// It says something, nevertheless.
	want := map[string][]string{
		"the same":            nil,
		"a literal":           {"update Secret/$NS/token", "  data.a: masked -> masked"},
		"the whole as base64": {"update Secret/$NS/known", "  data.a: masked -> masked"},
	}
	for name, lines := range want {
		if diff := cmp.Diff(lines, short[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
