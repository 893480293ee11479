package e2e

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	karpenterv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

var (
	// promotedChange is the example of piksel's page: a component, and the file that it is in.
	promotedChange = regexp.MustCompile("(?s)```yaml\n# (changes/[^\n]+)\n(.*?)```")
	imageRelease   = regexp.MustCompile(`al2023@(v\d+)`)
	// planMarker is the first line of a comment, which names its Sync.
	planMarker = regexp.MustCompile(`^<!-- poolwright:plan sync=(\S+) cluster=`)
)

// Three clusters follow one branch, each its own folder. By the steps of the page another image comes to one after the other. What each merge
// does to each cluster is in the status of that cluster's Sync.
func TestAChangeOfPikselIsPromotedByPullRequests(t *testing.T) {
	onlyLong(t)
	of, err := setups.Named("piksel")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(exampleOf(of), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example := promotedChange.FindStringSubmatch(string(page))
	if example == nil {
		t.Fatal("the page has no example of a change")
	}
	release := imageRelease.FindStringSubmatch(example[2])[1]
	p := newPromotion(t, of, release)
	undo := map[string]string{"../" + example[1]: ""}
	for _, c := range p.clusters {
		name := "../clusters/" + c.git.name + "/kustomization.yaml"
		undo[name] = p.reads(name)
		listed := undo[name] + "  - ../../" + path.Dir(example[1]) + "\n"
		p.merges(c.git.name, map[string]string{"../" + example[1]: example[2], name: listed})
	}
	const class = "../base/nodeclass.yaml"
	undo[class] = imageRelease.ReplaceAllString(p.reads(class), "al2023@"+release)
	p.merges("", undo)
}

// promotion are the clusters of piksel's three environments, each with a node, and the pull requests into the branch that they follow.
type promotion struct {
	*pulls
	clusters []landing
	// image is the alias that they begin with, next the one that is promoted to those in done.
	image, next string
	done        []string
}

// newPromotion returns when each cluster has applied its folder and has a node. There are images of the release beside those of the page.
func newPromotion(t *testing.T, of setups.Setup, release string) *promotion {
	t.Helper()
	git := pushExample(t, of, "promotion")
	git.repo.replace("clusters/staging/cluster.yaml", "subnet-0b0", "subnet-0a0", "sg-0b0", "sg-000")
	git.repo.replace("clusters/production/cluster.yaml", "subnet-0c0", "subnet-0a0", "sg-0c0", "sg-000")
	git.repo.commit("Name the subnets and security groups of the sandboxes")
	var suites []setupSuite
	for _, environment := range []struct{ name, account string }{{"dev", setups.Account}, {"staging", "222233334444"}, {"production", "333344445555"}} {
		of.Path, of.Cluster = "clusters/"+environment.name, "piksel-"+environment.name+"-cluster"
		s := applySetup(t, of, &gitLoop{name: environment.name, owner: git.owner, repo: git.repo}, func(config *sandbox.Config) {
			config.AWS.Account = environment.account
			config.AWS.Releases = slices.Sorted(slices.Values(append(config.AWS.Releases, release)))
		})
		s.creates("workloads/general.yaml")
		suites = append(suites, s)
	}
	p := &promotion{pulls: newPulls(suites[0].gpuSuite), next: "al2023@" + release}
	p.image = imageRelease.FindString(p.reads("../base/nodeclass.yaml"))
	for i, s := range suites {
		if i > 0 {
			other := *p.pulls
			other.gpuSuite = s.gpuSuite
			other.follows()
		}
		p.clusters = append(p.clusters, s.lands("tile-export"))
	}
	return p
}

// reads is a file of the repository, named as push names it.
func (p *promotion) reads(name string) string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.git.repo.dir, "config", name))
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// merges opens a pull request that changes the cluster of one environment, or none, and merges it. It returns once the roll-out is done.
func (p *promotion) merges(environment string, files map[string]string) {
	p.Helper()
	number := p.open("promotion-"+environment, "Promote the image: "+environment, files)
	planned, done := mergeEffect{Kind: v1alpha1.PullRequestCommentPlan}, mergeEffect{Kind: v1alpha1.PullRequestCommentOutcome, Nodes: 1}
	planned.Objects = []string{"EC2NodeClass/default"}
	done.Objects = planned.Objects
	p.effects(number, environment, v1alpha1.PullRequestPlanned, planned)
	comments, err := p.comments(number)
	if err != nil {
		p.Fatal(err)
	}
	var by, want []string
	for _, one := range comments {
		by = append(by, planMarker.FindStringSubmatch(one.Body)[1])
	}
	if environment != "" {
		p.done = append(p.done, environment)
		want = []string{engineSystem + "/" + environment}
	}
	if diff := cmp.Diff(want, by); diff != "" {
		p.Errorf("#%d has comments of the Syncs (-want +got):\n%s", number, diff)
	}
	commit := p.merge(number)
	for _, c := range p.clusters {
		c.requests()
		c.applied()
	}
	p.effects(number, environment, v1alpha1.PullRequestDone, done)
	if environment != "" {
		p.stands(commit, "poolwright/rollout (piksel-"+environment+"-cluster)", "success")
	}
	for _, c := range p.clusters {
		c.has(p.image, p.next, slices.Contains(p.done, c.git.name))
	}
}

