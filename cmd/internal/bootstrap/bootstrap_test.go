package bootstrap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/variables"
)

func TestARemoteBecomesAnAddressThatTheControllerCanFetch(t *testing.T) {
	for name, c := range map[string]struct{ address, want, err string }{
		"https stays":                             {"https://git.example.com/team/nodes.git", "https://git.example.com/team/nodes.git", ""},
		"credentials are dropped":                 {"https://me:hunter2@git.example.com/team/nodes", "https://git.example.com/team/nodes", ""},
		"a token alone is dropped":                {"https://hunter2@git.example.com/team/nodes", "https://git.example.com/team/nodes", ""},
		"ssh stays":                               {"ssh://git@git.example.com:2222/team/nodes.git", "ssh://git@git.example.com:2222/team/nodes.git", ""},
		"the short form of ssh gets its scheme":   {"git@git.example.com:team/nodes.git", "ssh://git@git.example.com/team/nodes.git", ""},
		"git+ssh is ssh":                          {"git+ssh://git@git.example.com/x", "ssh://git@git.example.com/x", ""},
		"an ssh address without a user":           {"ssh://git.example.com/x", "", "pass --url ssh://git@git.example.com/x"},
		"the short form without a user":           {"git.example.com:team/nodes.git", "", "pass --url ssh://git@git.example.com/team/nodes.git"},
		"a folder is an error":                    {"/srv/git/nodes.git", "", "--url https://HOST/PATH"},
		"a file address is an error":              {"file:///srv/git/nodes.git", "", "--url https://HOST/PATH"},
		"something else is an error":              {"git://git.example.com/nodes.git", "", "--url https://HOST/PATH"},
		"a password in an ssh address is dropped": {"ssh://git:hunter2@git.example.com/x", "ssh://git@git.example.com/x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fetchAddress(c.address)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v shows a password", err)
			}
		})
	}
}

