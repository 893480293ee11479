package e2e

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// laptop is a person with a clone of the repository, a kubeconfig and AWS
// credentials, in an environment of their own: what uninstall takes away is the whole
// cluster's.
type laptop struct {
	engineSuite
	repo *repo
	user string
}

// newLaptop starts the environment that the example is written for; change says what
// AWS holds in it.
func newLaptop(t *testing.T, change func(*sandbox.Config)) *laptop {
	t.Helper()
	config := sandbox.DefaultConfig()
	config.AWS.Region, config.AWS.Account = "eu-west-1", "111122223333"
	config.AWS.Cluster.Name, config.AWS.Cluster.OIDC = "altanova-dev-euw1-eks", true
	change(&config)
	config.AWS.Delays.Fleet, config.AWS.Delays.Running, config.AWS.Delays.Shutdown = 500*time.Millisecond, time.Second, time.Second
	config.Nodes = nodes.Delays{Join: 500 * time.Millisecond, NodeGone: time.Second}
	started := sandboxtest.Start(t, config)
	l := &laptop{engineSuite: engineSuite{newFixture(t, started), &engineFixture{aws: config.AWS}}}
	l.clone()
	return l
}

// clone makes the repository with the example in it.
func (l *laptop) clone() {
	l.Helper()
	l.emptyClone()
	if err := os.CopyFS(l.repo.dir, os.DirFS(filepath.Join("..", "..", "..", "examples", "altanova"))); err != nil {
		l.Fatal(err)
	}
	l.repo.commit("Begin")
}

// emptyClone makes a repository without a commit.
func (l *laptop) emptyClone() {
	l.Helper()
	owner, err := l.Git.CreateUser(l.Context(), "gpu-team")
	if err != nil {
		l.Fatal(err)
	}
	made, err := l.Git.CreateRepository(l.Context(), owner, "nodes", true)
	if err != nil {
		l.Fatal(err)
	}
	token, err := l.Git.CreateToken(l.Context(), owner, "poolwright", "write:repository")
	if err != nil {
		l.Fatal(err)
	}
	l.user = owner.Name
	l.repo = newRepo(l.T, made.URL, owner.Name, token, "live")
}

// secret is the only step that bootstrap leaves to a person.
func (l *laptop) secret() {
	l.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: engineSystem},
		StringData: map[string]string{"username": l.user, "password": l.repo.token},
	}
	if err := l.hand.Create(l.Context(), secret); client.IgnoreAlreadyExists(err) != nil {
		l.Fatal(err)
	}
}

// types runs a command in the clone. Nobody is there to be asked.
func (l *laptop) types(args ...string) commandResult {
	l.Helper()
	got := typed(l.T, l.Environment, l.repo.dir, args...)
	if strings.Contains(got.out+got.err, l.repo.token) {
		l.Errorf("poolwright %s shows the token", strings.Join(args, " "))
	}
	return got
}

func (l *laptop) expect(got commandResult, code int, texts ...string) {
	l.Helper()
	got.expect(l.T, code, texts...)
}

// bootstrap is the whole command.
func (l *laptop) bootstrap(more ...string) commandResult {
	l.Helper()
	return l.types(append([]string{"bootstrap", "clusters/dev", "--image=registry.example.com/poolwright:1", "--secret=git", "--timeout=10m"}, more...)...)
}

func TestInstallingAndUninstallingFromALaptop(t *testing.T) {
	t.Parallel()
	l := newLaptop(t, func(c *sandbox.Config) {
		c.AWS.Roles, c.AWS.Queues = []string{awsNodeRole}, []string{awsCluster}
	})
	l.expect(l.types("check"), 1, "✗ crds", "✗ controller: there is no Deployment poolwright")
	l.expect(l.types("check", "--pre"), 0, "✔ permissions", "system-nodes: all 2 replicas are on node", "✔ karpenter: no other Karpenter")
	l.refusals()
	l.expect(l.bootstrap("--dry-run"), 1, "Deployment.apps/"+engineSystem+"/poolwright", "Sync.poolwright.dev/"+engineSystem+"/dev")
	if err := l.hand.Get(l.Context(), client.ObjectKey{Name: engineSystem}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Fatalf("a dry run made the namespace: %v", err)
	}
	begin := time.Now()
	l.expect(l.bootstrap("--yes"), 0, "Secret git is not in namespace", "2 of 2 replicas are available", "Sync dev does not follow the repository yet")
	took := time.Since(begin)
	l.expect(l.bootstrap("--yes"), 0, "nothing to change")
	l.expect(l.types("bootstrap", "clusters/dev", "--yes"), 0, "nothing to change")
	l.installed()

	l.secret()
	l.live(took)
	l.checks()
	l.followsPages()
	l.expect(l.bootstrap("--yes"), 0, "nothing to change")
	l.declaresItself()
	l.drained()
	l.kept()
	l.expect(l.types("uninstall", "--yes"), 0, "nothing of Poolwright is installed")
}

