package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge/footer"
)

// reviewer is the user at the forge as whom Poolwright comments.
const reviewer = "poolwright"

// pullBranch is the head of the pull request.
const pullBranch = "consolidate-after"

// forgeSecret holds what Poolwright may do at the forge.
const forgeSecret = "forge"

// watchPullRequests makes a user at the forge as whom Poolwright comments, leaves
// its token in a Secret, and has the Sync plan pull requests.
func (s *Run) watchPullRequests(ctx context.Context) error {
	account, err := s.environment.Git.CreateUser(ctx, reviewer)
	if err != nil {
		return err
	}
	at := s.repo.owned() + "/collaborators/" + account.Name
	if err := s.environment.Git.Call(ctx, s.repo.team, http.MethodPut, at, map[string]string{"permission": "write"}, nil); err != nil {
		return err
	}
	token, err := s.environment.Git.CreateToken(ctx, account, "poolwright", "read:user", "write:issue", "write:repository")
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: forgeSecret, Namespace: systemNamespace},
		StringData: map[string]string{"token": token},
	}
	if _, err := s.kube.CoreV1().Secrets(systemNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the forge's credential: %w", err)
	}
	return s.changeSync(ctx, `{"spec":{"pullRequests":{"provider":"Gitea","secretRef":{"name":"`+forgeSecret+`"},"interval":"5s"}}}`)
}

// propose opens a pull request of the branch and waits for the comment on it.
func (s *Run) propose(ctx context.Context, title, body, change string) error {
	at := time.Now()
	number, err := s.environment.Git.CreatePullRequest(ctx, s.repo.team, s.repo.remote, gitserver.PullRequest{
		Head: pullBranch, Base: "main", Title: title, Body: body,
	})
	if err != nil {
		return err
	}
	s.pull = pull{number: number}
	s.marks.mark(pullOpened, s.pullName(), change, at)
	return s.commented(ctx, commentCreated)
}

// merge merges the pull request, which is the commit that is applied.
func (s *Run) merge(ctx context.Context) error {
	at := fmt.Sprintf("%s/pulls/%d", s.repo.owned(), s.pull.number)
	started := time.Now()
	if err := s.retry(ctx, "merging", func() error {
		// Gitea first checks whether it can.
		return s.environment.Git.Call(ctx, s.repo.team, http.MethodPost, at+"/merge", map[string]string{"Do": "merge"}, nil)
	}); err != nil {
		return err
	}
	var merged struct {
		Commit string `json:"merge_commit_sha"`
	}
	if err := s.environment.Git.Call(ctx, s.repo.team, http.MethodGet, at, nil, &merged); err != nil {
		return err
	}
	s.marks.mark(commitPushed, repository+"@main", fmt.Sprintf("commit %.8s: %s is merged", merged.Commit, s.pullName()), started)
	return nil
}

// waitForOutcome waits until the merge is applied, and the comment has what came of it.
func (s *Run) waitForOutcome(ctx context.Context) error {
	err := s.retry(ctx, "waiting for what came of "+s.pullName(), func() error {
		object, err := s.dyn.Resource(syncs()).Namespace(systemNamespace).Get(ctx, s.syncName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		var sync v1alpha1.Sync
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &sync); err != nil {
			return err
		}
		if sync.Status.PullRequests == nil {
			return errors.New("no pull request is reported")
		}
		for _, p := range sync.Status.PullRequests.Items {
			if applied := p.Phase == v1alpha1.PullRequestRollingOut || p.Phase == v1alpha1.PullRequestDone; applied && p.Number == int64(s.pull.number) {
				return nil
			}
		}
		return fmt.Errorf("the pull requests are %+v", sync.Status.PullRequests.Items)
	})
	if err != nil {
		return err
	}
	return s.commented(ctx, commentConcluded)
}

// commented waits for Poolwright's comment to be another than the last one, and marks it.
func (s *Run) commented(ctx context.Context, event string) error {
	return s.retry(ctx, "waiting for the comment on "+s.pullName(), func() error {
		var comments []struct {
			Body string `json:"body"`
			User struct {
				Login string `json:"login"`
			} `json:"user"`
		}
		at := fmt.Sprintf("%s/issues/%d/comments", s.repo.owned(), s.pull.number)
		if err := s.environment.Git.Call(ctx, s.repo.team, http.MethodGet, at, nil, &comments); err != nil {
			return err
		}
		for _, c := range comments {
			_, text, _ := strings.Cut(c.Body, "\n") // The first line is the marker.
			if c.User.Login != reviewer || text == s.pull.comment {
				continue
			}
			s.pull.comment = text
			s.marks.comment(event, s.pullName(), headline(c.Body), text, time.Now())
			return nil
		}
		return errors.New("the comment is not there yet")
	})
}

// headline is the first line of a comment's footer, which is there once the merge is applied, before that of its body.
func headline(comment string) string {
	body, below := footer.Split(comment)
	line, _, _ := strings.Cut(cmp.Or(below, body), "\n")
	return strings.ReplaceAll(strings.TrimLeft(line, "# "), `\$`, "$") // a terminal renders no formulas
}

func (s *Run) pullName() string { return fmt.Sprintf("%s#%d", repository, s.pull.number) }
