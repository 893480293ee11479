package argocd

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// token is the one that the Syncs of testdata wait for.
const token = "deletions-1-e10552fbc644de1a82c3e94da93be1d2454f4ff7+3Node"

// actions have what each action makes of a Sync of testdata.
var actions = []struct {
	name, sync, action string
	// parameters are nil before Argo CD 3.1.
	parameters map[string]string
	// refusal is the error, where the action makes nothing.
	refusal string
}{
	{name: "a run is requested", sync: "a revision is applied", action: "reconcile", parameters: map[string]string{}},
	{name: "a run is requested before Argo CD 3.1", sync: "a revision is applied", action: "reconcile"},
	{name: "a run is requested where there are annotations", sync: "a deletion waits, and another token is quoted", action: "reconcile"},
	{name: "a run of a suspended Sync is requested", sync: "it is suspended", action: "reconcile", refusal: "the Sync is suspended; resume it"},
	{name: "the newest parameters are requested", sync: "a revision is applied", action: "update-parameters"},
	{name: "the newest parameters of a suspended Sync are requested", sync: "it is suspended", action: "update-parameters", refusal: "the Sync is suspended; resume it"},
	{name: "it is suspended without a reason", sync: "a revision is applied", action: "suspend", parameters: map[string]string{"reason": ""}},
	{name: "it is suspended before Argo CD 3.1", sync: "a revision is applied", action: "suspend"},
	{name: "it is suspended for a reason", sync: "a revision is applied", action: "suspend", parameters: map[string]string{"reason": "EKS is upgraded"}},
	{name: "it is suspended again, for no reason", sync: "it is suspended for a reason", action: "suspend", parameters: map[string]string{}},
	{name: "it is suspended again, without an end", sync: "it is suspended until a time", action: "suspend", parameters: map[string]string{"reason": "EKS takes longer"}},
	{name: "it is resumed before its time", sync: "it is suspended until a time", action: "resume"},
	{name: "it is resumed", sync: "it is suspended", action: "resume"},
	{name: "it is resumed where there was a reason", sync: "it is suspended for a reason", action: "resume", parameters: map[string]string{}},
	{name: "what waits is confirmed", sync: "a deletion waits for a confirmation", action: "confirm", parameters: map[string]string{"token": token}},
	{name: "what waits is confirmed in the place of another token", sync: "a deletion waits, and another token is quoted", action: "confirm", parameters: map[string]string{"token": token}},
	{name: "more waits by now than the person has read", sync: "a deletion waits for a confirmation", action: "confirm", parameters: map[string]string{"token": "deletions-1-e10552fbc644de1a82c3e94da93be1d2454f4ff7+2Node"}, refusal: "what waits now is confirmed by another token: read the health's message again"},
	{name: "a confirmation quotes no token", sync: "a deletion waits for a confirmation", action: "confirm", parameters: map[string]string{"token": ""}, refusal: "the parameter token is missing: copy it from the end of the health's message"},
	{name: "a confirmation is run before Argo CD 3.1", sync: "a deletion waits for a confirmation", action: "confirm", refusal: "the parameter token is missing: copy it from the end of the health's message"},
	{name: "nothing waits for the confirmation", sync: "a revision is applied", action: "confirm", parameters: map[string]string{"token": token}, refusal: "nothing waits for a confirmation"},
}

// enabled are the actions that a Sync of testdata has; those of an Argo CD before 3.1 lack confirm.
var enabled = map[string]string{
	"no run has begun":                              "reconcile suspend",
	"a revision is applied":                         "reconcile suspend",
	"it is suspended":                               "resume",
	"it is suspended until a time":                  "resume",
	"it is suspended while a deletion waits":        "resume",
	"a deletion waits for a confirmation":           "confirm reconcile suspend",
	"replacing nodes waits for a confirmation":      "confirm reconcile suspend",
	"a deletion waits, and another token is quoted": "confirm reconcile suspend",
}

func TestEachActionMakesWhatTheCommandMakes(t *testing.T) {
	c := customizations(t)
	if wrong := wrongActions(t, c); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	type made struct {
		Name   string         `json:"name"`
		Sync   string         `json:"sync"`
		Action string         `json:"action"`
		Patch  map[string]any `json:"patch"`
	}
	var all []made
	schema := sync(t)
	for _, test := range actions {
		if test.refusal != "" {
			continue
		}
		before := named(t, test.sync)
		after, patch, err := run(c, test.action, before, test.parameters)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if problems := schema.problems(after, before); len(problems) > 0 {
			t.Errorf("%s: the API server refuses it: %v", test.name, problems)
		}
		if _, written := patch["status"]; written {
			t.Errorf("%s: the patch has a status: %v", test.name, patch)
		}
		all = append(all, made{test.name, test.sync, test.action, patch})
	}
	raw, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "actions.yaml", string(raw))
}