// checks finds nothing wrong with the installation, and makes a support bundle without the token.
func (l *laptop) checks() {
	l.Helper()
	path := filepath.Join(l.TempDir(), "bundle.tar.gz")
	l.expect(l.types("check", "--bundle", path), 0, "✔ crds", "✔ controller: 2 of 2", "✔ leader", "with the engine", "✔ engine: Cluster", "✔ syncs: 1 of 1")
	l.expect(l.types("get"), 0, awsCluster+"   eu-west-1   Embedded   True", gpuPool)
	l.expect(l.types("get", "nodes", "-o", "name"), 0, "node/ip-")
	l.expect(l.types("wait", "dev", "--for=rollout", "--timeout=2m"), 0, "Sync dev: Revision ", ": no node is to be replaced")
	l.Logf("with the engine and a node the controller takes %s", memory(l.T, l.now.PID()))
	raw, err := os.Open(path)
	if err != nil {
		l.Fatal(err)
	}
	defer raw.Close()
	compressed, err := gzip.NewReader(raw)
	if err != nil {
		l.Fatal(err)
	}
	content, err := io.ReadAll(compressed)
	if err != nil || !bytes.Contains(content, []byte("/gpu-team/nodes.git")) || bytes.Contains(content, []byte(l.repo.token)) {
		l.Errorf("the support bundle lacks the Sync, or has the token (%v)", err)
	}
}

// shell is one in the clone.
func (l *laptop) shell() *shell {
	l.Helper()
	return newShell(l.fixture, l.repo,
		"poolwright uninstall --dry-run\n", "poolwright uninstall --dry-run || test $? = 1\n", "poolwright uninstall\n", "poolwright uninstall --yes --timeout=10m\n",
		"poolwright uninstall --drain\n", "poolwright uninstall --drain --yes --timeout=10m\n",
		"| jq '.results[] | select(.status == \"failed\")'", "| grep '\"results\"'", "poolwright plan", "plan",
		"bootstrap clusters/dev --sync-file sync.yaml", "bootstrap clusters/dev --sync-file sync.yaml --yes",
	)
}

// followsPages runs the commands of pages for which an installation has to run.
func (l *laptop) followsPages() {
	l.Helper()
	u, checks, variables := l.shell(), newPage(l.T, "howto/check.md"), newPage(l.T, "howto/variables.md")
	u.prints(u.block(checks.take("poolwright check --pre"), exitCode{0}),
		"✔ permissions", "✔ controller: 2 of 2", "✔ node-classes: 2 of 2", "✔ aws-identity: ", "✔ aws-permissions: Cluster cluster: role ", "✔ git: Sync "+engineSystem+"/dev: main@sha1:")
	u.block(checks.take("poolwright check --bundle"), exitCode{0})
	l.repo.remove("bundle.tar.gz")
	l.repo.write("sync.yaml", fmt.Sprintf("apiVersion: poolwright.dev/v1alpha1\nkind: Sync\nmetadata: {name: dev, namespace: %s}\nspec:\n  source: {git: {url: %q, ref: {branch: main}, secretRef: {name: git}}}\n  path: clusters/dev\n",
		engineSystem, l.followed().Spec.Source.Git.URL))
	// What in AWS is somebody else's differs, which a plan reports by its exit code.
	u.block("git fetch -q origin\nplan() { \"$(type -P poolwright)\" plan \"$@\" || test $? = 1; }\n"+variables.take("poolwright lint"), exitCode{0})
	l.repo.remove("sync.yaml")
}