func TestARelativePathOfTheShortFormIsWarnedOfWhereItMayBeBelowAHome(t *testing.T) {
	for address, want := range map[string]string{
		"git@git.example.com:nodes.git":       "--url ssh://git@git.example.com/~/nodes.git",
		"ada@git.example.com:team/nodes":      "--url ssh://ada@git.example.com/~/team/nodes",
		"git@GitHub.com:team/nodes.git":       "",
		"git@git.example.com:~/nodes.git":     "",
		"ssh://git@git.example.com/nodes.git": "",
		"https://git.example.com/nodes.git":   "",
	} {
		if got := homeWarning(address); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// clone is a working copy with one commit, and what origin was last seen at.
func clone(t *testing.T, address string, pushed bool) (dir string, repo *git.Repository) {
	t.Helper()
	dir = t.TempDir()
	repo, err := git.PlainInitWithOptions(dir, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: plumbing.NewBranchReferenceName("trunk")}})
	if err != nil {
		t.Fatal(err)
	}
	if address != "" {
		if _, err := repo.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{address}}); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	id, err := tree.Commit("Begin", &git.CommitOptions{AllowEmptyCommits: true, Author: &object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(0, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	if pushed {
		if err := repo.Storer.SetReference(plumbing.NewHashReference(plumbing.NewRemoteReferenceName("origin", "trunk"), id)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, repo
}

func TestTheSyncFollowsTheFlagThenItsSpecThenTheClone(t *testing.T) {
	const home = "poolwright-system"
	dir, _ := clone(t, "https://git.example.com/team/nodes.git", true)
	ahead, _ := clone(t, "https://git.example.com/team/nodes.git", false)
	overSSH, _ := clone(t, "git@git.example.com:team/nodes.git", true)
	alone, _ := clone(t, "", false)
	detached, repo := clone(t, "https://git.example.com/team/nodes.git", true)
	head, err := repo.Head()
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Storer.SetReference(plumbing.NewHashReference(plumbing.HEAD, head.Hash())); err != nil {
		t.Fatal(err)
	}
	sync := func(ref v1alpha1.GitRef, secret string) *v1alpha1.Sync {
		s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "dev"}}
		s.Spec.Source.Git = v1alpha1.GitSource{URL: "https://live.example.com/x", Ref: ref}
		if secret != "" {
			s.Spec.Source.Git.SecretRef = &v1alpha1.SecretRef{Name: secret}
		}
		return s
	}
	git := func(fields ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			out[fields[i].(string)] = fields[i+1]
		}
		return map[string]any{"source": map[string]any{"git": out}, "path": "clusters/dev"}
	}
	branch := func(name string) map[string]any { return map[string]any{"branch": name} }
	leaving := sync(v1alpha1.GitRef{Branch: "live"}, "")
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"poolwright.dev/sync"}, &metav1.Time{Time: time.Now()}
	for name, c := range map[string]struct {
		req  SyncRequest
		root string
		sub  string
		has  []client.Object
		want map[string]any
		err  string
		warn string
	}{
		"a clone alone has everything":           {root: dir, want: git("url", "https://git.example.com/team/nodes.git", "ref", branch("trunk"))},
		"what was not pushed is a warning":       {root: ahead, want: git("url", "https://git.example.com/team/nodes.git", "ref", branch("trunk")), warn: "origin/trunk"},
		"flags win over the clone":               {req: SyncRequest{URL: "https://o.example.com/y", Branch: "main", Secret: "git"}, root: dir, has: []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "git"}}}, want: git("url", "https://o.example.com/y", "ref", branch("main"), "secretRef", map[string]any{"name": "git"})},
		"a Secret that is not there is reported": {req: SyncRequest{Secret: "git"}, root: dir, want: git("url", "https://git.example.com/team/nodes.git", "ref", branch("trunk"), "secretRef", map[string]any{"name": "git"}), warn: "create secret generic git"},
		"the live Sync wins over the clone":      {root: dir, has: []client.Object{sync(v1alpha1.GitRef{Branch: "live"}, "")}, want: git("url", "https://live.example.com/x", "ref", branch("live"))},
		"a Sync that is being deleted":           {root: dir, has: []client.Object{leaving}, want: git("url", "https://live.example.com/x", "ref", branch("live")), warn: "Sync dev is being deleted"},
		"a tag of the live Sync stays":           {root: dir, has: []client.Object{sync(v1alpha1.GitRef{Tag: "v1"}, "")}, want: git("url", "https://live.example.com/x")},
		"flags win over the live Sync":           {req: SyncRequest{URL: "https://o.example.com/y", Branch: "b"}, root: dir, has: []client.Object{sync(v1alpha1.GitRef{Tag: "v1"}, "")}, want: git("url", "https://o.example.com/y", "ref", branch("b"))},
		"a live Sync needs no clone":             {root: t.TempDir(), has: []client.Object{sync(v1alpha1.GitRef{Branch: "live"}, "")}, want: git("url", "https://live.example.com/x", "ref", branch("live"))},
		"an ssh remote without a Secret":         {root: overSSH, err: "--url https://git.example.com/team/nodes.git"},
		"an ssh remote with a Secret":            {req: SyncRequest{Secret: "git"}, root: overSSH, want: git("url", "ssh://git@git.example.com/team/nodes.git", "ref", branch("trunk"), "secretRef", map[string]any{"name": "git"}), warn: "--from-file=identity="},
		"the short form of ssh in --url":         {req: SyncRequest{URL: "git@o.example.com:y", Secret: "git"}, root: dir, err: "ssh://git@HOST/PATH"},
		"a clone without a remote is an error":   {root: alone, err: "--url"},
		"a folder that is no clone is an error":  {root: t.TempDir(), err: "--url"},
		"a detached HEAD is an error":            {root: detached, err: "--branch"},
		"credentials in --url are an error":      {req: SyncRequest{URL: "https://hunter2@o.example.com/y"}, root: dir, err: "--secret"},
		"a name that is none is an error":        {root: dir, sub: "clusters/Dev_1", err: "--name"},
		"our own name is an error":               {req: SyncRequest{Name: installation.Name}, root: dir, err: "choose another"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.sub == "" {
				c.sub = "clusters/dev"
			}
			spec, warnings, err := c.req.follow(t.Context(), reconcilertest.InstalledClient(t, c.has...), home, c.root, c.sub)
			if err != nil {
				if c.err == "" || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %v", err)
				}
				return
			}
			if d := cmp.Diff(c.want, spec); d != "" || c.err != "" {
				t.Errorf("spec (-want +got):\n%s", d)
			}
			if c.req.Name != "dev" {
				t.Errorf("it is called %q", c.req.Name)
			}
			if got := strings.Join(warnings, "\n"); (c.warn == "") != (got == "") || !strings.Contains(got, c.warn) {
				t.Errorf("warnings: %s", got)
			}
		})
	}
}

