package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// reader is a person who follows how-to guides for a Sync.
type reader struct {
	*syncFixture
	// replacements are of the pages' placeholders.
	replacements []string
}

// shell is one in a clone. The variables are as in "before=0123".
func (r reader) shell(clone *repo, variables ...string) *shell {
	u := newShell(r.fixture, clone, r.replacements...)
	u.variables = variables
	return u
}

// with has one more replacement.
func (r reader) with(placeholder, text string) reader {
	r.replacements = append([]string{placeholder, text}, r.replacements...)
	return r
}

func TestTheHowToGuidesOfASync(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "howto")
	s.declare("v1", five...)
	s.repo.commit("Begin")
	s.start()
	s.eventually("the controller has brought the kinds", func() error {
		return s.hand.List(t.Context(), &v1alpha1.SyncList{})
	})
	r := reader{s, []string{
		"-n poolwright-system", "-n " + s.system, " sync dev", " sync " + s.name, "clusters/dev", "config", "refs/heads/main", "refs/heads/" + s.repo.branch,
		"lease=main:", "lease=" + s.repo.branch + ":", `"secretRef":{"name":"forge"}}`, `"secretRef":{"name":"forge"},"url":"` + sharedEnv.Git.URL() + "/" + s.owner.Name + `/nodes","interval":"5s"}`,
	}}
	r.makesSecrets()
	r.follows()
	r.reportsDrift()
	r.ignores()
	r.rollsBack()
	r.holdsAnObject()
	r.plansWithPublishedPrices()
	r.prunes()
	r.hasPullRequests()
	r.acceptsForcePushes()
}

// without deletes a Secret, so that the next block can create one of the same name.
func (r reader) without(secret string) {
	r.Helper()
	if err := r.hand.Delete(r.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret, Namespace: r.system}}); client.IgnoreNotFound(err) != nil {
		r.Fatal(err)
	}
}

func (r reader) follows() {
	p, u := newPage(r.T, "howto/follow-a-repository.md"), r.shell(r.repo)
	u.block(p.take("poolwright lint"), exitCode{0})
	for _, name := range []string{"identity", "identity.pub", "known_hosts"} {
		r.repo.write(name, "made by ssh-keygen and ssh-keyscan")
	}
	u.block(p.take("kubectl -n poolwright-system create secret generic git --from-file"), exitCode{0})
	r.without("git")
	u.block(p.take("kubectl -n poolwright-system create secret generic git --from-literal"), exitCode{0})
	r.syncNamed(r.name)
	r.ready()

	const tutorial = "tutorials/from-flux-and-karpenter.md"
	flux := newPage(r.T, tutorial)
	clone := r.with("sync dev", "sync "+r.name).with("/tmp/demo", filepath.Join(r.TempDir(), "demo")).shell(r.repo)
	clone.variables = []string{"GIT_USER=" + r.owner.Name, "GIT_PASSWORD=" + r.token}
	clone.block(newPage(r.T, "howto/explore-the-sandbox.md").take("helper="), exitCode{0})
	r.repo.write("config/cluster.yaml", yamlBlock(r.T, tutorial, "kind: Cluster\n"))
	u.block("poolwright lint clusters/dev\n", exitCode{0})
	r.repo.remove("config/cluster.yaml")
	u.block("git fetch -q origin\n"+flux.take("poolwright lint"), exitCode{0})
	r.with("clusters/dev", "config -n "+r.system+" --sync "+r.name).shell(r.repo).block(flux.take("poolwright plan clusters/dev\n"), exitCode{0})
	u.block(flux.take("kubectl -n poolwright-system patch"), exitCode{0})
	u.block(flux.take("kubectl get deviceplugins"), exitCode{0})
	r.ready()
}

// makesSecrets runs the lines by which pages make Secrets that the repository here does not need, and reads their keys.
func (r reader) makesSecrets() {
	u := r.shell(r.repo, "PROXY_PASSWORD=hunter2")
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt", "app.private-key.pem"} {
		r.repo.write(name, "made by somebody else")
		defer r.repo.remove(name)
	}
	p := newPage(r.T, "howto/git-credentials.md")
	for _, c := range []struct {
		begins, secret string
		keys           []string
	}{
		{"kubectl -n poolwright-system create secret generic git --from-literal=bearerToken", "git", []string{"bearerToken"}},
		{"kubectl -n poolwright-system create secret generic git --from-file=tls.crt", "git", []string{"ca.crt", "tls.crt", "tls.key"}},
		{"kubectl -n poolwright-system create secret generic git --from-literal=githubAppID", "git", []string{"githubAppID", "githubAppInstallationID", "githubAppPrivateKey"}},
		{"kubectl -n poolwright-system create secret generic proxy", "proxy", []string{"address", "password", "username"}},
	} {
		u.block(p.take(c.begins), exitCode{0})
		var made corev1.Secret
		if err := r.hand.Get(r.Context(), client.ObjectKey{Namespace: r.system, Name: c.secret}, &made); err != nil {
			r.Fatal(err)
		}
		if d := cmp.Diff(c.keys, slices.Sorted(maps.Keys(made.Data))); d != "" {
			r.Errorf("%s has other keys: %s", c.begins, d)
		}
		r.without(c.secret)
	}
	u.block(newPage(r.T, "howto/bootstrap.md").take("kubectl -n poolwright-system create secret"), exitCode{0})
	r.without("git")
}