// refusals are what must stop before anything is written.
func (l *laptop) refusals() {
	l.Helper()
	l.expect(l.bootstrap(), 2, "pass --yes")
	l.expect(l.types("uninstall", "--yes"), 0, "nothing of Poolwright is installed")
	l.expect(l.types("bootstrap", "clusters/dev", "--yes"), 2, "--image")
	l.expect(l.types("bootstrap", "base", "--yes"), 2, "declares no Cluster")
	path := filepath.Join(l.repo.dir, "clusters", "dev", "cluster.yaml")
	good, err := os.ReadFile(path)
	if err != nil {
		l.Fatal(err)
	}
	l.repo.write("clusters/dev/cluster.yaml", strings.ReplaceAll(string(good), "111122223333", "999999999999"))
	l.expect(l.bootstrap("--yes"), 2, "nothing is installed", "999999999999", "clusters/dev/cluster.yaml:2")
	l.repo.write("clusters/dev/cluster.yaml", strings.ReplaceAll(string(good), "region:", "regoin:"))
	l.expect(l.bootstrap("--yes"), 2, "clusters/dev/cluster.yaml:", "nothing was installed")
	l.repo.write("clusters/dev/cluster.yaml", string(good))
}

// installed reads what bootstrap decided.
func (l *laptop) installed() {
	l.Helper()
	var account corev1.ServiceAccount
	if err := l.hand.Get(l.Context(), client.ObjectKey{Namespace: engineSystem, Name: "poolwright"}, &account); err != nil {
		l.Fatal(err)
	}
	if got := account.Annotations["eks.amazonaws.com/role-arn"]; got != "arn:aws:iam::111122223333:role/poolwright-altanova-dev-euw1-eks-eu-west-1" {
		l.Errorf("the service account has role %q", got)
	}
	var deployment appsv1.Deployment
	if err := l.hand.Get(l.Context(), client.ObjectKey{Namespace: engineSystem, Name: "poolwright"}, &deployment); err != nil {
		l.Fatal(err)
	}
	if got := deployment.Spec.Template.Spec.Containers[0].Image; got != "registry.example.com/poolwright:1" {
		l.Errorf("the image is %q", got)
	}
	var made v1alpha1.Sync
	if err := l.hand.Get(l.Context(), client.ObjectKey{Namespace: engineSystem, Name: "dev"}, &made); err != nil {
		l.Fatal(err)
	}
	if s := made.Spec; s.Path != "clusters/dev" || s.Source.Git.Ref.Branch != "main" || !strings.HasSuffix(s.Source.Git.URL, "/gpu-team/nodes.git") {
		l.Errorf("the Sync follows %+v", s)
	}
}

// live starts the controller, which the sandbox's kubelets only simulate, and has it
// bring a node. The installation took so long already.
func (l *laptop) live(took time.Duration) {
	l.Helper()
	begin := time.Now()
	l.start()
	l.eventually("the Sync is ready", func() error {
		if s := l.followed(); !meta.IsStatusConditionTrue(s.Status.Conditions, "Ready") {
			return fmt.Errorf("its conditions are %+v", s.Status.Conditions)
		}
		return nil
	})
	l.inFiveMinutes("by bootstrap", took+time.Since(begin))
	l.engineRuns()
	// Evicted, its pod comes back and asks for a node again.
	l.addDeployment(gpuPool, 1)
	l.eventually("a node is there", l.nodes(1))
}

// nodes says how the number of our ready nodes differs, or nil.
func (l *laptop) nodes(want int) func() error {
	return func() error {
		var claims karpv1.NodeClaimList
		var list corev1.NodeList
		if err := errors.Join(l.hand.List(l.Context(), &claims), l.hand.List(l.Context(), &list, client.HasLabels{karpv1.NodePoolLabelKey})); err != nil {
			return err
		}
		ready := 0
		for _, c := range claims.Items {
			if c.StatusConditions().Root().IsTrue() {
				ready++
			}
		}
		if len(claims.Items) != want || len(list.Items) != want || ready != want {
			return fmt.Errorf("%d NodeClaims (%d ready), %d nodes, want %d", len(claims.Items), ready, len(list.Items), want)
		}
		return nil
	}
}

