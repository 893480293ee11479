package cli

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/internal/golden"
)

// oneSync is an API server with one Sync, which merges patches into it.
func oneSync(t *testing.T) {
	t.Helper()
	live := map[string]any{
		"apiVersion": "poolwright.dev/v1alpha1", "kind": "Sync", "metadata": map[string]any{"namespace": "poolwright-system", "name": "dev", "generation": 1, "resourceVersion": "1"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Succeeded", "message": "Applied revision main@sha1:11"}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var response any
		switch r.URL.Path {
		case "/apis":
			response = json.RawMessage(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"poolwright.dev","versions":[{"groupVersion":"poolwright.dev/v1alpha1","version":"v1alpha1"}]},{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}`)
		case "/apis/apps/v1":
			response = json.RawMessage(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true,"verbs":["get"]}]}`)
		case "/apis/poolwright.dev/v1alpha1":
			response = json.RawMessage(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"poolwright.dev/v1alpha1","resources":[{"name":"syncs","kind":"Sync","namespaced":true,"verbs":["list"]}]}`)
		case "/apis/poolwright.dev/v1alpha1/namespaces/poolwright-system/syncs/dev":
			if r.Method == http.MethodPatch {
				var patch map[string]any
				if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
					t.Error(err)
				}
				merge(live, patch)
			}
			response = live
		default:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if err := json.NewEncoder(w).Encode(response); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	config := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
}

// merge applies a JSON merge patch (RFC 7386).
func merge(into, patch map[string]any) {
	for name, value := range patch {
		fields, isObject := value.(map[string]any)
		switch before, was := into[name].(map[string]any); {
		case value == nil:
			delete(into, name)
		case isObject && was:
			merge(before, fields)
		case isObject:
			into[name] = maps.Clone(fields)
		default:
			into[name] = value
		}
	}
}

func TestTheCommandsForASyncPrintItAsGetDoes(t *testing.T) {
	const commit = "0123456789012345678901234567890123456789"
	for name, test := range map[string]struct {
		args []string
		code int
		want func(get.Sync) bool
	}{
		"suspend for a time": {[]string{"suspend", "dev", "--for", "2h", "--reason", "EKS is upgraded"}, 0, func(s get.Sync) bool {
			return s.Suspended && s.SuspendReason == "EKS is upgraded" && s.SuspendedUntil != nil
		}},
		"suspend without an end": {[]string{"suspend", "dev"}, 0, func(s get.Sync) bool { return s.Suspended && s.SuspendedUntil == nil }},
		"resume":                 {[]string{"resume", "dev", "--wait=false"}, 0, func(s get.Sync) bool { return !s.Suspended }},
		"reconcile":              {[]string{"reconcile", "dev", "--wait=false"}, 0, func(s get.Sync) bool { return s.Ready == "True" }},
		"roll back":              {[]string{"rollback", "dev", "--wait=false", "--to", commit}, 0, func(s get.Sync) bool { return strings.Contains(s.RolledBackTo, commit) }},
		"wait":                   {[]string{"wait", "dev", "--for=applied=" + commit, "--timeout=0"}, exitDifferent, func(s get.Sync) bool { return s.Reason == "Succeeded" }},
	} {
		t.Run(name, func(t *testing.T) {
			oneSync(t)
			if r := execute(t, append(slices.Clone(test.args), "-o", "name")...); r.code != test.code || r.out != "sync.poolwright.dev/dev\n" {
				t.Errorf("-o name: exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
			}
			for _, format := range []string{"json", "yaml"} {
				r := execute(t, append(slices.Clone(test.args), "-o", format)...)
				var report get.Report
				if err := yaml.Unmarshal([]byte(r.out), &report); err != nil || r.code != test.code || len(report.Syncs) != 1 || !test.want(report.Syncs[0]) {
					t.Errorf("-o %s: exit %d, %v, stdout %q, stderr %q", format, r.code, err, r.out, r.err)
				}
				validate(t, "Overview", r.out)
			}
			if r := execute(t, append(slices.Clone(test.args), "-o", "wide")...); r.code != exitError || r.out != "" || !strings.Contains(r.err, "not one of text, json, yaml, name") {
				t.Errorf("-o wide: exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
			}
		})
	}
	t.Run("a reconciliation of a suspended Sync prints nothing", func(t *testing.T) {
		oneSync(t)
		execute(t, "suspend", "dev", "--for", "2h")
		if r := execute(t, "reconcile", "dev", "-o", "json"); r.code != exitError || r.out != "" || !strings.Contains(r.err, "suspended until ") {
			t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
		}
	})
}

func TestASuspensionOfNoTimeIsRefused(t *testing.T) {
	oneSync(t)
	for _, length := range []string{"0", "-2h", "20ms", "2"} {
		if r := execute(t, "suspend", "dev", "--for="+length); r.code != exitError || !strings.Contains(r.err, "--for") {
			t.Errorf("--for=%s: exit %d, stderr %q", length, r.code, r.err)
		}
	}
}

func TestInitPrintsTheFilesAndTheirObjects(t *testing.T) {
	for format, name := range map[string]string{"text": "init-text.golden", "json": "init-json.golden", "name": "init-name.golden"} {
		t.Run(format, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			r := execute(t, "init", "clusters/dev", "--cluster", "dev", "--region", "eu-west-1", "--account", "111122223333", "-o", format)
			if r.code != 0 {
				t.Fatalf("exit %d, %s", r.code, r.err)
			}
			golden.Compare(t, file, r.out)
		})
	}
}