func (r reader) ignores() {
	r.shell(r.repo).block(newPage(r.T, "howto/ignore-fields.md").take("kubectl"), exitCode{0})
	r.observed()
	if got := r.sync().Spec.Ignore; len(got) != 1 || got[0].Target.Name != "web" {
		r.Errorf("spec.ignore is %+v", got)
	}
	r.change(func(sync *v1alpha1.Sync) { sync.Spec.Ignore = nil })
	r.ready()
}

func (r reader) rollsBack() {
	earlier, p := r.repo.revision(), newPage(r.T, "howto/roll-back.md")
	r.declare("v1b", five...)
	r.repo.commit("Break it")
	r.ready()
	u := r.with("e15a32f0c5b7d1a94e83c2f6a0b9d8e7c6f5a4b3", earlier[strings.LastIndex(earlier, ":")+1:]).
		with("poolwright rollback dev", "poolwright rollback "+r.name+" -n "+r.system).
		with("poolwright resume dev", "poolwright resume "+r.name+" -n "+r.system).shell(r.repo)
	u.block(p.take("git log"), exitCode{0})
	r.holds("a", "v1")
	u.prints(u.block(p.take("kubectl"), exitCode{0}), "new-ami-not-ready")
	u.block(p.take("poolwright resume"), exitCode{0})
	r.holds("a", "v1b")
	r.declare("v1", five...)
	r.repo.commit("Revert it")
	r.ready()
}

func (r reader) reportsDrift() {
	p := newPage(r.T, "howto/report-drift.md")
	r.shell(r.repo).block(p.take("kubectl"), exitCode{0})
	r.observed()
	r.edit("a", `{"data":{"value":"by hand"}}`)
	r.drifted("a", "update")
	r.change(func(sync *v1alpha1.Sync) { sync.Spec.Drift = v1alpha1.DriftCorrect })
	r.holds("a", "v1")
}

// holdsAnObject holds one until a time, which is that of an hour from now here, and ends it by hand.
func (r reader) holdsAnObject() {
	r.with("nodepool gpu", "configmap a -n "+r.apps).with("2026-11-28T18:00:00Z", time.Now().Add(time.Hour).UTC().Format(time.RFC3339)).
		shell(r.repo).block(newPage(r.T, "howto/hold-objects.md").take("kubectl annotate"), exitCode{0})
	r.declare("v2", five...)
	r.repo.commit("Change what is held, and the rest")
	r.waitForNotReady("HoldUntil")
	r.holds("b", "v2")
	r.holds("a", "v1")
	r.edit("a", `{"metadata":{"annotations":{"poolwright.dev/hold-until":null,"poolwright.dev/hold-reason":null}}}`)
	r.shell(r.repo).block("poolwright reconcile "+r.name+" -n "+r.system, exitCode{0})
	r.holds("a", "v2")
	r.declare("v1", five...)
	r.repo.commit("Back to what it was")
	r.ready()
}

// pricedPool is a Cluster and a pool of one instance type, of which the limit allows one.
const pricedPool = `apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: cluster}
spec: {name: priced, region: eu-west-1, account: "111122223333"}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: priced}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20261001}]
  subnetSelectorTerms: [{tags: {cluster: priced}}]
  securityGroupSelectorTerms: [{tags: {cluster: priced}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: priced}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: priced}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge]}
  limits: {cpu: "4"}
`

