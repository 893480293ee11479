package substitute_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
)

const token = "hunter2 #\"'\\: {x}"

func secretValues(t testing.TB, key []byte, token string) substitute.Values {
	t.Helper()
	v, err := substitute.NewValues(fluxexpr.Parse, key,
		substitute.Secret("Secret ns/vars", map[string][]byte{"TOKEN": []byte(token + "\n"), "B64": []byte(base64.StdEncoding.EncodeToString([]byte(token))), "EMPTY": nil}),
		substitute.Public("spec.substitute", map[string]string{"user": "admin", "quote": `"`, "kind": "Secret"}))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func secret(fields string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n" + fields
}

func TestValuesOfSecretsComeInWhenTheyAreRevealed(t *testing.T) {
	v := secretValues(t, key, token)
	for _, c := range []struct{ name, field, in, want string }{
		{"a whole entry", "stringData", "a: ${TOKEN}", token},
		{"a quoted entry", "stringData", `a: "${TOKEN}"`, token},
		{"an entry between variables that are quotes", "stringData", "a: ${quote}${TOKEN}${quote}", token},
		{"a part of an entry", "stringData", "a: https://${user}:${TOKEN}@host", "https://admin:" + token + "@host"},
		{"two in one entry", "stringData", "a: ${TOKEN}${B64}", token + base64.StdEncoding.EncodeToString([]byte(token))},
		{"a line of a file", "stringData", "a: |\n  user: ${user}\n  password: ${TOKEN}\n", "user: admin\npassword: " + token + "\n"},
		{"a part of the value", "stringData", "a: ${TOKEN:0:6}", token[:6]},
		{"a length, which is text here", "stringData", "a: ${#TOKEN}", fmt.Sprint(len(token))},
		{"a value with a default", "stringData", "a: ${TOKEN:=none}", token},
		{"an empty value with a default", "stringData", "a: ${EMPTY:=none}", "none"},
		{"a default of a variable without value", "stringData", "a: ${X:=${TOKEN}}", token},
		{"base64 as data", "data", "a: ${B64}", base64.StdEncoding.EncodeToString([]byte(token))},
	} {
		t.Run(c.name, func(t *testing.T) {
			desired := apply(t, secret(c.field+":\n"+indent(c.in)), v, substitute.Options{Strict: true})
			if text := yamlOf(t, desired); strings.Contains(text, token[:7]) || !strings.Contains(text, "poolwrightsealed") {
				t.Fatal("the value is there before it is revealed: ", text)
			}
			before, _ := json.Marshal(desired)
			got, err := substitute.Reveal(desired, v)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(map[string]any{"a": c.want}, got[c.field]); d != "" {
				t.Error(d)
			}
			if after, _ := json.Marshal(desired); string(after) != string(before) {
				t.Error("revealing changed the object itself")
			}
		})
	}
}

func TestAMarkInDataIsBase64(t *testing.T) {
	v := secretValues(t, key, token)
	for _, in := range []string{"${B64}", "${B64:=a}", "${B64:=ab}", "${B64:=abc}"} {
		data := apply(t, secret("data: {a: '"+in+"'}"), v, substitute.Options{})["data"].(map[string]any)
		if _, err := base64.StdEncoding.DecodeString(data["a"].(string)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestMarksChangeExactlyWhenWhatTheyStandForDoes(t *testing.T) {
	desired := func(v substitute.Values, in string) string {
		return yamlOf(t, apply(t, secret("stringData: {a: '"+in+"'}"), v, substitute.Options{}))
	}
	v := secretValues(t, key, token)
	const in = "${TOKEN}"
	base := desired(v, in)
	for _, c := range []struct {
		name string
		got  string
		same bool
	}{
		{"the same again", desired(secretValues(t, key, token), in), true},
		{"another value", desired(secretValues(t, key, token+"x"), in), false},
		{"another key", desired(secretValues(t, append([]byte("x"), key...), token), in), false},
		{"another variable of another value", desired(v, "${B64}"), false},
		{"another expression", desired(v, "${TOKEN:0:3}"), false},
	} {
		if same := c.got == base; same != c.same {
			t.Errorf("%s: same %v", c.name, same)
		}
	}
	if a, b := v.Digest(), secretValues(t, key, token+"x").Digest(); a == b || a != secretValues(t, key, token).Digest() {
		t.Error("digests: ", a, b)
	}
}

func TestAProcessWithoutTheSecretsMakesTheSameObjectsAndRevealsNothing(t *testing.T) {
	v := secretValues(t, key, token)
	data, err := v.Encode()
	if err != nil || strings.Contains(string(data), "hunter2") || strings.Contains(string(data), base64.StdEncoding.EncodeToString([]byte(token))) {
		t.Fatalf("%s, %v", data, err)
	}
	child, err := substitute.Decode(fluxexpr.Parse, data)
	if err != nil {
		t.Fatal(err)
	}
	text := secret("stringData: {a: '${TOKEN}', b: '${TOKEN:0:3}${user}', c: '${user/a/${TOKEN}}'}")
	here, there := apply(t, text, v, substitute.Options{Strict: true}), apply(t, text, child, substitute.Options{Strict: true})
	if d := cmp.Diff(here, there); d != "" {
		t.Error(d)
	}
	if _, err := substitute.Reveal(there, child); err == nil || !strings.Contains(err.Error(), "${TOKEN}") {
		t.Error("the child revealed a value: ", err)
	}
	if got, err := substitute.Reveal(there, v); err != nil || got["stringData"].(map[string]any)["a"] != token {
		t.Error("the parent cannot reveal what the child made: ", err)
	}
	if child.Digest() != v.Digest() {
		t.Error("the digests differ")
	}
	if _, err := substitute.Decode(fluxexpr.Parse, []byte(`[{"name":"a-b"}]`)); err == nil {
		t.Error("a wrong name was restored")
	}
}

func TestMarksGoNowhereButIntoTheDataOfASecret(t *testing.T) {
	v := secretValues(t, key, token)
	for _, c := range []struct{ name, text string }{
		{"an annotation of a Secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {a: '${TOKEN}'}}\n"},
		{"the name of a Secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: 's${TOKEN}'}\n"},
		{"a key of data", secret("data: {'${TOKEN}': YQ==}")},
		{"all of data", secret("stringData: ${TOKEN}")},
		{"a value below an entry", secret("stringData: {a: {b: '${TOKEN}'}}")},
		{"another kind", configMap("a: ${TOKEN}")},
		{"a Secret of another group", strings.Replace(secret("stringData: {a: '${TOKEN}'}"), "v1", "example.com/v1", 1)},
		{"user data", "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  userData: |\n    #!/bin/sh\n    echo ${TOKEN}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, c.text, v, substitute.Options{})
			if !strings.Contains(got, "the value of ${TOKEN} comes from Secret ns/vars") || strings.Contains(got, "hunter2") {
				t.Errorf("problems: %q", got)
			}
		})
	}
}

func TestMarksCannotBeForged(t *testing.T) {
	v := secretValues(t, key, token)
	real := apply(t, secret("stringData: {a: '${TOKEN}'}"), v, substitute.Options{})["stringData"].(map[string]any)["a"].(string)
	other := apply(t, secret("stringData: {a: '${TOKEN}'}"), secretValues(t, []byte(strings.Repeat("k", 32)), token), substitute.Options{})["stringData"].(map[string]any)["a"].(string)
	for name, text := range map[string]string{
		"a placeholder that was used before":             secret("stringData: {a: '" + real + "'}"),
		"a placeholder of another key":                   secret("stringData: {a: '" + other + "'}"),
		"a placeholder in an object without variables":   configMap("a: " + real),
		"a placeholder in two parts":                     secret("stringData: {a: '" + other[:10] + "${X:=" + other[10:] + "}'}"),
		"a placeholder in two parts in a plain object":   configMap("a: " + other[:10] + "${X:=" + other[10:] + "}"),
		"a placeholder in parts beside a real one":       secret("stringData: {a: '${TOKEN}', b: '" + other[:10] + "${X:=" + other[10:] + "}'}"),
		"a placeholder with another expression in parts": secret("stringData: {a: '" + real[:10] + "${X:=" + strings.Replace(real[10:], "54", "55", 1) + "}'}"),
	} {
		t.Run(name, func(t *testing.T) {
			if got := problems(t, text, v, substitute.Options{}); !strings.Contains(got, "remove it") {
				t.Errorf("problems: %q", got)
			}
			// And if one came through all the same, it reveals nothing.
			if name == "a placeholder of another key" {
				if _, err := substitute.Reveal(object(t, text), v); err == nil || strings.Contains(err.Error(), "hunter2") {
					t.Error("revealed: ", err)
				}
			}
		})
	}
}

func TestRevealingRefuses(t *testing.T) {
	v := secretValues(t, key, token)
	whole := apply(t, secret("stringData: {a: '${TOKEN}'}"), v, substitute.Options{})
	in := whole["stringData"].(map[string]any)["a"].(string)
	for _, c := range []struct {
		name, text, want, reason string
		values                   substitute.Values
	}{
		{"a placeholder in another kind", configMap("a: " + in), "may only go into data or stringData", "SecretOutsideSecret", v},
		{"text as data", secret("data: {a: " + in + "}"), "not base64 once ${TOKEN} is filled in; put it into stringData", "InvalidSecret", v},
		{"a value that changed since", secret("stringData: {a: " + in + "}"), "changed", "VariableChanged", secretValues(t, key, "other")},
		{"a variable that is no secret any more", secret("stringData: {a: " + in + "}"), "changed", "VariableChanged", values(t, map[string]string{"TOKEN": "hunter2"})},
		{"values that are not known", secret("stringData: {a: " + in + "}"), "none", "UnknownPlaceholder", substitute.Values{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := substitute.Reveal(object(t, c.text), c.values)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Fatal(err)
			}
			if _, reason, _ := state.Classify(err); reason != c.reason {
				t.Error(reason)
			}
		})
	}
	if got, err := substitute.Reveal(object(t, configMap("a: b")), substitute.Values{}); err != nil || got == nil {
		t.Error("an object without placeholders: ", err)
	}
}

func TestMarksAreTextToAReader(t *testing.T) {
	v := secretValues(t, key, token)
	desired := apply(t, secret("stringData: {a: 'x ${TOKEN:=a default} y', b: '${#B64}', c: plain}"), v, substitute.Options{})
	got := substitute.Mask(desired)["stringData"]
	if d := cmp.Diff(map[string]any{"a": "x (secret ${TOKEN}) y", "b": "(secret ${B64})", "c": "plain"}, got); d != "" {
		t.Error(d)
	}
	response := fmt.Sprintf("admission denied: %v", desired["stringData"])
	if got := substitute.MaskText(response); strings.Contains(got, "poolwrightsealed") || !strings.Contains(got, "x (secret ${TOKEN}) y") {
		t.Error(got)
	}
}

func TestValuesDoNotPrint(t *testing.T) {
	v := secretValues(t, key, token)
	s := substitute.Secret("Secret ns/vars", map[string][]byte{"TOKEN": []byte(token)})
	var log strings.Builder
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("x", "values", v, "source", s)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "values", v, "source", s)
	type holder struct {
		v substitute.Values
		s substitute.Source
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&log, format, v)
		fmt.Fprintf(&log, format, s)
		fmt.Fprintf(&log, format, &v)
		fmt.Fprintf(&log, format, holder{v, s})
		fmt.Fprintf(&log, format, []any{v, s})
		fmt.Fprintln(&log, fmt.Errorf("reading "+format+": %w", v, errors.New("x")))
	}
	b, err := json.Marshal([]any{v, s})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(b)
	for _, leak := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), base64.StdEncoding.EncodeToString([]byte(token))} {
		if strings.Contains(all, leak) {
			t.Errorf("%q is in %s", leak, all)
		}
	}
}