func TestTheRootsSyncIsCalledDefault(t *testing.T) {
	for path, want := range map[string]string{".": "default", "": "default", "clusters/dev": "dev", "nodes": "nodes"} {
		if got := nameOf(path); got != want {
			t.Errorf("%q gives %q, want %q", path, got, want)
		}
	}
}

func declaredItems(t *testing.T, specs ...map[string]any) state.Set {
	t.Helper()
	var items []state.Item
	for i, spec := range specs {
		items = append(items, state.Item{
			Key:     state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: string(rune('a' + i))},
			Version: "v1alpha1", Object: map[string]any{"spec": spec}, Origin: state.Origin{File: "cluster.yaml", Line: i + 1},
		})
	}
	return state.NewSet(items...)
}

func TestAFolderMustDeclareOneCluster(t *testing.T) {
	one := map[string]any{"name": "dev", "region": "eu-west-1", "account": "111122223333"}
	if _, err := declaredCluster("clusters/dev", declaredItems(t)); err == nil || !strings.Contains(err.Error(), "clusters/dev declares no Cluster") {
		t.Errorf("none: %v", err)
	}
	if _, err := declaredCluster("clusters/dev", declaredItems(t, one, one)); err == nil || !strings.Contains(err.Error(), "cluster.yaml:1 and cluster.yaml:2") {
		t.Errorf("two: %v", err)
	}
	got, err := declaredCluster("clusters/dev", declaredItems(t, one))
	if err != nil || got.spec.Name != "dev" || got.origin.Line != 1 {
		t.Errorf("one: %+v, %v", got, err)
	}
}

func TestBudgetsThatKeepIdleNodesAreWarnings(t *testing.T) {
	root, _ := clone(t, "", false)
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cluster.yaml", "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {name: dev, account: \"123456789012\", region: us-east-1}\n")
	const pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  disruption: {consolidateAfter: 5m, budgets: [%s]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}]
