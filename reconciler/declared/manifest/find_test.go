package manifest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// parsedText are the documents of a text.
func parsedText(t *testing.T, text string) []Document {
	t.Helper()
	docs, problems, err := parse("a.yaml", []byte(text), Limits{}.WithDefaults())
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	return docs
}

func TestManyFieldsAreFoundByReadingTheirMappingOnce(t *testing.T) {
	const fields = 2000
	var text strings.Builder
	text.WriteString("kind: A\nspec:\n")
	for i := range fields {
		fmt.Fprintf(&text, "  field%d: 1\n", i)
	}
	for name, c := range map[string]struct {
		uncached bool
		read     int
	}{
		"with its index": {read: fields},
		"the control: with a new one for each search": {uncached: true, read: fields * fields},
	} {
		t.Run(name, func(t *testing.T) {
			doc := parsedText(t, text.String())[0]
			read := 0
			for i := range fields {
				if c.uncached {
					read += doc.index.read
					doc.index = &index{}
				}
				if line, found := doc.Find([]string{"spec", "field" + strconv.Itoa(i)}); !found || line != i+3 {
					t.Fatalf("field %d is in line %d, %t", i, line, found)
				}
			}
			if read += doc.index.read; read != c.read {
				t.Errorf("%d keys were read", read)
			}
		})
	}
}

func TestTheObjectsOfAListAreFoundByReadingItOnce(t *testing.T) {
	const items = 2000
	docs := parsedText(t, "kind: List\nitems:\n"+strings.Repeat("- kind: A\n  metadata: {name: b}\n", items)+"---\nkind: B\n")
	for i := range items {
		if got, ok := Around(docs, 4+2*i); !ok || got.Line != 3+2*i {
			t.Fatalf("item %d is in line %d, %t", i, got.Line, ok)
		}
	}
	if got, ok := Around(docs, 4+2*items); !ok || Text(Child(got.Node, "kind")) != "B" {
		t.Errorf("the last document is in line %d, %t", got.Line, ok)
	}
	if docs[0].index.read != items {
		t.Errorf("%d items were read", docs[0].index.read)
	}
}

// What is kept of a mapping says the same as reading it.
func TestAnIndexChangesNoResult(t *testing.T) {
	var text strings.Builder
	text.WriteString("base: &base {merged: 1, twice: 2}\nother: &other {merged: 3, deep: {a: 1}}\nspec:\n  <<: [*base, *other]\n")
	for i := range 2 * indexed {
		fmt.Fprintf(&text, "  field.%d: {x: [1, 2]}\n", i)
	}
	text.WriteString("  twice: 5\n  same: &same {y: 1}\n  alias: *same\n")
	doc := parsedText(t, text.String())[0]
	plain := doc
	plain.index = nil
	for _, path := range []string{"spec", "spec/field/3", "spec/field.3/x/1", "spec/field.3/x/7", "spec/merged", "spec/twice", "spec/deep/a", "spec/alias/y", "spec/missing", "spec/<<"} {
		line, found := doc.Find(strings.Split(path, "/"))
		if wantLine, want := plain.Find(strings.Split(path, "/")); line != wantLine || found != want {
			t.Errorf("%s is in line %d, %t, and without an index in line %d, %t", path, line, found, wantLine, want)
		}
	}
	if doc.index.read == 0 {
		t.Error("no index was made")
	}
}
