package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iampolicy "github.com/poolwright/poolwright/config/iam"
)

// newcomerPod requests a GPU of the pool that poolwright init writes.
const newcomerPod = `kubectl apply -f - <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: first-gpu, namespace: default}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
  containers:
    - {name: sleep, image: "example.com/cuda:1", resources: {limits: {nvidia.com/gpu: "1"}}}
YAML
kubectl wait pod/first-gpu --for=condition=Ready --timeout=10m
`

// ownKinds are the kinds whose objects an upgrade must not touch.
var ownKinds = []schema.GroupVersionKind{
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "poolwright.dev", Version: "v1alpha1", Kind: "Sync"},
	{Group: "poolwright.dev", Version: "v1alpha1", Kind: "Cluster"},
	{Group: "poolwright.dev", Version: "v1alpha1", Kind: "DevicePlugin"},
	{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"},
	{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"},
	{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"},
	{Version: "v1", Kind: "Node"},
}

// The chart as this repository had it first, in testdata/charts with its commit, is upgraded to today's by Helm's
// own command. The controller has the permissions of the chart's service account; its pods are simulated, so that in
// both parts it is today's: cmd/poolwright-sandbox/prove upgrades from what earlier controllers leave.
func TestTheChartIsInstalledUpgradedAndUninstalled(t *testing.T) {
	t.Parallel()
	u := newTutorial(t)
	u.helm()
	const values = " --set image.repository=registry.example.com/poolwright,image.tag=v1"
	u.pushFolder()
	u.createBoundary()
	// The Sync of README has no reference, so that it follows the branch main.
	u.shell.block("git push -q origin HEAD:main\n", exitCode{0})
	begin := time.Now()
	lines := newPage(t, "../README.md").take("helm install")
	_, follow, found := strings.Cut(lines, "image.tag=v1\n")
	helm := newPage(t, "howto/follow-a-repository.md").take("helm install")
	if page, err := os.ReadFile(u.absolute("../../../README.md")); err != nil || !found || !strings.Contains(string(page), "`"+strings.TrimSpace(helm)+"`") {
		t.Errorf("README installs the chart by %q, or lacks the guide's %q: %v", lines, helm, err)
	}
	// The chart is in a registry, which is not reached from here.
	install := newShell(u.fixture, u.repo, "oci://ghcr.io/poolwright/charts/poolwright", u.absolute("testdata/charts/poolwright-bc1e1cf4.tgz")+values)
	install.path = u.shell.path
	install.block(strings.TrimSpace(helm)+"\n", exitCode{0})
	u.startAsInstalled()
	u.repo.write("sync.yaml", u.syncOfReadme())
	u.shell.block(follow, exitCode{0})
	u.inFiveMinutes("by the chart", time.Since(begin))
	u.repo.remove("sync.yaml")
	u.shell.block("kubectl wait clusters.poolwright.dev/cluster --for=condition=Ready --timeout=5m\n"+newcomerPod, exitCode{0})

	before := u.identities()
	if err := u.now.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.shell.block("helm upgrade poolwright "+u.absolute("../../../config/chart/poolwright")+values+" --namespace poolwright-system\nhelm list --namespace poolwright-system\n", exitCode{0})
	if diff := cmp.Diff(before, u.identities()); diff != "" {
		t.Errorf("helm upgrade changes (-before +after):\n%s", diff)
	}
	u.startAsInstalled()
	u.shell.block("poolwright reconcile dev --timeout=5m\npoolwright wait dev --for=rollout --timeout=5m\nkubectl -n poolwright-system wait sync/dev --for=condition=RolledOut --timeout=1m\nkubectl wait pod/first-gpu --for=condition=Ready --timeout=1m\n", exitCode{0})
	if diff := cmp.Diff(before, u.identities()); diff != "" {
		t.Errorf("the controller changes after the upgrade (-before +after):\n%s", diff)
	}

	if err := u.now.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.shell.block("poolwright uninstall\n"+newPage(t, "howto/uninstall.md").take("helm uninstall"), exitCode{0})
	u.nothingOfOurs()
	u.noTrace()
	// The node goes on, with its pod, until somebody terminates it.
	if err := u.nodes(1)(); err != nil {
		t.Error(err)
	}
	u.shell.block("kubectl wait pod/first-gpu --for=condition=Ready --timeout=1m\n", exitCode{0})
	u.installsAfresh(strings.TrimSuffix(lines, follow), follow)
}

// installsAfresh installs today's chart by README's own lines onto a cluster without it: the definitions pass through Helm.
func (u tutorial) installsAfresh(helm, follow string) {
	u.Helper()
	fresh := newShell(u.fixture, u.repo, "config/chart/poolwright", u.absolute("../../../config/chart/poolwright"))
	fresh.path = u.shell.path
	fresh.block(helm, exitCode{0})
	u.startAsInstalled()
	u.repo.write("sync.yaml", u.syncOfReadme())
	u.shell.block(follow+"kubectl wait pod/first-gpu --for=condition=Ready --timeout=1m\n", exitCode{0})
	u.repo.remove("sync.yaml")
}

func TestKustomizeInstallsByARemoteReference(t *testing.T) {
	t.Parallel()
	u := newTutorial(t)
	u.pushFolder()
	u.createBoundary()
	u.releaseConfig()
	begin := time.Now()
	u.shell.block("kubectl apply --server-side -k "+u.overlay()+"\n", exitCode{0})
	u.startAsInstalled()
	u.followFolder()
	u.inFiveMinutes("by kustomize", time.Since(begin))
	u.shell.block(newcomerPod, exitCode{0})

	// The controller is not the Deployment's, so that the command ends before it removes it.
	u.shell.block("poolwright uninstall --drain\n", exitCode{2})
	if err := u.nodes(0)(); err != nil {
		t.Error(err)
	}
	for _, i := range u.AWS.Instances() {
		if !over(i.State) {
			t.Errorf("instance %s is %s", i.ID, i.State)
		}
	}
	if err := u.now.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The Secret with the token is the person's own, and so is a namespace that has it.
	u.shell.block("poolwright uninstall\nkubectl delete namespace poolwright-system\n", exitCode{0})
	u.nothingOfOurs()
	u.noTrace()
}

// syncOfReadme is the file sync.yaml that README has, of this person's repository.
func (u tutorial) syncOfReadme() string {
	u.Helper()
	const url = "https://git.example.com/platform/nodes.git"
	page, err := os.ReadFile(u.absolute("../../../README.md"))
	if err != nil {
		u.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "address, `sync.yaml`:\n\n```yaml\n")
	text, _, ends := strings.Cut(text, "```\n")
	if !found || !ends || !strings.Contains(text, url) {
		u.Fatal("README has no sync.yaml any more: find where it is")
	}
	origin, err := u.repo.git.Remote("origin")
	if err != nil {
		u.Fatal(err)
	}
	return strings.ReplaceAll(text, url, origin.Config().URLs[0])
}

// inFiveMinutes logs how long a way took until the first Sync is Ready. It decides only in make test-long: on a machine
// that does other things, time says nothing about the product.
func (l *laptop) inFiveMinutes(way string, took time.Duration) {
	l.Helper()
	l.Logf("%s the first Sync is Ready after %s", way, took.Round(100*time.Millisecond))
	if took > 5*time.Minute && os.Getenv(longEnv) == "1" {
		l.Errorf("%s a newcomer waits %s, more than five minutes", way, took)
	}
}

// absolute is the absolute path of one that is relative to this package.
func (u tutorial) absolute(path string) string {
	u.Helper()
	full, err := filepath.Abs(path)
	if err != nil {
		u.Fatal(err)
	}
	return full
}

// helm builds Helm's command of the version that the tests of the chart use, for this person.
func (u tutorial) helm() {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(strings.Split(u.shell.path, ":")[0], "helm"), "helm.sh/helm/v4/cmd/helm")
	cmd.Dir = u.absolute("../../../.ci/chart")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		u.Fatalf("building helm: %v\n%s", err, out)
	}
}

