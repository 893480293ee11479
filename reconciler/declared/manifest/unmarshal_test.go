package manifest

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// held is a value with an object.
type held struct {
	Name   string         `json:"name"`
	Object map[string]any `json:"object,omitempty"`
}

func TestObjectsAreDecodedAsKubernetesDecodesThem(t *testing.T) {
	for name, text := range map[string]string{
		"all kinds of values":          `[{"name":"a","object":{"a":1,"b":-1.5,"c":"x","d":true,"e":false,"f":null,"g":[],"h":{},"i":[1,"2",[null,{"j":0}]]}}]`,
		"no object":                    `[{"name":"a"}]`,
		"null in the place of one":     `[{"name":"a","object":null}]`,
		"an empty one":                 `[{"object":{}}]`,
		"the largest int64":            `[{"object":{"n":9223372036854775807,"m":-9223372036854775808}}]`,
		"what no int64 holds":          `[{"object":{"n":9223372036854775808,"m":1e3,"z":-0.0,"f":2.0}}]`,
		"text of several scripts":      `[{"object":{"größe":"\u00e4\ud83d\ude00\n\"\\","":""}}]`,
		"one text several times":       `[{"object":{"a":"a","b":["a","a"]}},{"object":{"a":{"a":"a"}}}]`,
		"a text that is too long":      `[{"object":{"a":"` + strings.Repeat("x", 2*maxShared) + `"}}]`,
		"objects of several values":    `[{"object":{"a":1}},{"object":{"a":2}}]`,
		"what is broken off":           `[{"object":{"a":1`,
		"what is broken off in a list": `[{"object":{"a":[1,`,
		"a value without a name":       `[{"object":{1:2}}]`,
		"a number out of range":        `[{"object":{"a":1e999}}]`,
		"no object in its place":       `[{"object":{"a":tru}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			var want, got []held
			wantErr, gotErr := utiljson.Unmarshal([]byte(text), &want), Unmarshal([]byte(text), &got)
			if (wantErr != nil) != (gotErr != nil) {
				t.Fatalf("got the error %v, want %v", gotErr, wantErr)
			}
			if d := cmp.Diff(want, got); wantErr == nil && d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestSeveralValuesAreDecodedInPlace(t *testing.T) {
	var one held
	var many []held
	if err := Unmarshal([]byte(`[{"name":"a"},[{"object":{"n":1}}]]`), &[]any{&one, &many}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]held{{Object: map[string]any{"n": int64(1)}}}, many); d != "" || one.Name != "a" {
		t.Errorf("%q\n%s", one.Name, d)
	}
}

// TestEqualTextsAreOneInMemory holds by how much less memory the objects of a folder take.
func TestEqualTextsAreOneInMemory(t *testing.T) {
	var got []held
	if err := Unmarshal([]byte(`[{"object":{"kind":"ConfigMap"}},{"object":{"kind":"ConfigMap"}}]`), &got); err != nil {
		t.Fatal(err)
	}
	first, _ := got[0].Object["kind"].(string)
	second, _ := got[1].Object["kind"].(string)
	if unsafe.StringData(first) != unsafe.StringData(second) {
		t.Error("two equal texts are two in memory")
	}
}

// TestATextThatIsThereAlreadyTakesNoMemory counts allocations: a list of equal texts, and of as many numbers.
func TestATextThatIsThereAlreadyTakesNoMemory(t *testing.T) {
	allocations := func(element string) float64 {
		raw := []byte(`{"l":[` + strings.Repeat(element+",", 999) + element + `]}`)
		return testing.AllocsPerRun(10, func() {
			var got map[string]any
			if err := Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
		})
	}
	// An interface that holds a text takes one allocation, whatever the text.
	if n := allocations(`"ConfigMap"`); n > 1100 {
		t.Errorf("%v allocations for 1,000 equal texts", n)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{`{"a":[1,2.5,"x",null,true]}`, `{"a":{"b":{}}}`, `{"a":1e400}`, `[`, `{"a":"\ud800"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want map[string]any
		if Unmarshal(text, &got) != nil {
			return // What json.Marshal never writes, such as a name that is there twice, may be refused.
		}
		if err := utiljson.Unmarshal(text, &want); err != nil {
			t.Fatalf("decoded %q, which Kubernetes does not: %v", text, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	})
}
