package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/uninstall"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// knife is a connection to the API server that is cut at the k-th write: the
// server still sees that one, and nobody hears its answer.
type knife struct {
	next http.RoundTripper
	kill context.CancelFunc

	mu       sync.Mutex
	k        int
	observed int
}

// RoundTrip implements http.RoundTripper.
func (n *knife) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" || strings.Contains(r.URL.Path, "/selfsubject") {
		return n.next.RoundTrip(r)
	}
	n.mu.Lock()
	n.observed++
	at := n.observed
	n.mu.Unlock()
	if at < n.k {
		return n.next.RoundTrip(r)
	}
	if at == n.k {
		if response, err := n.next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context()))); err == nil {
			response.Body.Close()
		}
	}
	n.kill()
	return nil, errors.New("killed")
}

// cutAt runs do with a connection that is cut at the k-th write, and reports
// whether it came to that.
func cutAt(ctx context.Context, cfg *rest.Config, k int, do func(context.Context, *rest.Config) error) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := &knife{k: k, kill: cancel}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { n.next = next; return n })
	err := do(ctx, cfg)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.observed >= k, err
}

// stride is how many writes lie between two cuts of the test below.
const stride = 3

func TestWhereverItIsCutOffTheNextRunFinishes(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it starts a control plane")
	}
	config := sandbox.DefaultConfig()
	config.WithoutGit = true
	target := sandboxtest.Start(t, config)
	for name, value := range target.Env() {
		t.Setenv(name, value)
	}
	dir := t.TempDir()
	declaration := fmt.Sprintf("apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: cluster}\nspec: {name: %s, region: %s, account: %q, controllerRole: {}}\n",
		config.AWS.Cluster.Name, config.AWS.Region, config.AWS.Account)
	if err := os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(declaration), 0o600); err != nil {
		t.Fatal(err)
	}
	expectNoReport := func(string) {}
	todo, following := 0, SyncRequest{URL: "https://git.example.com/nodes.git", Branch: "main"}
	install := func(ctx context.Context, cfg *rest.Config) error {
		b, err := Plan(ctx, Request{
			REST: cfg, Namespace: "gpu", Dir: dir, Image: "registry.example.com/poolwright:1", Progress: expectNoReport,
			Sync: following,
		})
		if err != nil {
			return err
		}
		if todo = b.ChangeCount(); todo == 0 {
			return nil
		}
		_, err = b.Apply(ctx)
		return err
	}
	steps := 0
	remove := func(ctx context.Context, cfg *rest.Config) error {
		u, err := uninstall.Plan(ctx, uninstall.Request{REST: cfg, Namespace: "gpu", Timeout: 10 * time.Minute, Progress: expectNoReport})
		if err != nil {
			return err
		}
		steps = len(u.Steps())
		return u.Run(ctx)
	}
	finish := func(what string, do func(context.Context, *rest.Config) error, left *int, k int) {
		for range 2 {
			if err := do(t.Context(), target.REST()); err != nil {
				t.Fatalf("%s, cut at write %d, does not finish: %v", what, k, err)
			}
		}
		if *left != 0 {
			t.Fatalf("%s, cut at write %d, has %d things to do when all was done", what, k, *left)
		}
	}
	c, err := connect.DirectClient(target.REST())
	if err != nil {
		t.Fatal(err)
	}
	// The declared namespace is not the role's: say so once.
	if err := install(t.Context(), target.REST()); err == nil || !strings.Contains(err.Error(), "spec.controllerRole.namespace") {
		t.Fatalf("got %v", err)
	}
	declaration = strings.Replace(declaration, "controllerRole: {}", "controllerRole: {namespace: gpu}", 1)
	if err := os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(declaration), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := install(t.Context(), target.REST()); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{
		`{source: {git: {url: "https://git.example.com/nodes.git", provider: github, secretRef: {name: app}, proxySecretRef: {name: proxy}, verify: {secretRef: {name: signers}}}}, drift: Report}`,
		`{sourceRef: {kind: GitRepository, name: nodes, namespace: flux-system}, drift: Report}`,
	} {
		for _, byKubectl := range []bool{false, true} {
			name := syncFile(t, "{name: by-file, namespace: gpu}", source)
			if byKubectl {
				file, err := variables.Input{SyncFile: name}.Read()
				if err == nil {
					err = c.Create(t.Context(), file.Sync, client.FieldOwner(kubectl))
				}
				if err != nil {
					t.Fatal(err)
				}
			} else {
				following = SyncRequest{Variables: variables.Input{SyncFile: name}}
				if err := install(t.Context(), target.REST()); err != nil {
					t.Fatal(err)
				}
			}
			following = SyncRequest{Name: "by-file", Path: "clusters/dev"}
			finish("bootstrap without the file of its Sync", install, &todo, 0)
			var got v1alpha1.Sync
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "gpu", Name: "by-file"}, &got); err != nil {
				t.Fatal(err)
			}
			git := got.Spec.Source.Git
			whole := git.Provider == "github" && git.ProxySecretRef != nil && git.Verify != nil || got.Spec.SourceRef != nil && git.URL == ""
			if !whole || got.Spec.Drift != v1alpha1.DriftReport || got.Spec.Path != "clusters/dev" {
				t.Errorf("by kubectl: %t, of %s it has %+v", byKubectl, source, got.Spec)
			}
			if err := c.Delete(t.Context(), &got); err != nil {
				t.Fatal(err)
			}
		}
	}
	following = SyncRequest{URL: "https://git.example.com/nodes.git", Branch: "main"}
	finish("uninstall", remove, &steps, 0)
	t.Log("the Syncs of files and of kubectl are kept")
	for k := 1; ; k += stride {
		installing, err := cutAt(t.Context(), target.REST(), k, install)
		if installing && err == nil {
			t.Fatalf("bootstrap, cut at write %d, says that all went well", k)
		}
		finish("bootstrap", install, &todo, k)
		removing, _ := cutAt(t.Context(), target.REST(), k, remove)
		finish("uninstall", remove, &steps, k)
		var crds apiextensionsv1.CustomResourceDefinitionList
		if err := c.List(t.Context(), &crds); err != nil || len(crds.Items) > 0 {
			t.Fatalf("cut at write %d, %d CRDs are left, %v", k, len(crds.Items), err)
		}
		if !installing && !removing {
			break
		}
	}
	// Whoever deletes the namespace by hand leaves the rest to uninstall.
	if err := install(t.Context(), target.REST()); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}); err != nil {
		t.Fatal(err)
	}
	finish("uninstall after its namespace", remove, &steps, 0)
	var roles rbacv1.ClusterRoleList
	if err := c.List(t.Context(), &roles, client.MatchingLabels{installation.PartOfLabel: installation.Deployment}); err != nil || len(roles.Items) > 0 {
		t.Errorf("%d roles are left, %v", len(roles.Items), err)
	}
}
