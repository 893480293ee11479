package fields

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEmptiedGivesUpWhatIsOursAlone(t *testing.T) {
	tests := []struct {
		name, live, desired, ours, theirs string
		pointers                          []string
		claim                             string
	}{
		{"a map", `{"spec":{"role":{"a":1,"b/c":2}}}`, `{"spec":{"role":{}}}`, `{"f:spec":{"f:role":{"f:a":{},"f:b/c":{}}}}`, `{}`,
			[]string{"/spec/role/a", "/spec/role/b~1c"}, `{"f:spec":{"f:role":{}}}`},
		{"what is not ours stays", `{"spec":{"role":{"a":1,"b":2}}}`, `{"spec":{"role":{}}}`, `{"f:spec":{"f:role":{"f:a":{}}}}`, `{}`,
			[]string{"/spec/role/a"}, `{"f:spec":{"f:role":{}}}`},
		{"what is another's as well stays", `{"spec":{"role":{"a":1,"b":2}}}`, `{"spec":{"role":{}}}`, `{"f:spec":{"f:role":{"f:a":{},"f:b":{}}}}`, `{"f:spec":{"f:role":{"f:b":{}}}}`,
			[]string{"/spec/role/a"}, `{"f:spec":{"f:role":{}}}`},
		{"a map that is ours as one", `{"spec":{"role":{"a":1}}}`, `{"spec":{"role":{}}}`, `{"f:spec":{"f:role":{}}}`, `{}`, nil, `null`},
		{"a map that was empty", `{"spec":{"role":{}}}`, `{"spec":{"role":{}}}`, `{"f:spec":{"f:role":{".":{}}}}`, `{}`, nil, `null`},
		{"a map with content", `{"spec":{"role":{"a":1}}}`, `{"spec":{"role":{"b":1}}}`, `{"f:spec":{"f:role":{"f:a":{}}}}`, `{}`, nil, `null`},
		{"nothing is ours", `{"spec":{"role":{"a":1}}}`, `{"spec":{"role":{}}}`, ``, `{"f:spec":{"f:role":{"f:a":{}}}}`, nil, `null`},
		{"a list of values, the last first", `{"l":["x","y","z"]}`, `{"l":[]}`, `{"f:l":{"v:\"x\"":{},"v:\"z\"":{}}}`, `{}`, []string{"/l/2", "/l/0"}, `{"f:l":{}}`},
		{"a list of maps", `{"l":[{"n":"a"},{"n":"b"}]}`, `{"l":[]}`, `{"f:l":{"k:{\"n\":\"a\"}":{".":{},"f:n":{}},"k:{\"n\":\"b\"}":{".":{},"f:n":{}}}}`, `{"f:l":{"k:{\"n\":\"b\"}":{".":{},"f:x":{}}}}`,
			[]string{"/l/0"}, `{"f:l":{}}`},
		{"within a list", `{"l":[{"n":"b"},{"n":"a","m":{"x":1}}]}`, `{"l":[{"n":"a","m":{}}]}`, `{"f:l":{"k:{\"n\":\"a\"}":{".":{},"f:n":{},"f:m":{"f:x":{}}}}}`, `{}`,
			[]string{"/l/1/m/x"}, `{"f:l":{"k:{\"n\":\"a\"}":{".":{},"f:m":{},"f:n":{}}}}`},
		{"a list that is one", `{"l":["x"]}`, `{"l":[]}`, `{"f:l":{}}`, `{}`, nil, `null`},
		{"an element that another put there", `{"l":[{"n":"a"}]}`, `{"l":[{"n":"a","m":{}}]}`, `{"f:l":{"k:{\"n\":\"z\"}":{}}}`, `{}`, nil, `null`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			live := read(t, tt.live)
			entry := func(manager, operation, fields string) any {
				return map[string]any{"manager": manager, "operation": operation, "fieldsV1": any(read(t, fields))}
			}
			managed := []any{entry("theirs", "Update", tt.theirs)}
			if tt.theirs == `{}` {
				managed = nil
			}
			if tt.ours != "" {
				managed = append(managed, entry("we", "Apply", tt.ours))
			}
			live["metadata"] = map[string]any{"managedFields": managed}
			pointers, claim := Emptied(live, read(t, tt.desired), "we")
			if d := cmp.Diff(tt.pointers, pointers); d != "" {
				t.Error(d)
			}
			text, err := json.Marshal(claim)
			if err != nil || string(text) != tt.claim {
				t.Errorf("the claim is %s, want %s (%v)", text, tt.claim, err)
			}
		})
	}
}
