package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestDiffNamesEachFieldThatDiffers(t *testing.T) {
	type list = []any
	type fields = []plan.FieldChange
	tests := []struct {
		name          string
		before, after object
		want          fields
	}{
		{name: "equal objects", before: object{"a": int64(1)}, after: object{"a": 1.0}},
		{name: "a value deep inside",
			before: object{"spec": object{"disruption": object{"consolidateAfter": "60s", "policy": "x"}}},
			after:  object{"spec": object{"disruption": object{"consolidateAfter": "30s", "policy": "x"}}},
			want:   fields{{Path: "spec.disruption.consolidateAfter", Before: "60s", After: "30s"}}},
		{name: "keys that are no plain identifiers are quoted",
			before: object{"l": object{"app.kubernetes.io/name": "a", "": "a", "a b": "a", "a\nb": "a", `a"b`: "a", `a\b`: "a", "a[0]": "a", "é": "a"}},
			after:  object{"l": object{"app.kubernetes.io/name": "b", "": "b", "a b": "b", "a\nb": "b", `a"b`: "b", `a\b`: "b", "a[0]": "b", "é": "b"}},
			want: fields{
				{Path: `l.é`, Before: "a", After: "b"},
				{Path: `l[""]`, Before: "a", After: "b"}, {Path: `l["a b"]`, Before: "a", After: "b"},
				{Path: `l["a[0]"]`, Before: "a", After: "b"}, {Path: `l["a\"b"]`, Before: "a", After: "b"},
				{Path: `l["a\\b"]`, Before: "a", After: "b"}, {Path: `l["a\nb"]`, Before: "a", After: "b"},
				{Path: `l["app.kubernetes.io/name"]`, Before: "a", After: "b"},
			}},
		{name: "an added subtree is named by its leaves",
			before: object{}, after: object{"m": object{"a": "x", "b": object{"c": list{"y"}}, "empty": object{}}},
			want: fields{{Path: "m.a", After: "x"}, {Path: "m.b.c", After: list{"y"}}, {Path: "m.empty", After: object{}}}},
		{name: "so is a removed one",
			before: object{"m": object{"a": "x", "b": object{"c": false}}}, after: object{},
			want: fields{{Path: "m.a", Before: "x"}, {Path: "m.b.c", Before: false}}},
		{name: "a whole object that comes", after: object{"a": "x", "b": object{"c": int64(1)}},
			want: fields{{Path: "a", After: "x"}, {Path: "b.c", After: int64(1)}}},
		{name: "a map that becomes a scalar",
			before: object{"a": object{"b": "x"}}, after: object{"a": "x"},
			want: fields{{Path: "a", Before: object{"b": "x"}, After: "x"}}},
		{name: "a null that goes", before: object{"a": nil}, after: object{}, want: fields{{Path: "a"}}},
		{name: "a map that becomes a null",
			before: object{"a": object{"b": "x"}}, after: object{"a": nil},
			want: fields{{Path: "a", Before: object{"b": "x"}}}},
		{name: "elements with names are compared by name",
			before: object{"c": list{object{"name": "a", "image": "1"}, object{"name": "b", "image": "1"}}},
			after:  object{"c": list{object{"name": "b", "image": "2"}, object{"name": "new", "image": "1"}, object{"name": "a", "image": "1"}}},
			want: fields{
				{Path: "c[name=b].image", Before: "1", After: "2"},
				{Path: "c[name=new].image", After: "1"}, {Path: "c[name=new].name", After: "new"},
			}},
		{name: "elements with keys are compared by key, quoted where it could be misread",
			before: object{"t": list{object{"key": "nvidia.com/gpu", "effect": "a"}, object{"key": "a]b", "effect": "a"}}},
			after:  object{"t": list{object{"key": "nvidia.com/gpu", "effect": "b"}, object{"key": "a]b", "effect": "b"}}},
			want: fields{
				{Path: `t[key="a]b"].effect`, Before: "a", After: "b"},
				{Path: "t[key=nvidia.com/gpu].effect", Before: "a", After: "b"},
			}},
		{name: "elements with equal names are compared by place",
			before: object{"t": list{object{"key": "a", "effect": "x"}, object{"key": "a", "effect": "y"}}},
			after:  object{"t": list{object{"key": "a", "effect": "x"}, object{"key": "a", "effect": "z"}}},
			want:   fields{{Path: "t[1].effect", Before: "y", After: "z"}}},
		{name: "a list that is only in another order is shown whole",
			before: object{"t": list{object{"name": "a"}, object{"name": "b"}}},
			after:  object{"t": list{object{"name": "b"}, object{"name": "a"}}},
			want: fields{{Path: "t", Before: list{object{"name": "a"}, object{"name": "b"}},
				After: list{object{"name": "b"}, object{"name": "a"}}}}},
		{name: "a list of scalars is shown whole",
			before: object{"zones": list{"a", "b"}}, after: object{"zones": list{"a", "c"}},
			want: fields{{Path: "zones", Before: list{"a", "b"}, After: list{"a", "c"}}}},
		{name: "a list that was empty is shown whole",
			before: object{"t": list{}}, after: object{"t": list{object{"name": "a"}}},
			want: fields{{Path: "t", Before: list{}, After: list{object{"name": "a"}}}}},
		{name: "nameless elements of another number are shown whole",
			before: object{"t": list{object{"x": "a"}}}, after: object{"t": list{object{"x": "a"}, object{"x": "b"}}},
			want: fields{{Path: "t", Before: list{object{"x": "a"}}, After: list{object{"x": "a"}, object{"x": "b"}}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, plan.Diff(tt.before, tt.after)); d != "" {
				t.Errorf("fields (-want +got):\n%s", d)
			}
			checkDiff(t, tt.before, tt.after)
		})
	}
}

// checkDiff holds for any two objects.
func checkDiff(t *testing.T, before, after object) {
	t.Helper()
	fields := plan.Diff(before, after)
	if equal := state.Equal(before, after); equal != (len(fields) == 0) {
		t.Errorf("equal %v, but %d fields differ", equal, len(fields))
	}
	for i, f := range fields {
		if i > 0 && fields[i-1].Path >= f.Path {
			t.Errorf("path %q after %q", f.Path, fields[i-1].Path)
		}
		if state.Equal(f.Before, f.After) && (f.Before != nil || f.After != nil) {
			t.Errorf("%s does not differ", f.Path)
		}
	}
	back := plan.Diff(after, before)
	for i := range back {
		back[i].Before, back[i].After = back[i].After, back[i].Before
	}
	if d := cmp.Diff(fields, back); d != "" {
		t.Errorf("the way back differs:\n%s", d)
	}
}

func FuzzDiff(f *testing.F) {
	f.Add(`{"a":[{"name":"x","v":1},{"name":"y"}]}`, `{"a":[{"name":"y"},{"name":"x","v":2}]}`)
	f.Add(`{"a.b":1,"a":{"b":1}}`, `{"a.b":2,"a":{"b":2}}`)
	f.Add(`{"a":{"b":null}}`, `{"a":{}}`)
	f.Add(`{"a":[{"key":"x]","v":[[]]}]}`, `{"a":[{"key":"x","v":[{}]}]}`)
	f.Add(`{"a":[{"name":""},{"name":"\u0000"}]}`, `{"a":[]}`)
	f.Fuzz(func(t *testing.T, left, right string) {
		var before, after object
		if json.Unmarshal([]byte(left), &before) != nil || json.Unmarshal([]byte(right), &after) != nil {
			t.Skip("not two JSON objects")
		}
		checkDiff(t, before, after)
	})
}
