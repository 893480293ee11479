package fields

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// owned is a Deployment of which "us" owns nearly all, and another manager the rest. Its first
// container was added by a webhook.
const owned = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {ours: "1"}
  managedFields:
  - manager: us
    operation: Apply
    apiVersion: apps/v1
    fieldsV1:
      f:metadata: {f:annotations: {".": {}, f:ours: {}}}
      f:spec:
        f:replicas: {}
        f:selector: {}
        f:args: {}
        f:strategy: {f:type: {}, f:rollingUpdate: {f:maxSurge: {}}}
        f:containers:
          ".": {}
          'k:{"name":"web"}': {".": {}, f:name: {}, f:image: {}, f:args: {}}
  - manager: webhook
    operation: Update
    apiVersion: apps/v1
    fieldsV1:
      f:spec:
        f:paused: {}
        f:containers: {'k:{"name":"side"}': {".": {}, f:name: {}, f:image: {}}}
spec:
  replicas: 3
  paused: true
  selector: {app: web}
  args: [{name: x, value: live}]
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
  containers: [{name: side, image: S}, {name: web, image: LIVE, args: [a]}]
`

const declaredOfOwned = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {ours: "1"}
spec:
  replicas: 3
  selector: {app: web}
  args: [{name: x, value: live}]
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
  containers: [{name: web, image: LIVE, args: [a]}, {name: new, image: N}]
`

func TestAnUpdateOmitsWhatIsIgnored(t *testing.T) {
	spec := func(o map[string]any) map[string]any { return o["spec"].(map[string]any) }
	container := func(o map[string]any, i int) map[string]any { return spec(o)["containers"].([]any)[i].(map[string]any) }
	claim := func(o map[string]any) map[string]any { return o["f:spec"].(map[string]any) }
	tests := []struct {
		name, at string
		omitted  func(object map[string]any)
		kept     bool
		released func(tree map[string]any) // nil where the claim stays
	}{
		{"a field", "/spec/replicas", func(o map[string]any) { delete(spec(o), "replicas") }, false, func(t map[string]any) { delete(claim(t), "f:replicas") }},
		{"a field of an element that has another place", "/spec/containers/0/image", func(o map[string]any) { delete(container(o, 0), "image") }, false,
			func(t map[string]any) {
				delete(claim(t)["f:containers"].(map[string]any)[`k:{"name":"web"}`].(map[string]any), "f:image")
			}},
		{"a field of an element that is to be made", "/spec/containers/1/image", func(map[string]any) {}, false, nil},
		{"a part of a map that is applied as a whole", "/spec/selector/app", func(map[string]any) {}, true, nil},
		{"a part of a list that is applied as a whole", "/spec/args/0/value", func(map[string]any) {}, true, nil},
		{"a field of another manager", "/spec/paused", func(map[string]any) {}, false, nil},
		{"the last of a map", "/metadata/annotations/ours", func(o map[string]any) { delete(o["metadata"].(map[string]any), "annotations") }, false,
			func(t map[string]any) { delete(t, "f:metadata") }},
		{"a field that nobody owns", "/spec/unowned", func(map[string]any) {}, false, nil},
		{"a whole map", "/spec/strategy", func(o map[string]any) { delete(spec(o), "strategy") }, false, func(t map[string]any) { delete(claim(t), "f:strategy") }},
		{"what is no pointer", "spec", func(map[string]any) {}, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			desired, want := read(t, declaredOfOwned), read(t, declaredOfOwned)
			live := read(t, owned)
			tt.omitted(want)
			got := Omit(desired, live, "us", []string{tt.at})
			if d := cmp.Diff(Omitted{want, tt.kept}, got); d != "" {
				t.Errorf("what is sent (-want +got):\n%s", d)
			}
			left, released := Release(live, desired, Applied(live, "us"), []string{tt.at})
			rest := Applied(read(t, owned), "us")
			if tt.released != nil {
				tt.released(rest)
			}
			if d := cmp.Diff(rest, left); d != "" || (len(released) == 1) != (tt.released != nil) {
				t.Errorf("the claim, of which %v is given up (-want +got):\n%s", released, d)
			}
			if d := cmp.Diff(read(t, owned), live); d != "" {
				t.Errorf("the live object is changed:\n%s", d)
			}
		})
	}
}

func TestAListOfWhichNobodyOwnsElementsIsSentAsItIs(t *testing.T) {
	live := read(t, owned)
	delete(live["metadata"].(map[string]any), "managedFields")
	got := Omit(read(t, declaredOfOwned), live, "us", []string{"/spec/containers/0/image"})
	if d := cmp.Diff(Omitted{read(t, declaredOfOwned), true}, got); d != "" {
		t.Error(d)
	}
}

func TestWhatIsIgnoredIsNothingExtra(t *testing.T) {
	live := read(t, owned)
	base := map[string]any{"replicas": int64(3), "selector": map[string]any{"app": "web"}, "args": nil, "containers": nil}
	got := Extra(live, base, []string{"/spec/paused", "/spec/strategy/rollingUpdate"})
	if d := cmp.Diff([]string{"/spec/strategy"}, got); d != "" {
		t.Error(d)
	}
	if got := Extra(live, base, []string{"/spec/paused", "/spec/strategy/rollingUpdate", "/spec/strategy/type"}); got != nil {
		t.Errorf("extra: %v", got)
	}
}

// Our claim to a map that is declared empty is the same for one that is applied as a whole and for one
// whose fields have owners of their own.
func TestAMapThatIsDeclaredEmptyIsSentWithAnIgnoredFieldWhereItIsAppliedAsAWhole(t *testing.T) {
	const manager = "{manager: %s, operation: Apply, fieldsV1: {'f:spec': {'f:selector': %s}}}"
	tests := []struct {
		name, ours, theirs, third string
		kept                      bool
	}{
		{"another wrote it as a whole", "", "{}", "", true},
		{"so did we before", "{}", "{}", "", true},
		{"another wrote the field", "{}", "{'f:labels': {'f:app': {}}}", "", false},
		{"another wrote the field of what a third made without content", "{}", "{'f:labels': {'f:app': {}}}", "{}", false},
		{"another wrote a field beside it", "{}", "{'f:other': {}}", "{}", false},
		{"only we own it", "{}", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var entries []string
			for name, tree := range map[string]string{"us": tt.ours, "them": tt.theirs, "third": tt.third} {
				if tree != "" {
					entries = append(entries, fmt.Sprintf(manager, name, tree))
				}
			}
			live := read(t, "{metadata: {managedFields: ["+strings.Join(entries, ", ")+"]}, spec: {selector: {labels: {app: web}}}}")
			want := Omitted{Object: read(t, "{spec: {selector: {}}}"), Kept: tt.kept}
			if tt.kept {
				want.Object = read(t, "{spec: {selector: {labels: {app: web}}}}")
			}
			if d := cmp.Diff(want, Omit(read(t, "{spec: {selector: {}}}"), live, "us", []string{"/spec/selector/labels"})); d != "" {
				t.Error(d)
			}
		})
	}
}