// drained removes the nodes while the controller runs; that it was not started
// by the Deployment keeps the rest from being removed under it.
func (l *laptop) drained() {
	l.Helper()
	before := l.limits()
	l.expect(l.types("uninstall", "--drain", "--dry-run"), 1, "drain and terminate 1 node", "What stays", "deletionPolicy")
	u, p := l.shell(), newPage(l.T, "howto/uninstall.md")
	u.prints(u.block(p.take("poolwright uninstall --drain"), exitCode{2}), "no node is left", "is being renewed", "stop that poolwright run")
	if err := l.nodes(0)(); err != nil {
		l.Fatal(err)
	}
	for _, i := range l.AWS.Instances() {
		if !over(i.State) {
			l.Errorf("instance %s is %s", i.ID, i.State)
		}
	}
	if err := l.now.Stop(l.Context()); err != nil {
		l.Fatal(err)
	}
	u.prints(u.block(p.take("poolwright uninstall --dry-run"), exitCode{0}), "Poolwright is uninstalled", "Secret git")
	l.nothingOfOurs()
	if after := l.limits(); after != before {
		l.Errorf("the pools' limits were\n%s and are\n%s", before, after)
	}
	l.expect(l.types("uninstall", "--yes"), 0, "nothing of Poolwright is installed")
}

// limits are those of all pools, and what drain may have noted on them.
func (l *laptop) limits() string {
	l.Helper()
	var pools karpv1.NodePoolList
	if err := l.hand.List(l.Context(), &pools); err != nil {
		l.Fatal(err)
	}
	var out strings.Builder
	for _, p := range pools.Items {
		fmt.Fprintf(&out, "%s %v %q\n", p.Name, p.Spec.Limits, p.Annotations["poolwright.dev/before-drain"])
	}
	return out.String()
}

// kept installs again and uninstalls with a node up, after a controller that was
// killed.
func (l *laptop) kept() {
	l.Helper()
	l.expect(l.bootstrap("--yes"), 0, "Sync dev follows")
	l.start()
	l.engineRuns()
	l.eventually("the pod has a node again", l.nodes(1))
	if err := l.now.Kill(); err != nil {
		l.Fatal(err)
	}
	if err := l.hand.Delete(l.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "git", Namespace: engineSystem}}); err != nil {
		l.Fatal(err)
	}
	l.expect(l.types("uninstall", "--yes", "--timeout=10m"), 0, "was not given up", "1 node of the pools would continue to run")
	l.nothingOfOurs()
	if err := l.nodes(1)(); err != nil {
		l.Error(err)
	}
	if err := l.hand.Get(l.Context(), client.ObjectKey{Name: engineSystem}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		l.Errorf("the namespace is still there: %v", err)
	}
}

// nothingOfOurs looks for what uninstall must not leave behind.
func (l *laptop) nothingOfOurs() {
	l.Helper()
	for _, kind := range []schema.GroupVersionKind{
		{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}, {Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
		{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}, {Version: "v1", Kind: "Node"},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := l.hand.List(l.Context(), list); err != nil {
			l.Fatal(err)
		}
		if len(list.Items) == 0 && kind.Kind != "NodeClaim" {
			l.Errorf("no %s is left", kind.Kind)
		}
		for _, o := range list.Items {
			if len(o.Finalizers) > 0 || !o.DeletionTimestamp.IsZero() {
				l.Errorf("%s %s has finalizers %v, deleted %v", kind.Kind, o.Name, o.Finalizers, o.DeletionTimestamp)
			}
		}
	}
	crds := &metav1.PartialObjectMetadataList{}
	crds.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	var roles rbacv1.ClusterRoleList
	if err := errors.Join(l.hand.List(l.Context(), crds), l.hand.List(l.Context(), &roles)); err != nil {
		l.Fatal(err)
	}
	for _, c := range crds.Items {
		if strings.HasSuffix(c.Name, "."+v1alpha1.GroupVersion.Group) {
			l.Errorf("CRD %s is left", c.Name)
		}
	}
	for _, r := range roles.Items {
		if strings.HasPrefix(r.Name, "poolwright") {
			l.Errorf("ClusterRole %s is left", r.Name)
		}
	}
}
