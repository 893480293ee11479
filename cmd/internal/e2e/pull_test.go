package e2e

import (
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// pulls is a repository with pull requests, and a Poolwright that is told of them.
type pulls struct {
	gpuSuite
	owner gitserver.Account
	bot   gitserver.Account
	made  gitserver.Repository
	// base is the branch that is followed.
	base string
	// metrics is where the controller serves them.
	metrics string
}

// The pools of the suite: one is changed itself, the other through its class.
const (
	taintedPool = "tainted"
	diskedPool  = "disked"
)

// TestPullRequestsGetTheirPlan: opened, planned, pushed again, merged, rolled
// out, and what comes between.
func TestPullRequestsGetTheirPlan(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	g := newGPUFixture(t, "pulls", map[string]string{
		"tainted.yaml": pullPoolText(taintedPool, "default", "old"), "disked.yaml": pullPoolText(diskedPool, "gpu-nodeclass", "same"),
	}, "--metrics-addr="+address)
	p := newPulls(g)
	p.metrics = address
	for _, pool := range []string{taintedPool, diskedPool} {
		g.addDeployment(pool, 2)
		g.nodesAre(pool, 2)
	}
	run := func(name string, do func(*pulls)) step {
		return step{name, func(s engineSuite) { part := *p; part.gpuSuite = g.in(s); do(&part) }}
	}
	runSteps(g.engineSuite,
		run("a change of taints and disks is planned, pushed again, merged and rolled out to its end", (*pulls).livesToItsEnd),
		run("what cannot be rendered is reported, and hurts nobody", (*pulls).isABomb),
		run("a pull request that changes nothing here is not commented", (*pulls).isElsewhere),
		run("a merge that takes more than was reviewed is held", (*pulls).growsBeyondItsReview),
		run("a pool that exceeds a quota is held until the quota is raised, or a person confirms", (*pulls).exceedsAQuota),
		run("a token that the forge refuses is reported until it is renewed", (*pulls).hasARevokedToken),
	)
}

// pullPoolText is a pool of small machines.
func pullPoolText(name, class, taint string) string {
	return fmt.Sprintf(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %[1]s}
spec:
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never, budgets: [{nodes: "1"}]}
  template:
    metadata: {labels: {nodepool: %[1]s}}
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %[2]s}
      taints: [{key: test, value: %[3]s, effect: NoSchedule}]
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [c5.large]}
`, name, class, taint)
}

// newPulls gives the environment's Sync a user at the forge.
func newPulls(g gpuSuite) *pulls {
	g.Helper()
	ctx := g.Context()
	p := &pulls{gpuSuite: g, base: g.git.repo.branch}
	p.owner = g.git.owner
	p.made = gitserver.Repository{Owner: g.git.repo.user, Name: "nodes"}
	token, err := sharedEnv.Git.CreateToken(ctx, g.git.owner, "people", "write:repository", "write:issue", "write:user")
	if err != nil {
		g.Fatal(err)
	}
	p.owner.Token = token
	if p.bot, err = sharedEnv.Git.CreateUser(ctx, "poolwright-"+g.git.name); err != nil {
		g.Fatal(err)
	}
	p.call(http.MethodPut, "/collaborators/"+p.bot.Name, map[string]string{"permission": "write"}, nil)
	token, err = sharedEnv.Git.CreateToken(ctx, p.bot, "poolwright", "read:user", "write:issue", "write:repository")
	if err != nil {
		g.Fatal(err)
	}
	p.bot.Token = token
	p.follows()
	return p
}

// follows has the environment's Sync comment on the pull requests.
func (p *pulls) follows() {
	p.Helper()
	if err := p.hand.Create(p.Context(), p.forgeSecret(p.bot.Token)); err != nil {
		p.Fatal(err)
	}
	p.sets(`{"pullRequests":{"provider":"Gitea","secretRef":{"name":"forge"},"interval":"5s"}}`)
}

// sets patches the Sync's spec.
func (p *pulls) sets(spec string) {
	p.Helper()
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: p.git.name, Namespace: engineSystem}}
	if err := p.hand.Patch(p.Context(), sync, mergePatch(`{"spec":`+spec+`}`)); err != nil {
		p.Fatal(err)
	}
}

// call asks Gitea about the repository, as its owner.
func (p *pulls) call(method, path string, body, result any) {
	p.Helper()
	if err := p.calls(method, path, body, result); err != nil {
		p.Fatal(err)
	}
}

func (p *pulls) calls(method, path string, body, result any) error {
	return sharedEnv.Git.Call(p.Context(), p.owner, method, "/repos/"+p.made.Owner+"/"+p.made.Name+path, body, result)
}

// open proposes files in a branch.
func (p *pulls) open(branch, title string, files map[string]string) int {
	p.Helper()
	p.push(branch, title, files)
	number, err := sharedEnv.Git.CreatePullRequest(p.Context(), p.owner, p.made, gitserver.PullRequest{Head: branch, Base: p.base, Title: title})
	if err != nil {
		p.Fatal(err)
	}
	return number
}

// push adds a commit to a branch, which begins where the followed one is. An empty file means none.
func (p *pulls) push(branch, message string, files map[string]string) string {
	p.Helper()
	tree, err := p.git.repo.git.Worktree()
	if err != nil {
		p.Fatal(err)
	}
	name := plumbing.NewBranchReferenceName(branch)
	_, err = p.git.repo.git.Reference(name, true)
	if err := tree.Checkout(&git.CheckoutOptions{Branch: name, Create: err != nil}); err != nil {
		p.Fatal(err)
	}
	for name, text := range files {
		if text == "" {
			p.git.repo.remove("config/" + name)
			continue
		}
		p.git.repo.write("config/"+name, text)
	}
	id := p.git.repo.commitOnly(message)
	p.git.repo.push("refs/heads/" + branch + ":refs/heads/" + branch)
	if err := tree.Checkout(&git.CheckoutOptions{Branch: plumbing.Main}); err != nil {
		p.Fatal(err)
	}
	return id
}

// comment is one of Gitea's.
type comment struct {
	ID      int64     `json:"id"`
	Body    string    `json:"body"`
	Updated time.Time `json:"updated_at"`
}

func (p *pulls) comments(number int) (all []comment, err error) {
	return all, p.calls(http.MethodGet, fmt.Sprintf("/issues/%d/comments", number), nil, &all)
}

// waitForComment waits for the one comment to say all of the words.
func (p *pulls) waitForComment(number int, texts ...string) (found comment) {
	p.Helper()
	p.eventually(fmt.Sprintf("the comment on #%d says %q", number, texts), func() error {
		all, err := p.comments(number)
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return fmt.Errorf("there are %d comments: %v", len(all), all)
		}
		found = all[0]
		// What is not ours stands in it as entities, broken by invisible characters.
		text := strings.ReplaceAll(html.UnescapeString(found.Body), "\u200b", "")
		for _, part := range texts {
			if !strings.Contains(text, part) {
				return fmt.Errorf("%q is not in:\n%s", part, found.Body)
			}
		}
		return nil
	})
	return found
}

// stands waits for a commit's status.
func (p *pulls) stands(sha, context, state string) (description string) {
	p.Helper()
	p.eventually(fmt.Sprintf("status %s of %.7s is %s", context, sha, state), func() error {
		// The newest of each context.
		var all struct {
			Statuses []struct{ Context, Status, Description string }
		}
		if err := p.calls(http.MethodGet, "/commits/"+sha+"/status", nil, &all); err != nil {
			return err
		}
		for _, s := range all.Statuses {
			if s.Context == context {
				if s.Status == state {
					description = s.Description
					return nil
				}
				return fmt.Errorf("it is %s: %s", s.Status, s.Description)
			}
		}
		return fmt.Errorf("there is none among %v", all)
	})
	return description
}

// merge merges, as a person does with the button, and returns the commit.
func (p *pulls) merge(number int) string {
	p.Helper()
	at := fmt.Sprintf("/pulls/%d", number)
	p.eventually("it is merged", func() error { return p.calls(http.MethodPost, at+"/merge", map[string]string{"Do": "merge"}, nil) })
	var merged struct {
		Commit string `json:"merge_commit_sha"`
	}
	p.call(http.MethodGet, at, nil, &merged)
	p.git.repo.takes(merged.Commit)
	return merged.Commit
}

// nodesAre waits until a pool has so many nodes, all ready, and names their claims.
func (g gpuSuite) nodesAre(pool string, many int) (names []string) {
	g.Helper()
	g.until(fmt.Sprintf("%s has %d nodes", pool, many), func() error {
		claims, err := g.claims(pool)
		if err != nil {
			return err
		}
		names = nil
		for _, c := range claims {
			if !c.StatusConditions().Root().IsTrue() || !c.DeletionTimestamp.IsZero() {
				return fmt.Errorf("%s is not ready", c.Name)
			}
			names = append(names, c.Name)
		}
		slices.Sort(names)
		if len(names) != many {
			return fmt.Errorf("there are %v", names)
		}
		return nil
	})
	return names
}

// The contexts of the statuses, for this environment's cluster.
const (
	planStatus    = "poolwright/plan (gpu-timeslicing)"
	rolloutStatus = "poolwright/rollout (gpu-timeslicing)"
)

// changedPrice is what AWS has an hour of the pools' instance type cost at last.
const changedPrice = 1.57

// livesToItsEnd is the life of a pull request that replaces all nodes.
func (p *pulls) livesToItsEnd() {
	before := append(p.nodesAre(taintedPool, 2), p.nodesAre(diskedPool, 2)...)
	opened := time.Now()
	number := p.open("new-taint", "Taint the pool <img src=x> @everyone", map[string]string{"tainted.yaml": pullPoolText(taintedPool, "default", "new")})
	first := p.waitForComment(number, "2 nodes replaced", "NodePoolDrifted", "taints", "On-demand: AWS's price list of the region")
	p.Logf("commented %s after it was opened, by polling", time.Since(opened).Round(100*time.Millisecond))
	classes := strings.ReplaceAll(p.example("clusters/dev/nodeclasses.yaml"), "200Gi", "300Gi")
	head := p.push("new-taint", "And a bigger disk", map[string]string{"classes.yaml": classes})
	second := p.waitForComment(number, "4 nodes replaced", "300Gi")
	if second.ID != first.ID {
		p.Errorf("another comment was made: %d, %d", first.ID, second.ID)
	}
	if got := p.stands(head, planStatus, "success"); !strings.Contains(got, "4 nodes replaced") {
		p.Errorf("the status says %q", got)
	}
	for _, name := range before {
		if !strings.Contains(second.Body, name) {
			p.Errorf("the comment does not name %s:\n%s", name, second.Body)
		}
	}
	merged := p.merge(number)
	p.stands(merged, rolloutStatus, "pending")
	p.waitForComment(number, "4 nodes replaced", "Applied", "Roll-out")
	p.rolledOut(merged, metav1.ConditionFalse, "RollingOut")
	// Killed in the middle of it.
	if err := p.now.Kill(); err != nil {
		p.Fatal(err)
	}
	// The process that comes reads it.
	if err := p.AWS.SetPrice("c5.large", "", changedPrice); err != nil {
		p.Fatal(err)
	}
	p.runs("--metrics-addr=" + p.metrics)
	last := p.waitForComment(number, "Roll-out done")
	if last.ID != first.ID || !strings.HasPrefix(last.Body, strings.SplitN(second.Body, "\n", 3)[0]) {
		p.Errorf("what was reviewed did not stay:\n%s", last.Body)
	}
	if got := p.stands(merged, rolloutStatus, "success"); !strings.Contains(got, "4 nodes") {
		p.Errorf("the status says %q", got)
	}
	for _, name := range append(p.nodesAre(taintedPool, 2), p.nodesAre(diskedPool, 2)...) {
		if slices.Contains(before, name) {
			p.Errorf("%s is still there", name)
		}
	}
	p.rolledOut(merged, metav1.ConditionTrue, "UpToDate")
}

// rolledOut waits for the condition RolledOut of the Sync, for a commit.
func (p *pulls) rolledOut(commit string, status metav1.ConditionStatus, reason string) {
	p.Helper()
	p.eventually(fmt.Sprintf("RolledOut of %.7s is %s", commit, status), func() error {
		sync, err := p.sync()
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(sync.Status.Conditions, "RolledOut")
		if c == nil || c.Status != status || c.Reason != reason || !strings.HasSuffix(sync.Status.LastAppliedRevision, commit) || !strings.Contains(c.Message, commit) || c.ObservedGeneration != sync.Generation {
			return fmt.Errorf("it is %+v, and %s is applied", c, sync.Status.LastAppliedRevision)
		}
		return nil
	})
}

// isABomb proposes YAML that grows beyond all bounds.
func (p *pulls) isABomb() {
	var bomb strings.Builder
	bomb.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	pid := p.now.PID()
	number := p.open("bomb", "A bomb", map[string]string{"bomb.yaml": bomb.String()})
	p.waitForComment(number, "config/bomb.yaml", "limit exceeded")
	if p.now.PID() != pid || p.now.Err() != nil || syscall.Kill(pid, 0) != nil {
		p.Error("the controller did not outlive it")
	}
	p.call(http.MethodPatch, fmt.Sprintf("/pulls/%d", number), map[string]string{"state": "closed"}, nil)
}

// isElsewhere changes a file of no interest.
func (p *pulls) isElsewhere() {
	head := p.push("readme", "Say more", map[string]string{"../README.md": "# Nodes\n"})
	number, err := sharedEnv.Git.CreatePullRequest(p.Context(), p.owner, p.made, gitserver.PullRequest{Head: "readme", Base: p.base, Title: "Say more"})
	if err != nil {
		p.Fatal(err)
	}
	p.stands(head, planStatus, "success")
	all, err := p.comments(number)
	if diff := cmp.Diff(0, len(all)); diff != "" || err != nil {
		p.Errorf("there are comments: %v, %v", all, err)
	}
}

// growsBeyondItsReview: between the review and the merge many more nodes came.
func (p *pulls) growsBeyondItsReview() {
	limited := strings.Replace(pullPoolText(taintedPool, "default", "newer"), "spec:\n", "spec:\n  limits: {nodes: 20}\n", 1)
	number := p.open("newer-taint", "Taint the pool anew", map[string]string{"tainted.yaml": limited})
	reported := len(p.nodesAre(taintedPool, 2))
	p.waitForComment(number, fmt.Sprintf("%d nodes replaced", reported), fmt.Sprintf("none → \\$%.2f/h", 20*changedPrice))
	p.scales(taintedPool, 7)
	grown := p.nodesAre(taintedPool, 7)
	merged := p.merge(number)
	p.waitForComment(number, fmt.Sprintf("%d were predicted", reported), "poolwright.dev/confirm")
	p.stands(merged, rolloutStatus, "pending")
	p.eventually("RolledOut has why the merge is held", func() error {
		sync, err := p.sync()
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(sync.Status.Conditions, "RolledOut"); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "NodeReplacementHeld" {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	if diff := cmp.Diff(grown, p.nodesAre(taintedPool, 7)); diff != "" {
		p.Errorf("the nodes are others:\n%s", diff)
	}
	p.annotates(v1alpha1.ConfirmAnnotation, p.tokenFor("NodeReplacementHeld"))
	p.waitForComment(number, "Applied", "Roll-out")
}

// tokenFor is what confirms what the Sync holds for a reason.
func (p *pulls) tokenFor(reason string) (token string) {
	p.Helper()
	p.eventually("the Sync has the command to confirm", func() error {
		sync, err := p.sync()
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(sync.Status.Conditions, "Ready")
		if ready == nil || ready.Reason != reason {
			return fmt.Errorf("Ready is %+v", ready)
		}
		token = sync.Status.ConfirmationToken
		return nil
	})
	return token
}

// scales changes a Deployment's replicas.
func (p *pulls) scales(pool string, replicas int) {
	p.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: pool, Namespace: "default"}}
	if err := p.hand.Patch(p.Context(), deployment, mergePatch(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))); err != nil {
		p.Fatal(err)
	}
}