`
	for _, c := range []struct {
		name, budgets, want string
	}{
		{"a tenth at a time", "{nodes: 10%}", `pool.yaml:5: NodePool.karpenter.sh/gpu: spec.disruption.budgets[0]: nodes: 10%: 20 nodes that become empty together go in 15 rounds, which takes 1m45s and costs $0.22 or more for nodes that wait: ` +
			`write in its place {nodes: "100%", reasons: [Empty]}, {nodes: "10%", reasons: [Drifted, Underutilized]}`},
		{"all at once", "{nodes: 100%, reasons: [Empty]}, {nodes: 10%, reasons: [Drifted, Underutilized]}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			write("pool.yaml", strings.Replace(pool, "%s", c.budgets, 1))
			folder, err := Request{Dir: root}.declares(t.Context(), variables.Input{})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(folder.budgets, "\n"); got != c.want {
				t.Errorf("it warns (-want +got):\n%s", cmp.Diff(c.want, got))
			}
		})
	}
}

func TestTheControllersRole(t *testing.T) {
	for name, c := range map[string]struct {
		role       *v1alpha1.ControllerRole
		region     string
		arn, wrong string
	}{
		"none":                          {},
		"Pod Identity annotates nobody": {role: &v1alpha1.ControllerRole{}},
		"IRSA names the role":           {role: &v1alpha1.ControllerRole{Identity: v1alpha1.IdentityIRSA}, arn: "arn:aws:iam::111122223333:role/poolwright-dev-eu-west-1"},
		"IRSA names a role of its own":  {role: &v1alpha1.ControllerRole{Identity: v1alpha1.IdentityIRSA, Name: "x"}, arn: "arn:aws:iam::111122223333:role/x"},
		"China is another partition":    {role: &v1alpha1.ControllerRole{Identity: v1alpha1.IdentityIRSA}, region: "cn-north-1", arn: "arn:aws-cn:iam::111122223333:role/poolwright-dev-cn-north-1"},
		"so is GovCloud":                {role: &v1alpha1.ControllerRole{Identity: v1alpha1.IdentityIRSA}, region: "us-gov-west-1", arn: "arn:aws-us-gov:iam::111122223333:role/poolwright-dev-us-gov-west-1"},
		"another namespace is refused":  {role: &v1alpha1.ControllerRole{Namespace: "elsewhere"}, wrong: "pass -n elsewhere"},
		"another account is refused":    {role: &v1alpha1.ControllerRole{ServiceAccount: "someone"}, wrong: "spec.controllerRole.serviceAccount"},
	} {
		t.Run(name, func(t *testing.T) {
			d := declaredEKS{spec: reconcilertest.Cluster(nil).Spec, origin: state.Origin{File: "cluster.yaml", Line: 3}}
			d.spec.ControllerRole = c.role
			if c.region != "" {
				d.spec.Region = c.region
			}
			err := d.checkAccount("poolwright-system")
			if (err == nil) != (c.wrong == "") || err != nil && (!strings.Contains(err.Error(), c.wrong) || !strings.HasPrefix(err.Error(), "cluster.yaml:3: ")) {
				t.Errorf("check: %v", err)
			}
			if got := d.roleARN(); got != c.arn && c.wrong == "" {
				t.Errorf("ARN %q, want %q", got, c.arn)
			}
		})
	}
}

func TestTheImageIsTheRequestedTheInstalledOrThatOfTheRelease(t *testing.T) {
	installed := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "poolwright", Namespace: "gpu"}}
	installed.Spec.Template.Spec.Containers = []corev1.Container{{Name: "poolwright", Image: "example.com/p:installed"}}
	for name, c := range map[string]struct {
		req   Request
		live  []client.Object
		image string
	}{
		"the requested one before all others":            {Request{Image: "example.com/p:1", ReleasedImage: "example.com/p:2"}, []client.Object{installed}, "example.com/p:1"},
		"the installed one before that of the release":   {Request{ReleasedImage: "example.com/p:2"}, []client.Object{installed}, "example.com/p:installed"},
		"that of the release where none is installed":    {Request{ReleasedImage: "example.com/p:2"}, nil, "example.com/p:2"},
		"none where this is no release, with the remedy": {Request{}, nil, ""},
	} {
		c.req.Namespace = "gpu"
		b := &Bootstrap{req: c.req, direct: reconcilertest.InstalledClient(t, c.live...)}
		err := b.chooseImage(t.Context())
		if b.req.Image != c.image || (c.image == "") != (err != nil && strings.Contains(err.Error(), "make image PUSH=")) {
			t.Errorf("%s: got %q, %v", name, b.req.Image, err)
		}
	}
}

func TestASecondInstallationElsewhereIsRefused(t *testing.T) {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "poolwright-controller"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "poolwright", Namespace: "gpu"}},
	}
	if err := onlyHere(t.Context(), reconcilertest.InstalledClient(t), "gpu"); err != nil {
		t.Error(err)
	}
	if err := onlyHere(t.Context(), reconcilertest.InstalledClient(t, binding), "gpu"); err != nil {
		t.Error(err)
	}
	if err := onlyHere(t.Context(), reconcilertest.InstalledClient(t, binding), "poolwright-system"); err == nil || !strings.Contains(err.Error(), "-n gpu") {
		t.Errorf("got %v", err)
	}
}

func TestBootstrapDeletesOnlyWhatItsInstallationNoLongerHas(t *testing.T) {
	gone := func(target, kind string) state.Item {
		return state.Item{Key: state.Key{Target: target, Kind: kind, Name: "x"}, Version: "v1", Object: map[string]any{"a": "b"}}
	}
	p := plan.Compute(state.Set{}, state.NewSet(gone("kubernetes", "Service"), gone("kubernetes", "Sync"), gone("kubernetes", "Namespace"),
		gone("kubernetes", "CustomResourceDefinition"), gone("aws", "Queue")), onlyBuild)
	var got []string
	for _, c := range p.Changes {
		got = append(got, c.Key.Kind)
	}
	if d := cmp.Diff([]string{"Service"}, got); d != "" {
		t.Error(d)
	}
}
