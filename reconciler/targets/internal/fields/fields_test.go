package fields

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/state"
)

func read(t testing.TB, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestProjectShowsExactlyWhatACorrectionChanges(t *testing.T) {
	tests := []struct {
		name                        string
		live, merged, desired, ours string
		want                        string
	}{
		{
			name: "defaults and quantities that are only written otherwise do not show",
			live: `{cpu: "1", port: 80, protocol: TCP}`, merged: `{cpu: "1", port: 80, protocol: TCP}`, desired: `{cpu: 1000m, port: 80}`,
			want: `{cpu: 1000m, port: 80}`,
		},
		{
			name: "a value that differs shows as it is live",
			live: `{cpu: "2"}`, merged: `{cpu: "1"}`, desired: `{cpu: 1000m}`, want: `{cpu: "2"}`,
		},
		{
			name: "a field that is not there yet is missing",
			live: `{a: 1}`, merged: `{a: 1, b: {c: 2, defaulted: 3}}`, desired: `{a: 1, b: {c: 2}}`, want: `{a: 1}`,
		},
		{
			name: "a field of ours that goes is shown",
			live: `{a: 1, b: 2}`, merged: `{a: 1}`, desired: `{a: 1}`, ours: `{"f:a": {}, "f:b": {}}`, want: `{a: 1, b: 2}`,
		},
		{
			name: "a field of ours that falls back to its default is shown",
			live: `{replicas: 3}`, merged: `{replicas: 1}`, desired: `{}`, ours: `{"f:replicas": {}}`, want: `{replicas: 3}`,
		},
		{
			name: "a field of others that a webhook moves is not",
			live: `{stamp: 3}`, merged: `{stamp: 4}`, desired: `{}`, ours: `{"f:a": {}}`, want: `{}`,
		},
		{
			name:    "list elements are paired by the API server's keys, whatever their order",
			live:    `{ports: [{containerPort: 81, protocol: TCP}, {containerPort: 80, protocol: TCP, name: web}]}`,
			merged:  `{ports: [{containerPort: 80, protocol: TCP, name: http}, {containerPort: 81, protocol: TCP}]}`,
			desired: `{ports: [{containerPort: 80, name: http}, {containerPort: 81}]}`,
			ours:    `{"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}`,
			want:    `{ports: [{containerPort: 80, name: web}, {containerPort: 81}]}`,
		},
		{
			name: "a container that another manager injected does not show",
			live: `{c: [{name: a, image: x}, {name: proxy, image: p}]}`, merged: `{c: [{name: a, image: y}, {name: proxy, image: p}]}`,
			desired: `{c: [{name: a, image: y}]}`, want: `{c: [{name: a, image: x}]}`,
		},
		{
			name: "a container that goes does",
			live: `{c: [{name: a}, {name: old}]}`, merged: `{c: [{name: a}]}`, desired: `{c: [{name: a}]}`, want: `{c: [{name: a}, {name: old}]}`,
		},
		{
			name: "other members of a set do not show",
			live: `{finalizers: [theirs, old]}`, merged: `{finalizers: [theirs, new]}`, desired: `{finalizers: [new]}`,
			want: `{finalizers: [old]}`,
		},
		{
			name: "the order of a list that differs shows",
			live: `{args: [b, a]}`, merged: `{args: [a, b]}`, desired: `{args: [a, b]}`, want: `{args: [b, a]}`,
		},
		{
			name: "a list without keys is compared by position where lengths agree",
			live: `{terms: [{tags: {a: "1"}, d: 0}, {tags: {a: "2"}, d: 0}]}`, merged: `{terms: [{tags: {a: "1"}, d: 0}, {tags: {a: "3"}, d: 0}]}`,
			desired: `{terms: [{tags: {a: "1"}}, {tags: {a: "3"}}]}`, want: `{terms: [{tags: {a: "1"}}, {tags: {a: "2"}}]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ours Tree
			if tt.ours != "" {
				ours = read(t, tt.ours)
			}
			got := Project(read(t, tt.live), read(t, tt.merged), read(t, tt.desired), ours)
			if d := cmp.Diff(read(t, tt.want), got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

const live = `
apiVersion: apps/v1
metadata:
  uid: u1
  resourceVersion: "7"
  generation: 3
  labels: {ours: a, theirs: b}
  managedFields:
  - manager: other
    operation: Update
    time: "2026-01-02T00:00:00Z"
    fieldsV1: {"f:spec": {"f:paused": {}}}
  - manager: late
    operation: Update
    time: "2026-01-03T00:00:00Z"
    fieldsV1: {"f:spec": {"f:paused": {}}}
  - manager: us
    operation: Apply
    subresource: status
    fieldsV1: {"f:status": {}}
  - manager: us
    operation: Apply
    apiVersion: apps/v1
    time: "2026-01-01T00:00:00Z"
    fieldsV1:
      f:metadata: {f:labels: {f:ours: {}}}
      f:spec:
        f:replicas: {}
        f:finalizers: {"v:\"x\"": {}}
        f:containers: {'k:{"name":"a"}': {".": {}, f:name: {}, f:image: {}}}
spec:
  paused: true
  replicas: 2
  finalizers: [y, x]
  containers: [{name: b, image: B}, {name: a, image: A, policy: Always}]
status: {replicas: 1}
`

func TestAPrintMovesOnlyWithWhatIsOurs(t *testing.T) {
	us := Options{Manager: "us"}
	tests := []struct {
		name   string
		change func(o map[string]any)
		opts   Options
		same   bool
	}{
		{"nothing", func(map[string]any) {}, us, true},
		{"status and counters", func(o map[string]any) { o["status"] = map[string]any{"replicas": 9} }, us, true},
		{"another manager's field, with the generation", func(o map[string]any) { o["spec"].(map[string]any)["paused"] = false; generation(o, 4) }, us, true},
		{"another manager's label", func(o map[string]any) { labels(o)["theirs"] = "z" }, us, true},
		{"the first annotation of another manager", func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"theirs": "x"}
		}, us, true},
		{"another container", func(o map[string]any) {
			s := o["spec"].(map[string]any)
			s["containers"] = append(s["containers"].([]any), map[string]any{"name": "c"})
			generation(o, 4)
		}, us, true},
		{"our label, without the generation", func(o map[string]any) { labels(o)["ours"] = "z" }, us, false},
		{"our value", func(o map[string]any) { o["spec"].(map[string]any)["replicas"] = 3; generation(o, 4) }, us, false},
		{"our container's image", func(o map[string]any) {
			o["spec"].(map[string]any)["containers"].([]any)[1].(map[string]any)["image"] = "Z"
			generation(o, 4)
		}, us, false},
		{"our member of a set", func(o map[string]any) { o["spec"].(map[string]any)["finalizers"] = []any{"y"}; generation(o, 4) }, us, false},
		{"our claim, with equal values", func(o map[string]any) {
			list := o["metadata"].(map[string]any)["managedFields"].([]any)
			delete(list[3].(map[string]any)["fieldsV1"].(map[string]any)["f:spec"].(map[string]any), "f:replicas")
		}, us, false},
		{"another incarnation", func(o map[string]any) { o["metadata"].(map[string]any)["uid"] = "u2" }, us, false},
		{"another manager's field where the whole spec is ours", func(o map[string]any) { o["spec"].(map[string]any)["paused"] = false; generation(o, 4) },
			Options{Manager: "us", WholeSpec: true}, false},
		{"replicas that an autoscaler writes where the whole spec is ours", func(o map[string]any) {
			list := o["metadata"].(map[string]any)["managedFields"].([]any)
			delete(list[3].(map[string]any)["fieldsV1"].(map[string]any)["f:spec"].(map[string]any), "f:replicas")
			o["spec"].(map[string]any)["replicas"] = 3
			generation(o, 4)
		}, Options{Manager: "us", WholeSpec: true, Ignored: []string{"/spec/replicas"}}, true},
	}
	tests = append(tests, []struct {
		name   string
		change func(o map[string]any)
		opts   Options
		same   bool
	}{
		{"a field beside an ignored one where the whole spec is ours", func(o map[string]any) { o["spec"].(map[string]any)["paused"] = false; generation(o, 4) },
			Options{Manager: "us", WholeSpec: true, Ignored: []string{"/spec/replicas"}}, false},
		{"an ignored field of a list's element, which may be another by now, where the whole spec is ours", func(o map[string]any) {
			o["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["image"] = "Z"
			generation(o, 4)
		}, Options{Manager: "us", WholeSpec: true, Ignored: []string{"/spec/containers/0/image"}}, false},
	}...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := read(t, live), read(t, live)
			if len(tt.opts.Ignored) > 0 {
				// What an autoscaler owns is no claim of ours.
				for _, o := range []map[string]any{before, after} {
					list := o["metadata"].(map[string]any)["managedFields"].([]any)
					delete(list[3].(map[string]any)["fieldsV1"].(map[string]any)["f:spec"].(map[string]any), "f:replicas")
				}
			}
			tt.change(after)
			after["metadata"].(map[string]any)["resourceVersion"] = "8"
			old, now := FingerprintOf(before, tt.opts), FingerprintOf(after, tt.opts)
			if got := old.Same(now); got != tt.same {
				t.Errorf("same = %v", got)
			}
			if tt.same && (old.Meta != now.Meta || old.Values != now.Values || old.Fields != now.Fields) {
				t.Error("a hash moved with what is not ours, which makes the inventory be written")
			}
		})
	}
}

func labels(o map[string]any) map[string]any {
	return o["metadata"].(map[string]any)["labels"].(map[string]any)
}

func generation(o map[string]any, n int64) { o["metadata"].(map[string]any)["generation"] = n }

func TestManagersAreNamedTheLatestFirst(t *testing.T) {
	o := read(t, live)
	var names []string
	for _, m := range Managers(o, "us", "spec", "paused") {
		names = append(names, m.Name)
		if m.Operation == "" || m.Time == "" {
			t.Errorf("of %s there is neither operation nor time: %+v", m.Name, m)
		}
	}
	if d := cmp.Diff([]string{"late", "other"}, names); d != "" {
		t.Error(d)
	}
	if got := Managers(o, "us", "spec", "replicas"); len(got) != 0 {
		t.Errorf("%v own what is only ours", got)
	}
}

func TestOverlayDropsWhatIsNoLongerDeclared(t *testing.T) {
	got := Overlay(read(t, `{data: {a: "1", b: "2", theirs: "3"}, type: Opaque, gone: {x: 1}}`), read(t, `{data: {a: "9", c: "4"}}`),
		read(t, `{"f:data": {"f:a": {}, "f:b": {}}, "f:gone": {"f:x": {}}}`))
	if d := cmp.Diff(read(t, `{data: {a: "9", c: "4", theirs: "3"}, type: Opaque}`), got); d != "" {
		t.Error(d)
	}
}

func TestUnclaimedListsWhatAnApplyWouldMakeOurs(t *testing.T) {
	desired := read(t, `{apiVersion: v1, kind: X, metadata: {name: n, labels: {a: b}}, spec: {x: 1, why: {z: 2}, list: [1]}}`)
	ours := read(t, `{"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:x": {}, "f:list": {"k:{}": {}}}}`)
	if d := cmp.Diff([]string{"spec.why"}, Unclaimed(desired, ours, nil)); d != "" {
		t.Error(d)
	}
	if got := Unclaimed(desired, ours, []string{"/spec/why/z"}); len(got) > 0 {
		t.Errorf("of what is ignored: %v", got)
	}
}

func TestMissingPointsAtAdditions(t *testing.T) {
	got := Missing(read(t, `{weight: 1, template: {a: 1, "x/y~": 2}, limits: {cpu: 1}}`), read(t, `{template: {a: 2}, limits: {memory: 1}}`), "/spec")
	slices.Sort(got)
	if d := cmp.Diff([]string{"/spec/limits/cpu", "/spec/template/x~1y~0", "/spec/weight"}, got); d != "" {
		t.Error(d)
	}
}

// FuzzProject holds for any three objects: nothing panics, nothing that was
// given changes, and where a correction changes nothing the result is what is
// desired.
func FuzzProject(f *testing.F) {
	f.Add(`{"a":[{"name":"x"}]}`, `{"a":[{"name":"y"}]}`, `{"a":[{"name":"y"}]}`, `{"f:a":{"k:{\"name\":\"x\"}":{}}}`)
	f.Add(`{"a":{"b":1}}`, `{"a":[1,2]}`, `{"a":null}`, `{"f:a":{}}`)
	f.Fuzz(func(t *testing.T, l, m, w, o string) {
		var live, merged, desired map[string]any
		var ours Tree
		if json.Unmarshal([]byte(l), &live) != nil || json.Unmarshal([]byte(m), &merged) != nil || json.Unmarshal([]byte(w), &desired) != nil {
			t.Skip("not JSON objects")
		}
		_ = json.Unmarshal([]byte(o), &ours)
		before := state.Hash([]any{live, merged, desired, ours})
		Project(live, merged, desired, ours)
		if got := Project(live, live, desired, ours); !state.Equal(got, orEmpty(desired)) {
			t.Errorf("nothing changes, and %v is shown for %v", got, desired)
		}
		Overlay(live, desired, ours)
		Without(live, desired, ours)
		Unclaimed(desired, ours, nil)
		Missing(live, desired, "")
		Differing(live, desired)
		FingerprintOf(map[string]any{"metadata": live, "spec": desired}, Options{Manager: "us", WholeSpec: true})
		if state.Hash([]any{live, merged, desired, ours}) != before {
			t.Error("an argument was changed")
		}
	})
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// FuzzTake reads any object, as a hostile API server might send it.
func FuzzTake(f *testing.F) {
	raw, err := yaml.YAMLToJSON([]byte(live))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	f.Add(`{"metadata":{"managedFields":[{"manager":"us","operation":"Apply","fieldsV1":{"f:a":{"k:":{},"v:":{},"i:x":{},"":{}}}}]},"a":[1]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o map[string]any
		if json.Unmarshal([]byte(text), &o) != nil {
			t.Skip("not JSON objects")
		}
		a, b := FingerprintOf(o, Options{Manager: "us", WholeSpec: true}), FingerprintOf(o, Options{Manager: "us", WholeSpec: true})
		if a != b {
			t.Error("two prints of one object differ")
		}
		Managers(o, "us", "spec")
	})
}
