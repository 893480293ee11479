package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

func TestCompletion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Connection", "close") // a connection of one bubble must not serve another
		switch {
		case strings.HasSuffix(r.URL.Path, "/namespaces/gitops/syncs"):
			fmt.Fprint(w, `{"kind":"SyncList","apiVersion":"poolwright.dev/v1alpha1","items":[{"metadata":{"name":"dev"}},{"metadata":{"name":"nodes"}}]}`)
		case r.URL.Path == "/api/v1/namespaces":
			fmt.Fprint(w, `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"gitops"}},{"metadata":{"name":"poolwright-system"}}]}`)
		case r.URL.Path == "/api/v1/namespaces/ml/pods" && r.URL.Query().Get("fieldSelector") == "status.phase=Pending":
			fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"train-7"}},{"metadata":{"name":"train-6"}}]}`)
		case r.URL.Path == "/api/v1/nodes":
			fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"node-a"}}]}`)
		case r.URL.Path == "/apis/karpenter.sh/v1/nodepools":
			fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[{"metadata":{"name":"gpu"}}]}`)
		case r.URL.Path == "/api/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"namespaces","kind":"Namespace","verbs":["list"]},{"name":"pods","kind":"Pod","namespaced":true,"verbs":["list"]},{"name":"nodes","kind":"Node","verbs":["list"]}]}`)
		case r.URL.Path == "/api":
			fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case r.URL.Path == "/apis/poolwright.dev/v1alpha1":
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"poolwright.dev/v1alpha1","resources":[{"name":"syncs","kind":"Sync","namespaced":true,"verbs":["list"]}]}`)
		case r.URL.Path == "/apis/karpenter.sh/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"karpenter.sh/v1","resources":[{"name":"nodepools","kind":"NodePool","verbs":["list"]}]}`)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"poolwright.dev","versions":[{"groupVersion":"poolwright.dev/v1alpha1","version":"v1alpha1"}]},{"name":"karpenter.sh","versions":[{"groupVersion":"karpenter.sh/v1","version":"v1"}]}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig(t, server.URL)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the formats of lint":         {[]string{"lint", "-o", ""}, "text\njson\nyaml\nsarif\ngithub\n:4\n"},
		"the formats of plan":         {[]string{"plan", "-o", ""}, "text\njson\nyaml\nmarkdown\n:4\n"},
		"the formats of cost":         {[]string{"cost", "-o", ""}, "text\njson\nyaml\nmarkdown\n:4\n"},
		"the formats of convert":      {[]string{"convert", "-o", ""}, "text\njson\nyaml\n:4\n"},
		"the formats of bootstrap":    {[]string{"bootstrap", "-o", ""}, "text\njson\nyaml\nmarkdown\n:4\n"},
		"the formats of version":      {[]string{"version", "-o", ""}, "text\njson\nyaml\n:4\n"},
		"the formats of check":        {[]string{"check", "-o", ""}, "text\njson\nyaml\n:4\n"},
		"the formats of get":          {[]string{"get", "-o", ""}, "wide\njson\nyaml\nname\n:4\n"},
		"the sections of get":         {[]string{"get", ""}, "syncs\npools\nnodes\npullrequests\ndrift\nquota\n:4\n"},
		"no names of a section":       {[]string{"get", "drift", ""}, ":4\n"},
		"the Syncs of get":            {[]string{"get", "syncs", "-n", "gitops", "dev", ""}, "nodes\n:4\n"},
		"the kinds of explain":        {[]string{"explain", ""}, "pod\nnode\npool\n:4\n"},
		"the pending pods of explain": {[]string{"explain", "pod", "-n", "ml", ""}, "train-6\ntrain-7\n:4\n"},
		"the nodes of explain":        {[]string{"explain", "node", ""}, "node-a\n:4\n"},
		"the pools of explain":        {[]string{"explain", "nodepool", ""}, "gpu\n:4\n"},
		"no names of another kind":    {[]string{"explain", "secret", ""}, ":4\n"},
		"no second name of explain":   {[]string{"explain", "pool", "gpu", ""}, ":4\n"},
		"the formats of explain":      {[]string{"explain", "-o", ""}, "json\nyaml\n:4\n"},
		"the Syncs of wait":           {[]string{"wait", "-n", "gitops", ""}, "dev\nnodes\n:4\n"},
		"the conditions of wait":      {[]string{"wait", "--for", ""}, "ready\napplied=\nrollout\n:4\n"},
		"the contexts of check":       {[]string{"check", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts":                {[]string{"plan", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts of bootstrap":   {[]string{"bootstrap", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts of uninstall":   {[]string{"uninstall", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts of run":         {[]string{"run", "--context", ""}, "dev\nprod\n:4\n"},
		"the contexts of reconcile":   {[]string{"reconcile", "--context", ""}, "dev\nprod\n:4\n"},
		"the namespaces":              {[]string{"plan", "-n", ""}, "gitops\npoolwright-system\n:4\n"},
		"the kubeconfig's clusters":   {[]string{"plan", "--cluster", ""}, "c\n:4\n"},
		"the Syncs of a namespace":    {[]string{"reconcile", "-n", "gitops", ""}, "dev\nnodes\n:4\n"},
		"nothing after one Sync":      {[]string{"suspend", "-n", "gitops", "dev", ""}, ":4\n"},
		"no Sync that cannot be read": {[]string{"resume", "-n", "other", ""}, ":4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			// Completion gives up after three seconds. Time stands still here while a request is
			// under way, so that only a hang reaches them.
			synctest.Test(t, func(t *testing.T) {
				if r := execute(t, append([]string{"__complete"}, test.args...)...); r.out != test.want {
					t.Errorf("got %q, stderr %q", r.out, r.err)
				}
			})
		})
	}
}

func TestTheRevisionsOfPlanAreThoseOfTheFoldersClone(t *testing.T) {
	root, commit := t.TempDir(), strings.Repeat("a", 40)+"\n"
	for name, text := range map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\trepositoryformatversion = 0\n", ".git/objects/info/none": "",
		".git/refs/heads/main": commit, ".git/refs/remotes/origin/main": commit, ".git/refs/tags/v1": commit, "clusters/dev/a.yaml": "",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for folder, want := range map[string]string{root: "main\norigin/main\nv1\n:4\n", filepath.Join(root, "clusters", "dev"): "main\norigin/main\nv1\n:4\n", t.TempDir(): ":4\n"} {
		for _, flag := range []string{"--base", "--head"} {
			if r := execute(t, "__complete", "plan", folder, flag, ""); r.out != want {
				t.Errorf("%s of %s: got %q, stderr %q", flag, folder, r.out, r.err)
			}
		}
	}
}
