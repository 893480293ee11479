package bootstrap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// syncFile writes a file with a Sync of this spec.
func syncFile(t *testing.T, metadata, spec string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sync.yaml")
	text := "apiVersion: poolwright.dev/v1alpha1\nkind: Sync\nmetadata: " + metadata + "\nspec: " + spec + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheSyncOfAFileIsMadeAsItIs(t *testing.T) {
	const home = "poolwright-system"
	dir, _ := clone(t, "https://git.example.com/team/nodes.git", true)
	named := func(name string) map[string]any { return map[string]any{"name": name} }
	flux := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "dev"}}
	flux.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "GitRepository", Name: "nodes"}
	ref := map[string]any{"kind": "GitRepository", "name": "nodes"}
	for name, c := range map[string]struct {
		file, metadata string
		req            SyncRequest
		has            []client.Object
		want           map[string]any
		err            string
		warns          []string
	}{
		"who signs, a GitHub App and a proxy": {
			file: `{source: {git: {url: "https://git.example.com/x", ref: {branch: b}, provider: github, secretRef: {name: app}, proxySecretRef: {name: proxy}, verify: {mode: EveryCommit, secretRef: {name: signers}}, fastForwardOnly: false}}}`,
			has:  []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "proxy"}}},
			want: map[string]any{"path": "clusters/dev", "source": map[string]any{"git": map[string]any{
				"url": "https://git.example.com/x", "ref": map[string]any{"branch": "b"}, "provider": "github", "secretRef": named("app"), "proxySecretRef": named("proxy"),
				"verify": map[string]any{"mode": "EveryCommit", "secretRef": named("signers")}, "fastForwardOnly": false}}},
			warns: []string{"Secret app is not in namespace poolwright-system", "Secret signers is not in"},
		},
		"a tag, and what is not of its source": {
			file: `{source: {git: {url: "https://git.example.com/x", ref: {tag: v1}}}, path: clusters/prod, drift: Report, prune: false, substitute: {A: b}}`,
			want: map[string]any{"path": "clusters/prod", "drift": "Report", "prune": false, "substitute": map[string]any{"A": "b"},
				"source": map[string]any{"git": map[string]any{"url": "https://git.example.com/x", "ref": map[string]any{"tag": "v1"}}}},
		},
		"a repository without a branch": {
			file: `{source: {git: {url: "https://git.example.com/x"}}}`,
			want: map[string]any{"path": "clusters/dev", "source": map[string]any{"git": map[string]any{"url": "https://git.example.com/x", "ref": map[string]any{"branch": "main"}}}},
		},
		"flags win over it": {
			file: `{source: {git: {url: "https://git.example.com/x", ref: {tag: v1}, provider: generic}}, path: clusters/prod}`,
			req:  SyncRequest{Branch: "main", URL: "https://o.example.com/y", Path: "p", Secret: "git"},
			has:  []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "git"}}},
			want: map[string]any{"path": "p", "source": map[string]any{"git": map[string]any{"url": "https://o.example.com/y", "ref": map[string]any{"branch": "main"}, "provider": "generic", "secretRef": named("git")}}},
		},
		"a source of Flux": {
			file: `{sourceRef: {kind: GitRepository, name: nodes}, path: clusters/dev}`,
			want: map[string]any{"path": "clusters/dev", "sourceRef": ref},
		},
		"a file with variables only": {
			file: `{substitute: {A: b}}`,
			want: map[string]any{"path": "clusters/dev", "substitute": map[string]any{"A": "b"}, "source": map[string]any{"git": map[string]any{"url": "https://git.example.com/team/nodes.git", "ref": map[string]any{"branch": "trunk"}}}},
		},
		"a live Sync with a source of Flux stays as it is": {
			has:  []client.Object{flux},
			want: map[string]any{"path": "clusters/dev"},
		},
		"an address for a live Sync with a source of Flux": {has: []client.Object{flux}, req: SyncRequest{URL: "https://o.example.com/y"}, err: "--url"},
		"a branch for a source of Flux":                    {file: `{sourceRef: {kind: GitRepository, name: nodes}}`, req: SyncRequest{Branch: "main"}, err: "--branch"},
		"a repository in the place of a source of Flux":    {has: []client.Object{flux}, file: `{source: {git: {url: "https://git.example.com/x"}}}`, err: "delete the Sync first"},
		"another namespace":                                {metadata: "{name: dev, namespace: gpu}", file: `{path: .}`, err: "pass -n gpu"},
		"a field that is none":                             {file: `{source: {git: {url: "https://git.example.com/x", verification: {}}}}`, err: "verification"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file != "" {
				if c.metadata == "" {
					c.metadata = "{name: dev, namespace: poolwright-system}"
				}
				c.req.Variables = variables.Input{SyncFile: syncFile(t, c.metadata, c.file)}
			}
			spec, warnings, err := c.req.follow(t.Context(), reconcilertest.InstalledClient(t, c.has...), home, dir, "clusters/dev")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(c.want, spec); d != "" {
				t.Errorf("spec (-want +got):\n%s", d)
			}
			for i, want := range c.warns {
				if i >= len(warnings) || !strings.Contains(warnings[i], want) {
					t.Errorf("warnings: %q", warnings)
				}
			}
			if len(warnings) != len(c.warns) {
				t.Errorf("warnings: %q", warnings)
			}
		})
	}
}