// mergeEffect is what a Sync's status has of a pull request.
type mergeEffect struct {
	Kind    v1alpha1.PullRequestCommentKind
	Objects []string // of what Karpenter provisions nodes by, that change
	Nodes   int32    // that were replaced for the merge
}

// effects waits until a pull request is in that phase for each Sync, and compares its effect: that in one environment, none in the others.
func (p *promotion) effects(number int, environment string, phase v1alpha1.PullRequestPhase, want mergeEffect) {
	p.Helper()
	for _, c := range p.clusters {
		expected := mergeEffect{Kind: v1alpha1.PullRequestCommentUnaffected}
		if c.git.name == environment {
			expected = want
		}
		var got mergeEffect
		c.eventually(fmt.Sprintf("#%d is %s for %s", number, phase, c.git.name), func() (err error) {
			got, err = c.effect(number, phase)
			return err
		})
		if diff := cmp.Diff(expected, got); diff != "" {
			p.Errorf("#%d, %s, for %s (-want +got):\n%s", number, phase, c.git.name, diff)
		}
	}
}

func (l landing) effect(number int, phase v1alpha1.PullRequestPhase) (out mergeEffect, err error) {
	sync, err := l.sync()
	if err != nil {
		return out, err
	}
	if sync.Status.PullRequests == nil {
		return out, fmt.Errorf("there are none")
	}
	for _, item := range sync.Status.PullRequests.Items {
		if item.Number != int64(number) || item.Phase != phase {
			continue
		}
		out.Kind = item.CommentKind
		if item.Reviewed != nil {
			for _, object := range item.Reviewed.Objects {
				out.Objects = append(out.Objects, object.Kind+"/"+object.Name)
			}
		}
		if item.Rollout != nil {
			out.Nodes = item.Rollout.NodesReplaced
		}
		return out, nil
	}
	return out, fmt.Errorf("there are %+v", sync.Status.PullRequests)
}

// has compares the class and the first node of a cluster: with the next image the node is gone, else nothing has changed.
func (l landing) has(image, next string, promoted bool) {
	l.Helper()
	want := image
	if promoted {
		want = next
	}
	var class karpenterv1.EC2NodeClass
	if err := l.hand.Get(l.Context(), client.ObjectKey{Name: "default"}, &class); err != nil {
		l.Fatal(err)
	}
	if got := class.Spec.AMISelectorTerms[0].Alias; got != want {
		l.Errorf("the image of %s is %s, not %s", l.git.name, got, want)
	}
	var claim karpv1.NodeClaim
	err := l.hand.Get(l.Context(), client.ObjectKeyFromObject(&l.claim), &claim)
	if apierrors.IsNotFound(err) != promoted || err == nil && claim.DeletionTimestamp != nil {
		l.Errorf("the node of %s: %v, deleted %v", l.git.name, err, claim.DeletionTimestamp)
	}
}