// plansWithPublishedPrices has a plan read what a controller with --publish-prices would publish, and compares it with one that
// has the catalog's prices only.
func (r reader) plansWithPublishedPrices() {
	at := time.Now().UTC()
	prices, err := published.Content{Offerings: &pricelist.List{Region: "eu-west-1", OnDemand: map[string]float64{"g4dn.xlarge": 0.61}, OnDemandAt: at}}.ConfigMap(r.system)
	if err != nil {
		r.Fatal(err)
	}
	if err := r.hand.Create(r.Context(), prices); err != nil {
		r.Fatal(err)
	}
	r.repo.write("priced/pool.yaml", pricedPool)
	r.repo.commit("Add a pool beside what the Sync follows")
	u := r.with("origin/main", "HEAD~1").with("clusters/dev", "priced").shell(r.repo)
	// A plan with changes exits with 1. Lines are wrapped.
	plan := func(commands string) string { return strings.Join(strings.Fields(u.block(commands, exitCode{1})), " ") }
	got := plan(newPage(r.T, "howto/cost.md").take("kubectl"))
	u.prints(got, "$0.61", "On-demand: AWS's price list of the region, "+at.Format(time.DateOnly))
	if strings.Contains(got, "≈") {
		r.Errorf("a price of AWS's list is marked as one of the catalog:\n%s", got)
	}
	got = plan("poolwright plan clusters/dev --base origin/main --offline")
	u.prints(got, "≈", "the shipped catalog")
	if strings.Contains(got, "$0.00") || strings.Contains(got, "$0.61") {
		r.Errorf("what is not known has a price:\n%s", got)
	}
	r.repo.remove("prices.yaml", "priced")
}

func (r reader) prunes() {
	p, leaving := newPage(r.T, "howto/confirm-a-prune.md"), names("leaving", 11)
	r.declare("v1", leaving...)
	r.repo.commit("Declare many")
	r.ready()
	for _, name := range leaving {
		r.repo.remove("config/" + name + ".yaml")
	}
	r.repo.commit("Remove them")
	message := r.waitForNotReady("PruneHeld")
	r.shell(r.repo).block(p.take("kubectl -n poolwright-system get"), exitCode{0})
	r.with("<token>", r.tokenIn(message)).shell(r.repo).block(p.take("kubectl -n poolwright-system annotate"), exitCode{0})
	r.ready()
	r.gone(leaving[0])
}

func (r reader) hasPullRequests() {
	token := "TOKEN=" + r.newForgeToken()
	hub, u := newPage(r.T, "howto/pull-requests-github.md"), r.shell(r.repo, token)
	r.repo.write("platform.private-key.pem", "made by GitHub")
	u.block(hub.take("kubectl -n poolwright-system create secret generic forge \\"), exitCode{0})
	r.repo.remove("platform.private-key.pem")
	r.without("forge")
	u.block(hub.take("kubectl -n poolwright-system create secret generic forge --from-literal=token"), exitCode{0})
	u.block(hub.take("SECRET="), exitCode{0})
	r.without("forge")
	// Nothing of these is made: there is no GitHub, and nothing that both tokens confirm.
	dry := r.with("--type merge", "--type merge --dry-run=server").with("annotate sync dev", "annotate --dry-run=server sync "+r.name).
		with("<deletions-…>,<nodes-…>", "deletions-0123456789ab,nodes-0123456789ab").shell(r.repo)
	dry.block(hub.take("kubectl -n poolwright-system patch sync"), exitCode{0})
	guard := newPage(r.T, "howto/guard-nodes.md")
	for range 3 {
		dry.block(guard.take("kubectl"), exitCode{0})
	}
	r.hasMergeRequests(u, dry)
	r.configuresArgoCD()

	tea := newPage(r.T, "howto/pull-requests-gitea.md")
	u.block(tea.take("kubectl -n poolwright-system create"), exitCode{0})
	u.block(tea.take("kubectl -n poolwright-system patch sync"), exitCode{0})
	r.eventually("the forge is polled", func() error {
		if got := r.sync().Status.PullRequests; got == nil || got.Reason != "" {
			return fmt.Errorf("status.pullRequests is %+v", got)
		}
		return nil
	})
	u.block(tea.take("SECRET="), exitCode{0})
	r.onlyComments()
}

// onlyComments applies the tutorial's Sync that reverts and deletes nothing, of this repository and its forge.
func (r reader) onlyComments() {
	r.change(func(sync *v1alpha1.Sync) { sync.Spec.PullRequests = nil })
	forge := sharedEnv.Git.URL() + "/" + r.owner.Name + "/nodes"
	r.with("name: dev, namespace: poolwright-system", "name: "+r.name+", namespace: "+r.system).
		with("url: https://git.example.com/platform/nodes.git", "ref: {branch: "+r.repo.branch+"}, url: "+r.git.url()+"/"+r.owner.Name+"/nodes.git").
		with("provider: GitHub", "provider: Gitea\n    interval: 5s\n    url: "+forge).shell(r.repo).
		block("kubectl apply -f - <<'YAML'\n"+yamlBlock(r.T, "tutorials/from-flux-and-karpenter.md", "kind: Sync\n")+"YAML\n", exitCode{0})
	r.observed()
	if spec := r.sync().Spec; spec.Drift != v1alpha1.DriftReport || spec.Prune == nil || *spec.Prune || spec.PullRequests == nil {
		r.Errorf("the Sync of the tutorial has drift %s, prune %v, pullRequests %+v", spec.Drift, spec.Prune, spec.PullRequests)
	}
	r.eventually("the forge is polled for the tutorial's Sync", func() error {
		if got := r.sync().Status.PullRequests; got == nil || got.Reason != "" {
			return fmt.Errorf("status.pullRequests is %+v", got)
		}
		return nil
	})
	prune := true
	r.change(func(sync *v1alpha1.Sync) { sync.Spec.Drift, sync.Spec.Prune = v1alpha1.DriftCorrect, &prune })
	r.ready()
}