// pushFolder writes the first folder, as the tutorial does.
func (u tutorial) pushFolder() {
	u.Helper()
	u.shell.block("poolwright init clusters/dev --cluster my-cluster --region eu-west-1\npoolwright lint clusters/dev\n"+
		"git add clusters && git commit -qm 'Add a GPU pool' && git push -qu origin HEAD\n", exitCode{0})
}

// createBoundary makes the policy without which the controller makes no role of nodes. Who installs without
// poolwright bootstrap makes it with the CloudFormation template of config/iam, which the sandbox does not run.
func (u tutorial) createBoundary() {
	u.Helper()
	cluster := u.aws.Cluster.Name
	text, err := iampolicy.Boundary(iampolicy.Values{
		Partition: "aws", Region: u.aws.Region, Account: u.aws.Account, Cluster: cluster, NodeRole: cluster + "-karpenter-node", Queue: cluster,
	})
	if err != nil {
		u.Fatal(err)
	}
	name := iampolicy.NamesOf(cluster, u.aws.Region).Boundary
	if _, err := newAccount(u.Endpoint(), u.aws.Region).iam.CreatePolicy(u.Context(), &iam.CreatePolicyInput{PolicyName: &name, PolicyDocument: &text}); err != nil {
		u.Fatal(err)
	}
}