func TestTheSyncIsCalledAsItsFileHasIt(t *testing.T) {
	for name, c := range map[string]struct {
		metadata, spec string
		req            SyncRequest
		want           string
	}{
		"the file's name":           {"{name: gpus}", "{path: clusters/prod}", SyncRequest{}, "gpus"},
		"the flag's name":           {"{name: gpus}", "{}", SyncRequest{Name: "other"}, "other"},
		"the folder of its path":    {"{}", "{path: clusters/prod}", SyncRequest{}, "prod"},
		"the folder of the request": {"{}", "{path: clusters/prod}", SyncRequest{Path: "clusters/qa"}, "qa"},
		"the folder that is given":  {"{}", "{}", SyncRequest{}, "dev"},
	} {
		t.Run(name, func(t *testing.T) {
			c.req.Variables = variables.Input{SyncFile: syncFile(t, c.metadata, c.spec)}
			file, err := c.req.Variables.Read()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.req.name(file, "clusters/dev", "poolwright-system"); got != c.want || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestOnlyFieldsThatBootstrapAppliedAreAppliedAgain(t *testing.T) {
	live := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}
	live.Spec.Source.Git = v1alpha1.GitSource{URL: "https://git.example.com/x", ProxySecretRef: &v1alpha1.SecretRef{Name: "proxy"}, Verify: &v1alpha1.GitVerification{SecretRef: v1alpha1.SecretRef{Name: "signers"}}}
	live.Spec.Drift, live.Spec.Suspend = v1alpha1.DriftReport, true
	managed := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", APIVersion: "poolwright.dev/v1alpha1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	if own, err := applied(live); err != nil || !cmp.Equal(own, v1alpha1.SyncSpec{}) {
		t.Errorf("of a Sync that others made: %+v, %v", own, err)
	}
	live.ManagedFields = []metav1.ManagedFieldsEntry{
		managed(v1alpha1.FieldManager, `{"f:spec":{"f:drift":{},"f:source":{"f:git":{"f:url":{},"f:verify":{"f:secretRef":{"f:name":{}}}}}}}`),
		managed("kubectl", `{"f:spec":{"f:suspend":{},"f:source":{"f:git":{"f:proxySecretRef":{"f:name":{}}}}}}`),
	}
	want := v1alpha1.SyncSpec{Drift: v1alpha1.DriftReport}
	want.Source.Git = v1alpha1.GitSource{URL: "https://git.example.com/x", Verify: &v1alpha1.GitVerification{SecretRef: v1alpha1.SecretRef{Name: "signers"}}}
	own, err := applied(live)
	if d := cmp.Diff(want, own); d != "" || err != nil {
		t.Error(d, err)
	}
	// What kubectl apply has set becomes ours by the next apply, which deletes what it lacks.
	live.ManagedFields[1].Manager, live.ManagedFields[1].Operation = "kubectl-client-side-apply", metav1.ManagedFieldsOperationUpdate
	want.Suspend, want.Source.Git.ProxySecretRef = true, live.Spec.Source.Git.ProxySecretRef
	own, err = applied(live)
	if d := cmp.Diff(want, own); d != "" || err != nil {
		t.Error(d, err)
	}
}

// A file that has only variables changes nothing of what is followed.
func TestAFileWithVariablesOnlyKeepsTheRefThatSomebodyHasSet(t *testing.T) {
	const url = "https://live.example.com/x"
	dir, _ := clone(t, "https://git.example.com/team/nodes.git", true)
	for name, c := range map[string]struct {
		live, want v1alpha1.GitRef
	}{
		// A ref that is left out stays as it is.
		"a tag":          {v1alpha1.GitRef{Tag: "v1"}, v1alpha1.GitRef{}},
		"a commit":       {v1alpha1.GitRef{Commit: "0123456789012345678901234567890123456789"}, v1alpha1.GitRef{}},
		"another branch": {v1alpha1.GitRef{Branch: "theirs"}, v1alpha1.GitRef{Branch: "theirs"}},
	} {
		t.Run(name, func(t *testing.T) {
			// Bootstrap made it with a branch, which it no longer owns.
			live := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev"}}
			live.Spec.Source.Git = v1alpha1.GitSource{URL: url, Ref: c.live}
			live.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", APIVersion: "poolwright.dev/v1alpha1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:source":{"f:git":{"f:url":{}}}}}`),
			}}
			r := SyncRequest{Variables: variables.Input{SyncFile: syncFile(t, "{name: dev}", "{substitute: {A: b}}")}}
			file, err := r.Variables.Read()
			if err != nil {
				t.Fatal(err)
			}
			desired, err := r.base(file, live)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.followGit(file, &desired, live, dir); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(v1alpha1.GitSource{URL: url, Ref: c.want}, desired.Source.Git); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
