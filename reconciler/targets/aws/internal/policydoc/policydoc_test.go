package policydoc

import (
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/state"
)

func mustDocument(t *testing.T, text string) map[string]any {
	t.Helper()
	out, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDocumentsThatMeanTheSameAreEqual(t *testing.T) {
	const plain = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["a:A","a:B"],"Resource":["*"],"Principal":{"AWS":["*"]},"Condition":{"Bool":{"x":["true"]}}}]}`
	tests := []struct{ name, text string }{
		{"a single statement outside of a list", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["a:A","a:B"],"Resource":"*","Principal":"*","Condition":{"Bool":{"x":true}}}}`},
		{"actions in another order and twice", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["a:B","a:A","a:B"],"Resource":"*","Principal":{"AWS":"*"},"Condition":{"Bool":{"x":"true"}}}]}`},
		{"an empty Sid", `{"Version":"2012-10-17","Statement":[{"Sid":"","Effect":"Allow","Action":["a:B","a:A"],"Resource":"*","Principal":{"AWS":"*"},"Condition":{"Bool":{"x":"true"}}}]}`},
		{"the text as IAM encodes it", url.PathEscape(plain)},
		{"the text with all that a form encodes", strings.ReplaceAll(url.QueryEscape(plain), "+", "%20")},
		{"a statement twice", strings.Replace(plain, `[{"Effect"`, `[{"Effect":"Allow","Action":["a:A","a:B"],"Resource":["*"],"Principal":{"AWS":["*"]},"Condition":{"Bool":{"x":["true"]}}},{"Effect"`, 1)},
		{"space around it", "\n  " + plain + "\n"},
	}
	want := mustDocument(t, plain)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := gocmp.Diff(want, mustDocument(t, tt.text)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDocumentsThatMeanSomethingElseDiffer(t *testing.T) {
	const plain = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"a:A","Resource":"*"}]}`
	tests := []struct{ name, text string }{
		{"another effect", `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"a:A","Resource":"*"}]}`},
		{"no version", `{"Statement":[{"Effect":"Allow","Action":"a:A","Resource":"*"}]}`},
		{"one more action", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["a:A","a:B"],"Resource":"*"}]}`},
		{"one more statement", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"a:A","Resource":"*"},{"Effect":"Allow","Action":"b:B","Resource":"*"}]}`},
		{"a condition", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"a:A","Resource":"*","Condition":{"Bool":{"x":"true"}}}]}`},
		{"what is allowed turned around", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotAction":"a:A","Resource":"*"}]}`},
	}
	want := mustDocument(t, plain)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if state.Equal(want, mustDocument(t, tt.text)) {
				t.Error("they are equal")
			}
		})
	}
}

func TestWhatIsNoDocumentIsRefused(t *testing.T) {
	for _, text := range []string{"", "null", "%", "%7B", "[]", `"x"`, `{}`, `{"Statement":null}`, `{"Statement":["x"]}`, `{"Statement":[]} {}`, strings.Repeat(" ", documentLimit+1)} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%.20q became %v", text, got)
		}
	}
}

func TestADocumentIsWrittenShort(t *testing.T) {
	doc, err := Parse(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["a:A"],"Resource":["<x>&"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Text(doc)
	want := `{"Statement":[{"Action":"a:A","Effect":"Allow","Resource":"<x>&"}],"Version":"2012-10-17"}`
	if err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := Text(nil); err == nil {
		t.Error("nothing was written as a document")
	}
}

// FuzzDocument holds documents to their properties: the canonical form of a
// canonical form is itself, also by way of its text, and no order, no single
// string for a list and no URL-encoding makes a difference.
func FuzzDocument(f *testing.F) {
	for _, text := range []string{
		`{"Version":"2012-10-17","Statement":[{"Sid":"a","Effect":"Allow","Principal":{"Service":["b","a"]},"Action":["x","y"],"Condition":{"StringEquals":{"k":["2","1"]}}},{"Effect":"Deny","Action":"*","Resource":"*"}]}`,
		`{"Statement":{"Effect":"Allow","NotPrincipal":"*","NotAction":["b","a"],"NotResource":["b"],"Condition":{"NumericLessThan":{"k":[1,2.5,true]}}}}`,
		`{"Id":"x","Version":"2012-10-17","Statement":[{"Action":[["a"],{"b":1}],"Principal":[1],"Condition":[]}]}`,
		`%7B%22Statement%22%3A%5B%5D%7D`,
	} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		doc, err := Parse(text)
		if err != nil {
			return
		}
		written, err := Text(doc)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if d := gocmp.Diff(doc, again); d != "" {
			t.Fatalf("the second time it is another: %s", d)
		}
		r := rand.New(rand.NewPCG(seed, seed))
		b, err := json.Marshal(map[string]any{"Version": doc["Version"], "Id": doc["Id"], "Statement": disturbed(r, doc["Statement"], 0)})
		if err != nil {
			t.Fatal(err)
		}
		other := string(b)
		if r.IntN(2) == 0 {
			other = url.PathEscape(other)
		}
		moved, err := Parse(other)
		if err != nil {
			t.Fatalf("%s: %v", other, err)
		}
		if d := gocmp.Diff(doc["Statement"], moved["Statement"]); d != "" {
			t.Fatalf("written otherwise it is another: %s", d)
		}
	})
}

// disturbed mixes the lists of strings and of statements, and takes single
// strings out of theirs.
func disturbed(r *rand.Rand, v any, depth int) any {
	switch v := v.(type) {
	case []any:
		strings := depth > 0
		for _, e := range v {
			_, ok := e.(string)
			strings = strings && ok
		}
		out := append([]any{}, v...)
		if depth == 0 || strings {
			r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		}
		if depth == 0 {
			for i := range out {
				out[i] = disturbed(r, out[i], depth+1)
			}
		} else if strings && len(out) == 1 && r.IntN(2) == 0 {
			return out[0]
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			switch k {
			case "Action", "NotAction", "Resource", "NotResource", "Principal", "NotPrincipal", "Condition":
				out[k] = disturbed(r, e, depth+1)
			default:
				out[k] = e
				if depth > 1 {
					out[k] = disturbed(r, e, depth+1)
				}
			}
		}
		return out
	}
	return v
}
