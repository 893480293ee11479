package argocd

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// health is which of Argo CD's health statuses each object has. The names are those of the testdata.
var health = map[string]map[string]string{
	"Sync": {
		"no run has begun":                                           "Progressing",
		"the source has not responded yet":                           "Progressing",
		"a revision is applied":                                      "Healthy",
		"a changed spec is not applied yet":                          "Progressing",
		"a changed spec cannot be applied, and is tried again":       "Progressing",
		"the source cannot be reached":                               "Progressing",
		"the repository has a problem":                               "Degraded",
		"the spec was changed since a problem":                       "Progressing",
		"a deletion waits for a confirmation":                        "Degraded",
		"a deletion waits, and another token is quoted":              "Degraded",
		"drift is only reported":                                     "Healthy",
		"it is suspended":                                            "Suspended",
		"it is suspended for a reason":                               "Suspended",
		"it is suspended until a time":                               "Suspended",
		"it is suspended until what is no time":                      "Suspended",
		"it is suspended until what is a time but for its separator": "Suspended",
		"it is suspended while a deletion waits":                     "Suspended",
		"replacing nodes waits for a confirmation":                   "Progressing",
		"nodes of an applied revision are to be replaced":            "Healthy",
		"an applied revision is loaded again":                        "Healthy",
		"it is in another namespace":                                 "Degraded",
	},
	"Cluster": {
		"the controller has not observed it":                 "Progressing",
		"the engine runs":                                    "Healthy",
		"the engine runs, and AWS differs":                   "Healthy",
		"no engine is declared":                              "Healthy",
		"another Karpenter is declared":                      "Healthy",
		"the controller restarts to follow changed settings": "Progressing",
		"a setting is invalid":                               "Degraded",
		"another Karpenter leads":                            "Degraded",
		"AWS cannot be reached":                              "Degraded",
		"an older Cluster decides":                           "Degraded",
	},
	"DevicePlugin": {
		"the controller has not observed it": "Progressing",
		"all nodes advertise their GPUs":     "Healthy",
		"the spec was changed since":         "Progressing",
		"a node starts":                      "Healthy",
		"plugins are replaced":               "Progressing",
		"a node has no driver":               "Degraded",
		"a pool is in back-off":              "Degraded",
		"Karpenter refuses an overlay":       "Degraded",
		"an older DevicePlugin counts":       "Degraded",
	},
}

// files of testdata by kind.
var files = map[string]string{"Sync": "syncs.yaml", "Cluster": "clusters.yaml", "DevicePlugin": "deviceplugins.yaml"}

func TestTheHealthOfEachStatusIsAsListed(t *testing.T) {
	c := customizations(t)
	golden(t, "health.txt", messages(t, c))
	if wrong := wrongHealth(t, c); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
}

// messages are all healths with their messages, as a text.
func messages(t *testing.T, c Customizations) string {
	t.Helper()
	var all strings.Builder
	for _, kind := range []string{"Sync", "Cluster", "DevicePlugin"} {
		for _, one := range cases(t, files[kind]) {
			got, err := healthOf(c, kind, one.Object)
			if err != nil {
				got.Message = err.Error()
			}
			fmt.Fprintf(&all, "%s, %s\n  %s: %s\n", kind, one.Name, got.Status, got.Message)
		}
	}
	return all.String()
}

// status is what a script for health returns.
type status struct{ Status, Message string }

func healthOf(c Customizations, kind string, object map[string]any) (status, error) {
	raw, err := Script{Text: c.Health(kind)}.Run(object)
	if err != nil {
		return status{}, err
	}
	var out status
	return out, json.Unmarshal(raw, &out)
}

// wrongHealth is what the scripts return otherwise than listed.
func wrongHealth(t *testing.T, c Customizations) []string {
	t.Helper()
	var wrong []string
	for kind, expected := range health {
		all := cases(t, files[kind])
		for _, one := range all {
			got, err := healthOf(c, kind, one.Object)
			if err != nil || got.Status != expected[one.Name] || got.Message == "" {
				wrong = append(wrong, fmt.Sprintf("%s, %s: %+v, %v, want %q", kind, one.Name, got, err, expected[one.Name]))
			}
		}
		if len(all) != len(expected) {
			wrong = append(wrong, fmt.Sprintf("%s: %d objects are listed, and %d are in testdata", kind, len(expected), len(all)))
		}
	}
	return wrong
}

func TestAScriptHasOnlyTheLibrariesThatArgoCDOpens(t *testing.T) {
	raw, err := Script{Text: `
		local os = require("os")
		return {strings = tostring(string), mathematics = tostring(math), files = tostring(io), commands = tostring(os.execute), date = os.date("!%Y-%m-%dT%H:%M:%SZ")}`,
		Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}.Run(nil)
	want := `{"commands":"nil","date":"2026-01-02T03:04:05Z","files":"nil","mathematics":"nil","strings":"nil"}`
	if err != nil || string(raw) != want {
		t.Errorf("%s, %v", raw, err)
	}
	if _, err := (Script{Text: `while true do end`}).Run(nil); err == nil {
		t.Error("a script without an end is not ended")
	}
}

func customizations(t *testing.T) Customizations {
	t.Helper()
	c, err := Load(filepath.Join("..", ".."), "confirm")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loaded are the files of testdata that were read.
var loaded = map[string][]Case{}

func cases(t *testing.T, file string) []Case {
	t.Helper()
	if all := loaded[file]; all != nil {
		return all
	}
	all, err := Cases(file)
	loaded[file] = all
	if err != nil || len(all) == 0 {
		t.Fatalf("%d objects in %s, %v", len(all), file, err)
	}
	return all
}

// golden compares with a file of testdata, or rewrites it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("it differs from %s; if that is meant, -update rewrites it (-golden +got):\n%s", path, diff)
	}
}