func TestWithoutTheComponentConfirmASyncHasAllOtherActions(t *testing.T) {
	c, err := Load(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Actions()
	if err != nil {
		t.Fatal(err)
	}
	for sync, newest := range enabled {
		want := strings.TrimPrefix(newest, "confirm ")
		if got, err := discovered(all, named(t, sync), map[string]string{}); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: enabled are %v, %v, want %s", sync, got, err, want)
		}
	}
	if all.Script("confirm") != "" {
		t.Error("confirm is defined")
	}
}

// run runs an action, and returns the object and the merge patch that Argo CD sends.
func run(c Customizations, action string, before map[string]any, parameters map[string]string) (after, patch map[string]any, err error) {
	all, err := c.Actions()
	if err != nil {
		return nil, nil, err
	}
	returned, err := Script{Text: all.Script(action), Parameters: parameters, Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}.Run(before)
	if err != nil {
		return nil, nil, err
	}
	if after, err = Patched(returned, before); err != nil {
		return nil, nil, err
	}
	was, err := json.Marshal(before)
	if err != nil {
		return nil, nil, err
	}
	is, err := json.Marshal(after)
	if err != nil {
		return nil, nil, err
	}
	raw, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return nil, nil, err
	}
	return after, patch, json.Unmarshal(raw, &patch)
}

// wrongActions is what actions refuse or make otherwise than listed, and which are enabled.
func wrongActions(t *testing.T, c Customizations) []string {
	t.Helper()
	var wrong []string
	for _, test := range actions {
		_, patch, err := run(c, test.action, named(t, test.sync), test.parameters)
		refusal := ""
		if err != nil {
			refusal = err.Error()
		}
		if test.refusal != "" && !strings.Contains(refusal, test.refusal) || (err == nil) != (test.refusal == "") {
			wrong = append(wrong, fmt.Sprintf("%s: %v, %v, want the error %q", test.name, patch, err, test.refusal))
		}
	}
	all, err := c.Actions()
	if err != nil {
		return append(wrong, err.Error())
	}
	for sync, newest := range enabled {
		for version, parameters := range map[string]map[string]string{"": {}, " before Argo CD 3.1": nil} {
			want := newest
			if parameters == nil {
				want = strings.TrimPrefix(want, "confirm ")
			}
			got, err := discovered(all, named(t, sync), parameters)
			if err != nil || strings.Join(got, " ") != want {
				wrong = append(wrong, fmt.Sprintf("%s%s: enabled are %v, %v, want %s", sync, version, got, err, want))
			}
		}
	}
	withParameters := named(t, "a revision is applied")
	withParameters["spec"].(map[string]any)["substituteFrom"] = []any{map[string]any{"kind": "ConfigMap", "name": "a"}, map[string]any{"kind": "SSMParameter", "name": "/aws/service/a", "variable": "AMI"}}
	if got, err := discovered(all, withParameters, nil); err != nil || !slices.Contains(got, "update-parameters") {
		wrong = append(wrong, fmt.Sprintf("with an SSM parameter: enabled are %v, %v", got, err))
	}
	return wrong
}

// discovered are the actions that are enabled, by name.
func discovered(all Actions, object map[string]any, parameters map[string]string) ([]string, error) {
	raw, err := Script{Text: all.Discovery, Parameters: parameters}.Run(object)
	if err != nil {
		return nil, err
	}
	var found map[string]struct {
		Disabled    bool
		DisplayName string
		Params      []struct{ Name string }
	}
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if all.Script(name) == "" || found[name].DisplayName == "" {
			return nil, fmt.Errorf("the action %s has no definition or no name", name)
		}
		if !found[name].Disabled {
			out = append(out, name)
		}
	}
	if len(found) != len(all.Definitions) {
		return nil, fmt.Errorf("%d actions are discovered, and %d defined", len(found), len(all.Definitions))
	}
	return out, nil
}

// named is a Sync of testdata.
func named(t *testing.T, name string) map[string]any {
	t.Helper()
	for _, one := range cases(t, files["Sync"]) {
		if one.Name == name {
			return runtime.DeepCopyJSON(one.Object)
		}
	}
	t.Fatalf("testdata has no Sync of which %s", name)
	return nil
}