// followFolder gives the controller the token and a Sync of the branch that was pushed, and returns once that is Ready.
func (u tutorial) followFolder() {
	u.Helper()
	u.shell.block(`kubectl -n poolwright-system create secret generic git --from-literal=username=`+u.user+` --from-literal=password="$TOKEN"
branch=$(git branch --show-current)
url=$(git remote get-url origin)
kubectl wait crd/syncs.poolwright.dev --for=condition=Established --timeout=5m
kubectl apply -f - <<YAML
apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: dev, namespace: poolwright-system}
spec:
  source: {git: {url: "$url", ref: {branch: "$branch"}, secretRef: {name: git}}}
  path: clusters/dev
YAML
kubectl -n poolwright-system wait sync/dev --for=condition=Ready --timeout=5m
kubectl wait clusters.poolwright.dev/cluster --for=condition=Ready --timeout=5m
`, exitCode{0})
}

// startAsInstalled starts the controller with the permissions of its service account.
func (u tutorial) startAsInstalled() {
	u.Helper()
	config, err := clientcmd.LoadFromFile(u.Kubeconfig)
	if err != nil {
		u.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + engineSystem + ":poolwright"
	}
	path := filepath.Join(u.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		u.Fatal(err)
	}
	u.now, err = u.Environment.Run("poolwright", binary, "run", "--kubeconfig="+path, "--namespace="+engineSystem,
		"--cache-dir="+filepath.Join(u.Dir, "caches"), "--metrics-addr=0", "--health-addr=0")
	if err != nil {
		u.Fatal(err)
	}
}

// releaseConfig makes a repository that has the folder config at the tag v0.1.0 and nothing since, in the place
// of the one that the docs name.
func (u tutorial) releaseConfig() {
	u.Helper()
	if err := os.CopyFS(filepath.Join(u.Dir, "released", "config"), os.DirFS(u.absolute("../../../config"))); err != nil {
		u.Fatal(err)
	}
	u.shell.block("cd \"$HOME/released\"\ngit init -q -b main\ngit add .\ngit commit -qm Release\ngit tag v0.1.0\ngit rm -rq config\ngit commit -qm 'Go on'\n", exitCode{0})
}

// overlay is a folder with the kustomization of docs/howto/follow-a-repository.md.
func (u tutorial) overlay() string {
	u.Helper()
	page, err := os.ReadFile(u.absolute("../../../docs/howto/follow-a-repository.md"))
	if err != nil {
		u.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "   # kustomization.yaml\n")
	text, _, ends := strings.Cut(text, "   ```\n")
	if !found || !ends || !strings.Contains(text, "https://github.com/poolwright/poolwright//") {
		u.Fatal("docs/howto/follow-a-repository.md has no kustomization with a remote reference any more: find where it is")
	}
	text = strings.ReplaceAll(text, "https://github.com/poolwright/poolwright//", "file://"+filepath.Join(u.Dir, "released")+"//")
	folder := u.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		u.Fatal(err)
	}
	return folder
}

// identities are the objects that an upgrade must not touch by their UIDs, with the generation of what people
// write, and the instances that run.
func (u tutorial) identities() map[string]string {
	u.Helper()
	out := map[string]string{}
	for _, kind := range ownKinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := u.hand.List(u.Context(), list); err != nil {
			u.Fatal(err)
		}
		if len(list.Items) == 0 {
			u.Errorf("there is no %s", kind.Kind)
		}
		for _, o := range list.Items {
			value := string(o.UID)
			if kind.Kind == "Sync" || kind.Kind == "NodePool" || kind.Kind == "EC2NodeClass" {
				value += fmt.Sprintf(" generation %d", o.Generation)
			}
			out[kind.Kind+"/"+o.Name] = value
		}
	}
	for _, i := range u.AWS.Instances() {
		if !over(i.State) {
			out["instance/"+i.ID] = string(i.State)
		}
	}
	return out
}

// noTrace fails the test for what an installation has that is left.
func (u tutorial) noTrace() {
	u.Helper()
	if err := u.hand.Get(u.Context(), client.ObjectKey{Name: engineSystem}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		u.Errorf("the namespace is still there: %v", err)
	}
	for _, kind := range []schema.GroupVersionKind{
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
		{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := u.hand.List(u.Context(), list); err != nil {
			u.Fatal(err)
		}
		for _, o := range list.Items {
			if strings.Contains(o.Name, "poolwright") {
				u.Errorf("%s %s/%s is left", kind.Kind, o.Namespace, o.Name)
			}
		}
	}
}
