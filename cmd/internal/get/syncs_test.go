package get

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestASyncHasItsConditionDriftedAndWhetherItsPullRequestsAreRead(t *testing.T) {
	transition := ago(0)
	for name, c := range map[string]struct {
		change func(*v1alpha1.Sync)
		want   Sync
	}{
		"without a condition": {func(s *v1alpha1.Sync) { s.Status = v1alpha1.SyncStatus{} }, Sync{}},
		"suspended": {func(s *v1alpha1.Sync) {
			s.Status.Conditions = []metav1.Condition{{Type: "Drifted", Status: metav1.ConditionUnknown, Reason: "Suspended", LastTransitionTime: transition}}
		}, Sync{DriftReason: "Suspended", DriftTransition: &transition}},
		"whose pull requests were not read": {func(s *v1alpha1.Sync) {
			s.Spec.PullRequests, s.Status.Conditions = &v1alpha1.PullRequests{}, nil
		}, Sync{PullRequests: &PullRequestsState{}}},
		"whose forge fails": {func(s *v1alpha1.Sync) {
			s.Spec.PullRequests, s.Status.Conditions = &v1alpha1.PullRequests{}, nil
			s.Status.PullRequests = &v1alpha1.PullRequestsStatus{Open: 2, Reason: "RateLimited", Message: "\x1b"}
		}, Sync{PullRequests: &PullRequestsState{Open: new(2), Reason: "RateLimited", Message: `\x1b`}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := syncsOf([]v1alpha1.Sync{readySync("dev", c.change)})[0]
			parts := Sync{DriftReason: got.DriftReason, DriftTransition: got.DriftTransition, PullRequests: got.PullRequests}
			if diff := cmp.Diff(c.want, parts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPullRequestHasItsPageAtTheForgeWhereTheAddressIsSafe(t *testing.T) {
	for name, c := range map[string]struct {
		provider  v1alpha1.ForgeProvider
		git, spec string
		want      string
	}{
		"GitHub":                    {v1alpha1.ForgeGitHub, "https://github.com/example/cluster.git", "", "https://github.com/example/cluster/pull/41"},
		"GitLab with groups":        {v1alpha1.ForgeGitLab, "https://gitlab.com/a/b/cluster/", "", "https://gitlab.com/a/b/cluster/-/merge_requests/41"},
		"Forgejo below a path":      {v1alpha1.ForgeForgejo, "http://127.0.0.1:3000/git/a/cluster", "", "http://127.0.0.1:3000/git/a/cluster/pulls/41"},
		"spec.pullRequests.url":     {v1alpha1.ForgeGitea, "ssh://git@host/a/cluster", "https://host/a/cluster", "https://host/a/cluster/pulls/41"},
		"an address of ssh":         {v1alpha1.ForgeGitHub, "ssh://git@github.com/example/cluster", "", ""},
		"an address of scp":         {v1alpha1.ForgeGitHub, "git@github.com:example/cluster", "", ""},
		"an address with a secret":  {v1alpha1.ForgeGitHub, "https://user:secret@github.com/example/cluster", "", ""},
		"an address with a query":   {v1alpha1.ForgeGitHub, "https://github.com/example/cluster?token=a", "", ""},
		"a script":                  {v1alpha1.ForgeGitHub, "javascript:alert(1)", "", ""},
		"a forge that is not known": {"Other", "https://github.com/example/cluster", "", ""},
		"no address":                {v1alpha1.ForgeGitHub, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := readySync("dev", func(s *v1alpha1.Sync) {
				s.Spec.Source.Git.URL, s.Spec.PullRequests = c.git, &v1alpha1.PullRequests{Provider: c.provider, URL: c.spec}
				s.Status.PullRequests = &v1alpha1.PullRequestsStatus{Items: []v1alpha1.PullRequestStatus{{Number: 41}}}
			})
			if got := pullRequestsOf([]v1alpha1.Sync{s})[0].URL; got != c.want {
				t.Errorf("it is %q, not %q", got, c.want)
			}
		})
	}
}