// hasMergeRequests runs the page of GitLab, whose Sync is not made either.
func (r reader) hasMergeRequests(u, dry *shell) {
	p := newPage(r.T, "howto/pull-requests-gitlab.md")
	u.block(p.take("kubectl -n poolwright-system create"), exitCode{0})
	dry.block(p.take("kubectl -n poolwright-system patch sync"), exitCode{0})
	u.block(p.take("SECRET="), exitCode{0})
	r.without("forge")
}

// configuresArgoCD patches the ConfigMap of an Argo CD that is not there.
func (r reader) configuresArgoCD() {
	of := metav1.ObjectMeta{Name: "argocd-cm", Namespace: "argocd"}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: of.Namespace}}, &corev1.ConfigMap{ObjectMeta: of}} {
		if err := r.hand.Create(r.Context(), object); err != nil {
			r.Fatal(err)
		}
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		r.Fatal(err)
	}
	block := newPage(r.T, "howto/beside-flux-or-argocd.md").take("kubectl -n argocd patch")
	newShell(r.fixture, r.repo, "config/argocd/", filepath.Join(root, "config", "argocd")+"/").block(block, exitCode{0})
	var patched corev1.ConfigMap
	if err := r.hand.Get(r.Context(), client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, &patched); err != nil || patched.Data["resource.customizations.health.poolwright.dev_Sync"] == "" {
		r.Errorf("Argo CD has %v, %v", slices.Collect(maps.Keys(patched.Data)), err)
	}
}

// newForgeToken is one for pull requests.
func (r reader) newForgeToken() string {
	r.Helper()
	token, err := r.Git.CreateToken(r.Context(), r.owner, "pulls", "write:issue", "write:repository", "read:user")
	if err != nil {
		r.Fatal(err)
	}
	r.hide(token)
	return token
}

func (r reader) acceptsForcePushes() {
	p := newPage(r.T, "howto/accept-a-force-push.md")
	// Back by a force push, which the server allows here.
	now := r.isForced("v2")
	before := r.repo.committed
	commits := []string{"before=" + before, "now=" + now.committed}
	r.with("before=<commit before> now=<commit now>", "").shell(r.repo).block(p.take("kubectl -n poolwright-system get"), exitCode{0})
	u := r.shell(r.repo, commits...)
	fetch := p.take("git fetch origin")
	u.block(fetch, exitCode{0})
	u.block(p.take("git push --force-with-lease"), exitCode{0})
	r.ready()
	r.holds("a", "v1")

	// Back by a merge.
	now = r.isForced("v3")
	u = r.shell(r.repo, "before="+before, "now="+now.committed)
	u.block(fetch, exitCode{0})
	u.block(p.take(`git switch --detach "$before"`), exitCode{0})
	r.merged(r.repo)
	r.holds("a", "v1")

	// Accepted by the token.
	now = r.isForced("v4")
	token := r.tokenIn(r.waitForNotReady("NotFastForward"))
	r.with("<token>", token).shell(r.repo).block(p.take("kubectl -n poolwright-system annotate"), exitCode{0})
	r.repo = now
	r.ready()
	r.holds("a", "v4")

	// Accepted by a merge.
	before = now.committed
	now = r.isForced("v5")
	u = r.shell(r.repo, "before="+before, "now="+now.committed)
	u.block(fetch, exitCode{0})
	u.block(p.take(`git switch --detach "$now"`), exitCode{0})
	r.merged(r.repo)
	r.holds("a", "v5")
}

// isForced moves the branch to a history of its own, in which objects have another value, and returns a clone of it.
func (r reader) isForced(value string) *repo {
	r.Helper()
	other := r.unrelated(value, r.repo.branch)
	r.waitForNotReady("NotFastForward")
	return other
}

// merged waits until the Sync has applied the merge that was pushed from the clone.
func (r reader) merged(clone *repo) {
	r.Helper()
	var branch struct {
		Commit struct{ ID string }
	}
	r.call(http.MethodGet, "/branches/"+clone.branch, nil, &branch)
	clone.takes(branch.Commit.ID)
	r.repo = clone
	r.ready()
}
