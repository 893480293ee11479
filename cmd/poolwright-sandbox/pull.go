package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
)

// forgeSecret holds what Poolwright may do at the forge.
const forgeSecret = "forge"

// pull is the pull request that the story tells of.
type pull struct {
	number int
	// said is what the comment said last.
	said string
}

// introduceReviewer makes a user at the forge as whom Poolwright comments, and
// leaves its token where the Sync will look for it.
func (s *story) introduceReviewer(ctx context.Context) error {
	reviewer, err := s.world.Git.CreateUser(ctx, "poolwright")
	if err != nil {
		return err
	}
	at := s.repo.owned() + "/collaborators/" + reviewer.Name
	if err := s.world.Git.Call(ctx, s.repo.team, http.MethodPut, at, map[string]string{"permission": "write"}, nil); err != nil {
		return err
	}
	token, err := s.world.Git.CreateToken(ctx, reviewer, "poolwright", "read:user", "write:issue", "write:repository")
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
	return nil
}

// The edits of the pull request: the second is merged, the first taken back.
const (
	disk       = "volumeSize: 200Gi"
	biggerDisk = "volumeSize: 300Gi"
)

// openPullRequest proposes a shorter consolidateAfter and, in passing, a bigger
// disk, which would replace the node under the running pod.
func (s *story) openPullRequest(ctx context.Context) error {
	if err := s.repo.branch("hurry"); err != nil {
		return err
	}
	if err := s.repo.edit(filepath.Join("base", "nodeclasses.yaml"), swap(disk, biggerDisk)); err != nil {
		return err
	}
	if err := s.repo.edit(filepath.Join("base", "nodepools.yaml"), s.hurryUp); err != nil {
		return err
	}
	if _, err := s.repo.push(ctx, "Remove idle GPU nodes sooner, and give them bigger disks"); err != nil {
		return err
	}
	at := time.Now()
	number, err := s.world.Git.CreatePullRequest(ctx, s.repo.team, s.repo.remote, gitserver.PullRequest{
		Head: "hurry", Base: "main", Title: "Remove idle GPU nodes sooner", Body: "Five minutes of an idle GPU are dear.",
	})
	if err != nil {
		return err
	}
	s.pull = pull{number: number}
	s.marks.mark(pullOpened, s.pullName(), "consolidateAfter 5m -> "+hurryWord+", and a disk of 300 Gi instead of 200", at)
	return s.commented(ctx, pullTold, "")
}

// pushAgain takes back what the comment warned of.
func (s *story) pushAgain(ctx context.Context) error {
	if err := s.repo.edit(filepath.Join("base", "nodeclasses.yaml"), swap(biggerDisk, disk)); err != nil {
		return err
	}
	if _, err := s.repo.push(ctx, "Leave the disks as they are: no node needs to be replaced now"); err != nil {
		return err
	}
	s.marks.mark(pullPushed, s.pullName(), "the disk stays: the node under the pod must not be replaced now", time.Now())
	return s.commented(ctx, pullRetold, s.pull.said)
}

// merge merges the pull request, which is the commit that is applied.
func (s *story) merge(ctx context.Context) error {
	at := fmt.Sprintf("%s/pulls/%d", s.repo.owned(), s.pull.number)
	started := time.Now()
	if err := s.retry(ctx, "merging", func() error {
		// Gitea first looks whether it can.
		return s.world.Git.Call(ctx, s.repo.team, http.MethodPost, at+"/merge", map[string]string{"Do": "merge"}, nil)
	}); err != nil {
		return err
	}
	var merged struct {
		Commit string `json:"merge_commit_sha"`
	}
	if err := s.world.Git.Call(ctx, s.repo.team, http.MethodGet, at, nil, &merged); err != nil {
		return err
	}
	s.marks.mark(commitPushed, repository+"@main", fmt.Sprintf("commit %.8s: %s is merged", merged.Commit, s.pullName()), started)
	return nil
}

// toldToTheEnd waits for the comment to say what came of the merge.
func (s *story) toldToTheEnd(ctx context.Context) error { return s.commented(ctx, pullDone, "Applied") }

// commented waits for Poolwright's comment to be another than the one that was said
// last, or with a word to hold it, and marks that.
func (s *story) commented(ctx context.Context, event, word string) error {
	return s.retry(ctx, "waiting for the comment on "+s.pullName(), func() error {
		var comments []struct {
			Body string `json:"body"`
		}
		at := fmt.Sprintf("%s/issues/%d/comments", s.repo.owned(), s.pull.number)
		if err := s.world.Git.Call(ctx, s.repo.team, http.MethodGet, at, nil, &comments); err != nil {
			return err
		}
		for _, c := range comments {
			body, ours := strings.CutPrefix(c.Body, "<!-- poolwright:plan ")
			_, body, _ = strings.Cut(body, "\n")
			if !ours || body == s.pull.said || !strings.Contains(body, word) && word != s.pull.said {
				continue
			}
			s.pull.said = body
			s.marks.comment(event, s.pullName(), gist(body), body, time.Now())
			return nil
		}
		return errors.New("it does not say so yet")
	})
}

// gist is what a comment says of the merge once that is applied, before that its
// first line.
func gist(body string) string {
	lines := strings.Split(strings.TrimSpace(body), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "<!-- poolwright:tail") && i+1 < len(lines) {
			return lines[i+1]
		}
	}
	return strings.ReplaceAll(strings.TrimLeft(lines[0], "# "), `\$`, "$") // a terminal knows no formulas
}

func (s *story) pullName() string { return fmt.Sprintf("%s#%d", repository, s.pull.number) }

// swap replaces a text that must be there.
func swap(old, by string) func(string) (string, error) {
	return func(text string) (string, error) {
		if !strings.Contains(text, old) {
			return "", fmt.Errorf("there is no %q", old)
		}
		return strings.ReplaceAll(text, old, by), nil
	}
}