func TestSecretsNeedAKey(t *testing.T) {
	if _, err := substitute.NewValues(fluxexpr.Parse, []byte("short"), substitute.Secret("Secret ns/s", map[string][]byte{"a": nil})); err == nil {
		t.Error("a short key was taken")
	}
	if _, err := substitute.NewValues(fluxexpr.Parse, nil, substitute.Public("spec.substitute", nil)); err != nil {
		t.Error("without secrets no key is needed: ", err)
	}
	if _, err := substitute.NewValues(nil, key); err == nil {
		t.Error("no language was taken")
	}
}

func TestWhatASecretHoldsIsNotReadBeforeItIsSent(t *testing.T) {
	const text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: \"${MANY//a/${TOKEN}}\", b: \"${TOKEN:4:2}\", c: \"${TOKEN:=d}\"}\n"
	made := func(token string, sealed bool) string {
		v := values(t, map[string]string{"MANY": strings.Repeat("a", 60_000)}, substitute.Secret("Secret ns/s", map[string][]byte{"TOKEN": []byte(token)}))
		if sealed {
			data, err := v.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if v, err = substitute.Decode(fluxexpr.Parse, data); err != nil {
				t.Fatal(err)
			}
		}
		return yamlOf(t, substitute.Mask(apply(t, text, v, substitute.Options{Strict: true})))
	}
	short := made("x", false)
	for _, token := range []string{"", "x", strings.Repeat("x", 4000)} {
		for _, sealed := range []bool{false, true} {
			if d := cmp.Diff(short, made(token, sealed)); d != "" {
				t.Errorf("%d bytes, sealed %v: %s", len(token), sealed, d)
			}
		}
	}
}
