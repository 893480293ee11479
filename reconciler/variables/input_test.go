package variables

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const syncText = `apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: dev, namespace: poolwright-system}
spec:
  source: {git: {url: https://git.example.com/nodes.git}}
  substitute: {A: file, B: file}
  substituteFrom:
    - {kind: ConfigMap, name: settings}
    - {kind: SSMParameter, name: /aws/service/x, variable: AMI}
`

const besideText = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {C: c}
---
apiVersion: v1
kind: Secret
metadata: {name: tokens, namespace: poolwright-system}
data: {D: aHVudGVyMg==}
stringData: {E: hunter3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: elsewhere, namespace: other}
data: {C: c}
---
apiVersion: v1
kind: Namespace
metadata: {name: poolwright-system}
`

func fileOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sync.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFileGivesTheSyncAndWhatLiesBesideIt(t *testing.T) {
	in := Input{Values: map[string]string{"B": "flag", "AMI": "ami-1"}, SyncFile: fileOf(t, syncText+besideText)}
	file, err := in.Read()
	if err != nil {
		t.Fatal(err)
	}
	sync := in.Apply(&v1alpha1.Sync{}, file)
	if diff := cmp.Diff(map[string]string{"A": "file", "B": "flag", "AMI": "ami-1"}, sync.Spec.Substitute); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]v1alpha1.SubstituteReference{{Kind: "ConfigMap", Name: "settings"}}, sync.Spec.SubstituteFrom); diff != "" || sync.Name != "dev" {
		t.Errorf("%s, %s", sync.Name, diff)
	}
	for name, found := range map[string]bool{"ConfigMap settings": true, "Secret tokens": true, "ConfigMap elsewhere": false, "ConfigMap tokens": false} {
		kind, name, _ := strings.Cut(name, " ")
		source, ok, err := file.Lookup(nil)(t.Context(), v1alpha1.SubstituteReference{Kind: kind, Name: name, Optional: true})
		if err != nil || ok != found {
			t.Errorf("%s %s: %v, %v", kind, name, ok, err)
		}
		if strings.Contains(fmt.Sprintf("%+v", source), "hunter") {
			t.Errorf("%s %s prints its values", kind, name)
		}
	}
}

func TestAFileThatCannotBeMeantIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no Sync":                    {besideText, "this holds no Sync (apiVersion: poolwright.dev/v1alpha1)"},
		"two Syncs":                  {syncText + "---\n" + syncText, "document 2: this is a second Sync; name a file with one"},
		"a field that is none":       {strings.Replace(syncText, "substitute:", "subsitute:", 1), `unknown field "spec.subsitute"`},
		"a Secret that is no base64": {syncText + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: tokens}\ndata: {D: hunter2!}\n", "Secret tokens: data[D] is not base64; put text into stringData"},
		"no YAML":                    {"a: [", "document 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (Input{SyncFile: fileOf(t, c.text)}).Read()
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
	if _, err := (Input{SyncFile: filepath.Join(t.TempDir(), "none")}).Read(); err == nil {
		t.Error("a file that is not there is read")
	}
}
