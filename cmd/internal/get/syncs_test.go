package get

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/cmd/internal/installation"
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
			got := syncsOf([]v1alpha1.Sync{readySync("dev", c.change)}, nil)[0]
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

func TestASyncThatItsControllerDoesNotSelectIsMarked(t *testing.T) {
	canary := readySync("canary", func(s *v1alpha1.Sync) { s.Labels = map[string]string{"stage": "canary"} })
	other, without := readySync("other"), readySync("without", func(s *v1alpha1.Sync) { s.Namespace = "no-controller" })
	installs := func(args ...string) client.Object {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: installation.Deployment}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: installation.Deployment, Args: append([]string{"run"}, args...)}}
		return d
	}
	for name, c := range map[string]struct {
		deployment client.Object
		denied     bool
		want       map[string]string
		// unknown are the reasons for which it is not known.
		unknown []string
	}{
		"no selector":                       {deployment: installs()},
		"a selector":                        {installs("--watch-label-selector=stage=canary"), false, map[string]string{"other": "stage=canary"}, nil},
		"one that selects none":             {installs("--watch-label-selector=stage in (test)"), false, map[string]string{"canary": "stage in (test)", "other": "stage in (test)"}, nil},
		"one that is invalid":               {deployment: installs("--watch-label-selector=="), unknown: []string{Failed}},
		"a Deployment that may not be read": {deployment: installs("--watch-label-selector=stage=canary"), denied: true, unknown: []string{Forbidden, Forbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			kube := interceptor.NewClient(installed(t, &canary, &other, &without, c.deployment), interceptor.Funcs{
				Get: func(ctx context.Context, kube client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if _, is := o.(*appsv1.Deployment); is && c.denied {
						return forbidden("deployments")
					}
					return kube.Get(ctx, key, o, options...)
				},
			})
			for _, section := range []sectionName{sectionSyncs, sectionAll} {
				r, _, err := reportSource{kube: kube, types: types(t), now: now, rowSelection: rowSelection{section: section}}.report(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var unknown []string
				for _, u := range r.IncompleteKinds {
					unknown = append(unknown, u.Reason)
					if u.Kind != "deployments.apps" || !strings.HasPrefix(u.Message, "it is not known which Syncs of namespace ") {
						t.Errorf("not read is %+v", u)
					}
				}
				if !slices.Equal(unknown, c.unknown) {
					t.Errorf("it is not known for %q, not %q", unknown, c.unknown)
				}
				if err := reportUnread(io.Discard, r, reportSource{rowSelection: rowSelection{section: section}}); err != nil {
					t.Errorf("the Syncs are read all the same: %v", err)
				}
				got, rows := map[string]string{}, r.syncTable(false).Rows
				for i, s := range r.Syncs {
					if s.NotSelectedBy != "" {
						got[s.Name] = s.NotSelectedBy
					}
					printed := strings.Contains(fmt.Sprint(rows[i].Cells...), "--watch-label-selector="+s.NotSelectedBy+"; applied revision ")
					if printed != (s.NotSelectedBy != "") {
						t.Errorf("the row of %s is %v", s.Name, rows[i].Cells)
					}
				}
				if !maps.Equal(got, c.want) {
					t.Errorf("not selected are %v, not %v", got, c.want)
				}
			}
		})
	}
}

func TestARevisionHasSevenDigitsOfItsCommitOrDigest(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	for revision, want := range map[string]string{
		"main@sha1:" + digest[:40]: "main@0123456", "sha1:" + digest[:40]: "0123456", "latest@sha256:" + digest: "latest@0123456", "sha256:" + digest: "0123456",
		"sha1:012": "sha1:012", "v1-sha1:" + digest: "v1-sha1:" + digest, "1.2.0": "1.2.0", "": "",
	} {
		if got := shortRevision(revision); got != want {
			t.Errorf("%s is %s, not %s", revision, got, want)
		}
	}
}
