package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// pullRequest is the one pull request of a stage.
type pullRequest struct {
	// author opens and merges it, bot comments on it.
	author, bot gitserver.Account
	repository  gitserver.Repository
	// number is 0 before it is opened, and head is the newest commit of its branch.
	number int
	head   string
	// merging is set from when a person merges it.
	merging bool
}

// CommentOnPullRequests has the Sync that is created after this comment on pull requests.
func (s *Stage) CommentOnPullRequests(ctx context.Context) error {
	git, p := s.config.Environment.Git, &s.pull
	var err error
	if p.bot, err = git.CreateUser(ctx, "poolwright-"+s.name); err != nil {
		return err
	}
	if err := s.callForge(ctx, http.MethodPut, "/collaborators/"+p.bot.Name, map[string]string{"permission": "write"}, nil); err != nil {
		return err
	}
	token, err := git.CreateToken(ctx, p.bot, "poolwright", "read:user", "write:issue", "write:repository")
	if err != nil {
		return err
	}
	s.Tap.Plant("the token of the forge", token, history.Forge)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "forge", Namespace: s.System}, StringData: map[string]string{"token": token}}
	s.Configure = append(s.Configure, func(spec *v1alpha1.SyncSpec) {
		spec.PullRequests = &v1alpha1.PullRequests{
			Provider: v1alpha1.ForgeGitea, SecretRef: v1alpha1.SecretRef{Name: secret.Name}, Interval: metav1.Duration{Duration: 5 * time.Second},
		}
	})
	return s.config.Admin.Create(ctx, secret)
}

// callForge calls the forge about the repository, as the author.
func (s *Stage) callForge(ctx context.Context, method, path string, body, result any) error {
	p := &s.pull
	return s.config.Environment.Git.Call(ctx, p.author, method, "/repos/"+p.repository.Owner+"/"+p.repository.Name+path, body, result)
}

// Propose pushes what the model declares to the branch of the pull request, and opens it the
// first time.
func (s *Stage) Propose(ctx context.Context, message string) error {
	const branch = "proposal"
	p := &s.pull
	if p.number == 0 {
		if err := s.tree.Branch(branch); err != nil {
			return err
		}
	}
	if _, err := s.write(); err != nil {
		return err
	}
	s.Tap.Record(history.Event{Kind: history.Proposed})
	var err error
	if p.head, err = s.tree.Push(ctx, message); err != nil {
		return err
	}
	if p.number == 0 {
		p.number, err = s.config.Environment.Git.CreatePullRequest(ctx, p.author, p.repository, gitserver.PullRequest{Head: branch, Base: "main", Title: message})
		if err != nil {
			return err
		}
	}
	// The forge processes a push a moment after it has accepted it.
	err = s.await(ctx, "the forge has not processed the push", func() (wait, failed error) {
		var read struct{ Head struct{ SHA string } }
		if err := s.callForge(ctx, http.MethodGet, fmt.Sprintf("/pulls/%d", p.number), nil, &read); err != nil {
			return nil, err
		}
		if read.Head.SHA != p.head {
			return fmt.Errorf("the head is %s, not %s", read.Head.SHA, p.head), nil
		}
		return nil, nil
	})
	return errors.Join(err, s.notify(ctx))
}

// Merging reports whether a person has merged the pull request, or is about to.
func (s *Stage) Merging() bool { return s.pull.merging }

// Merge merges the pull request, as a person does with the button.
func (s *Stage) Merge(ctx context.Context) error {
	s.pull.merging = true
	s.Tap.Record(history.Event{Kind: history.Committed, Declared: s.declared()})
	err := s.eventually(ctx, "the pull request cannot be merged", func() error {
		return s.callForge(ctx, http.MethodPost, fmt.Sprintf("/pulls/%d/merge", s.pull.number), map[string]string{"Do": "merge"}, nil)
	})
	if err != nil {
		return err
	}
	id, err := s.tree.Pull(ctx, "main")
	if err != nil {
		return err
	}
	s.revision = "main@sha1:" + id
	return errors.Join(s.notify(ctx), s.Request(ctx))
}

// notify does what a verified webhook does: pull requests are read now.
func (s *Stage) notify(ctx context.Context) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.WebhookAnnotation, time.Now().Format(time.RFC3339Nano))
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: s.System}}
	return s.config.Admin.Patch(ctx, sync, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// Planned waits until the pull request's one comment is about its newest commit.
func (s *Stage) Planned(ctx context.Context) error {
	return s.reported(ctx, "the pull request is not planned", func(item v1alpha1.PullRequestStatus, comment string) error {
		if item.Phase != v1alpha1.PullRequestPlanned || item.Head != s.pull.head || !strings.Contains(comment, s.pull.head[:7]) {
			return fmt.Errorf("it is %s at %s, not at %s, and its comment begins %.300q", item.Phase, item.Head, s.pull.head, comment)
		}
		return nil
	})
}

// RolledOut waits until the comment reports the end of what was merged.
func (s *Stage) RolledOut(ctx context.Context) error {
	return s.reported(ctx, "the merge is not reported to its end", func(item v1alpha1.PullRequestStatus, comment string) error {
		if item.Phase != v1alpha1.PullRequestDone || !strings.Contains(comment, s.pull.head[:7]) || !strings.Contains(comment, "Applied") {
			return fmt.Errorf("it is %s, and its comment is %q", item.Phase, comment)
		}
		return nil
	})
}

// reported waits until the status of the pull request and its one comment are as required.
func (s *Stage) reported(ctx context.Context, what string, holds func(item v1alpha1.PullRequestStatus, comment string) error) error {
	return s.eventually(ctx, what, func() error {
		sync, err := s.readSync(ctx)
		if err != nil {
			return err
		}
		reported := sync.Status.PullRequests
		if reported == nil || len(reported.Items) != 1 {
			return fmt.Errorf("the Sync reports %+v", reported)
		}
		comments, err := s.comments(ctx)
		if err != nil {
			return err
		}
		if len(comments) != 1 {
			return fmt.Errorf("there are %d comments, and the Sync reports %+v", len(comments), reported)
		}
		return holds(reported.Items[0], comments[0])
	})
}

// comments are those of the product.
func (s *Stage) comments(ctx context.Context) ([]string, error) {
	var all []struct {
		Body string
		User struct{ Login string }
	}
	if err := s.callForge(ctx, http.MethodGet, fmt.Sprintf("/issues/%d/comments", s.pull.number), nil, &all); err != nil {
		return nil, err
	}
	var out []string
	for _, c := range all {
		if c.User.Login == s.pull.bot.Name {
			out = append(out, c.Body)
		}
	}
	return out, nil
}

// countComments is what an observation has of pull requests.
func (s *Stage) countComments(ctx context.Context) (map[string]int, error) {
	if s.pull.number == 0 {
		return nil, nil
	}
	comments, err := s.comments(ctx)
	return map[string]int{fmt.Sprintf("%s/%s#%d", s.pull.repository.Owner, s.pull.repository.Name, s.pull.number): len(comments)}, err
}
