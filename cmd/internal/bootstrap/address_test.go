package bootstrap

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// refusedSources are addresses and references that the controller, or the Sync's kind, refuses.
var refusedSources = map[string]struct {
	req SyncRequest
	// file is the spec of the Sync of --sync-file; empty for no file.
	file string
	// wants are what the error has: what is wrong with which flag, and the flag of the remedy.
	wants []string
}{
	"the short form of ssh":                 {req: SyncRequest{URL: "git@git.example.com:nodes.git"}, wants: []string{"--url: ", "write ssh://git@host/path", "--url ssh://git@HOST/PATH"}},
	"a password":                            {req: SyncRequest{URL: "https://me:hunter2@git.example.com/nodes"}, wants: []string{"--url: ", "it holds credentials", "with --secret"}},
	"an @ in the path":                      {req: SyncRequest{URL: "https://git.example.com/hunter2@nodes"}, wants: []string{"--url: ", "it holds an @"}},
	"http to another machine":               {req: SyncRequest{URL: "http://git.example.com/nodes"}, wants: []string{"--url: ", "use https"}},
	"a host without a repository":           {req: SyncRequest{URL: "https://git.example.com/"}, wants: []string{"--url: ", "no repository"}},
	"Azure DevOps":                          {req: SyncRequest{URL: "https://dev.azure.com/team/nodes/_git/nodes"}, wants: []string{"--url: ", "let Flux fetch it"}},
	"a branch that Git refuses":             {req: SyncRequest{Branch: "a..b"}, wants: []string{"--branch: ", `"a..b"`}},
	"an address of the file":                {file: `{source: {git: {url: "http://git.example.com/nodes"}}}`, wants: []string{"--sync-file ", "sync.yaml: spec.source.git.url: ", "--url https://HOST/PATH"}},
	"a tag of the file":                     {file: `{source: {git: {url: "https://git.example.com/nodes", ref: {tag: "v 1"}}}}`, wants: []string{"--sync-file ", "sync.yaml: spec.source.git.ref: ", `"v 1"`}},
	"a commit of the file that is short":    {file: `{source: {git: {url: "https://git.example.com/nodes", ref: {commit: e15a32f}}}}`, wants: []string{"spec.source.git.ref: ", `"e15a32f"`}},
	"a branch and a commit of the file":     {file: `{source: {git: {url: "https://git.example.com/nodes", ref: {branch: main, commit: "0123456789012345678901234567890123456789"}}}}`, wants: []string{"spec.source.git.ref: ", "only one of"}},
	"a flag, where the file has a good one": {req: SyncRequest{URL: "http://git.example.com/nodes"}, file: `{source: {git: {url: "https://git.example.com/nodes"}}}`, wants: []string{"--url: "}},
}

func TestWhatCannotBeFollowedIsRefusedBeforeAnythingElse(t *testing.T) {
	for name, c := range refusedSources {
		t.Run(name, func(t *testing.T) {
			steps, requests, err := planOf(t, c.req, c.file)
			for _, want := range c.wants {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error is %v, and lacks %q", err, want)
				}
			}
			if len(steps) > 0 || requests > 0 {
				t.Errorf("before that, it made %d requests and %q", requests, steps)
			}
		})
	}
}

// What can be followed is refused by what comes next: the folder has no Cluster.
func TestWhatCanBeFollowedIsNotRefused(t *testing.T) {
	for name, c := range map[string]struct {
		req  SyncRequest
		file string
	}{
		"nothing is given":                       {},
		"https and a branch":                     {req: SyncRequest{URL: "https://git.example.com/team/nodes", Branch: "team/a"}},
		"ssh, whose Secret a live Sync may have": {req: SyncRequest{URL: "ssh://git@git.example.com/nodes"}},
		"http to this machine":                   {req: SyncRequest{URL: "http://127.0.0.1:3000/nodes"}},
		"a flag in the place of the file's":      {req: SyncRequest{URL: "https://git.example.com/nodes", Branch: "main"}, file: `{source: {git: {url: "http://git.example.com/nodes", ref: {branch: "a..b"}}}}`},
		"a tag of the file":                      {file: `{source: {git: {url: "https://git.example.com/nodes", ref: {tag: v1}}}}`},
		"a source of Flux":                       {file: `{sourceRef: {kind: GitRepository, name: nodes}}`},
		"a file with variables only":             {file: `{substitute: {A: b}}`},
	} {
		t.Run(name, func(t *testing.T) {
			steps, _, err := planOf(t, c.req, c.file)
			if err == nil || !strings.Contains(err.Error(), "declares no Cluster") || len(steps) == 0 {
				t.Errorf("after %q: %v", steps, err)
			}
		})
	}
}

// planOf plans for a folder without a Cluster. It returns the steps that were begun, and the number of requests to the API server.
func planOf(t *testing.T, r SyncRequest, file string) (steps []string, requests int32, err error) {
	t.Helper()
	var received atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	if file != "" {
		r.Variables = variables.Input{SyncFile: syncFile(t, "{name: dev}", file)}
	}
	dir, _ := clone(t, "", false)
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Plan(t.Context(), Request{
		REST: &rest.Config{Host: server.URL}, Namespace: "poolwright-system", Dir: dir, Image: "example.com/p:1", Sync: r,
		Progress: func(line string) { steps = append(steps, line) },
	})
	return steps, received.Load(), err
}

// The remote of the working copy is of use only where the live Sync has no address, and is refused with what is installed: AWS is
// read after that.
func TestARemoteThatCannotBeFollowedIsRefusedWithWhatIsInstalled(t *testing.T) {
	for name, c := range map[string]struct{ address, want string }{
		"http to another machine": {address: "http://git.example.com/nodes", want: "use https"},
		"Azure DevOps":            {address: "git@ssh.dev.azure.com:v3/team/nodes/nodes", want: "let Flux fetch it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := clone(t, c.address, true)
			b := &Bootstrap{req: Request{Namespace: "gpu", Image: "example.com/p:1"}, direct: reconcilertest.InstalledClient(t)}
			err := b.readInstalled(t.Context(), dir, "clusters/dev")
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--url https://HOST/PATH") {
				t.Errorf("got %v", err)
			}
		})
	}
}
