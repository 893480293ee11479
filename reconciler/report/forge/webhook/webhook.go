// Package webhook takes what GitHub, GitLab, Gitea and Forgejo send when a pull request
// or a branch has changed.
//
// It refuses to parse anything before its signature is verified, or the token that GitLab
// sends in its place, and bodies of more than 1 MiB altogether. An event is a hint to poll, nothing more: no name, commit
// or text of it is to be acted upon, so one that is sent again by someone who recorded
// it has no effect. Who serves it bounds time and the number of connections. Start
// reading at Read.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Event is what changed.
type Event struct {
	// Repository is "owner/name", at GitLab with all groups, of the repository that was changed, or into
	// which a pull request is to be merged.
	Repository string
	// Number is a pull request's, 0 for a push.
	Number int
	// Branch was pushed to; empty for a pull request or a tag.
	Branch string
	// Ignored is true where the event means nothing to us, such as the ping of a new
	// webhook; the other fields are empty.
	Ignored bool
}

// RequestError is a request that is not taken, with the HTTP status to respond with. Its
// text holds nothing of the request.
type RequestError struct {
	Code   int
	Reason string
}

// Error is the reason.
func (r *RequestError) Error() string { return "refusing a webhook: " + r.Reason }

// bodyBytes is the most that is read. Pull request events have some 30 KB, and
// pushes are shortened by the forges.
const bodyBytes = 1 << 20

// Read verifies a request and returns what changed. One of the secrets must have signed
// it, or be its token: while one replaces another, both are given. A refusal is a *RequestError.
func Read(request *http.Request, secrets ...[]byte) (Event, error) {
	if request.Method != http.MethodPost {
		return Event{}, &RequestError{http.StatusMethodNotAllowed, "only POST is taken"}
	}
	authentic, err := authentication(request.Header, secrets)
	if err != nil {
		return Event{}, err
	}
	if request.ContentLength > bodyBytes {
		return Event{}, tooLong()
	}
	body, err := io.ReadAll(io.LimitReader(request.Body, bodyBytes+1))
	if err != nil {
		return Event{}, &RequestError{http.StatusBadRequest, "the body ends early"}
	}
	if len(body) > bodyBytes {
		return Event{}, tooLong()
	}
	if !authentic(body) {
		return Event{}, &RequestError{http.StatusUnauthorized, "the signature is wrong: the webhook's secret has to be the one in the Secret"}
	}
	return parse(kind(request.Header), request.Header.Get("Content-Type"), body)
}

func tooLong() error {
	return &RequestError{http.StatusRequestEntityTooLarge, "the body has more than 1 MiB"}
}

// tokenHeader has the webhook's secret itself, which is all that GitLab sends.
const tokenHeader = "X-Gitlab-Token"

// authentication returns what verifies a body. A token is verified at once, before anything is read.
func authentication(header http.Header, secrets [][]byte) (authentic func(body []byte) bool, err error) {
	if token := header.Get(tokenHeader); token != "" {
		if !known([]byte(token), secrets) {
			return nil, &RequestError{http.StatusUnauthorized, "the token is wrong: the webhook's secret token has to be the one in the Secret"}
		}
		return func([]byte) bool { return true }, nil
	}
	signature, err := claimed(header)
	if err != nil {
		return nil, err
	}
	return func(body []byte) bool { return signed(body, signature, secrets) }, nil
}

// known compares a token with every secret in constant time; hashes have one length, so that none shows
// how long a secret is. An empty secret is no token.
func known(token []byte, secrets [][]byte) bool {
	sum, ok := sha256.Sum256(token), false
	for _, secret := range secrets {
		expected := sha256.Sum256(secret)
		if len(secret) > 0 && subtle.ConstantTimeCompare(sum[:], expected[:]) == 1 {
			ok = true
		}
	}
	return ok
}

// claimed is the signature that came along. Forgejo and Gitea send GitHub's
// header too, but older ones only their own.
func claimed(header http.Header) ([]byte, error) {
	text, ok := strings.CutPrefix(header.Get("X-Hub-Signature-256"), "sha256=")
	for _, name := range []string{"X-Gitea-Signature", "X-Forgejo-Signature"} {
		if !ok {
			text = header.Get(name)
			ok = text != ""
		}
	}
	signature, err := hex.DecodeString(text)
	if !ok || err != nil || len(signature) != sha256.Size {
		return nil, &RequestError{http.StatusUnauthorized, "it is not signed with SHA-256: give the webhook a secret"}
	}
	return signature, nil
}

// signed compares with every secret in constant time. An empty secret signs
// nothing.
func signed(body, signature []byte, secrets [][]byte) bool {
	ok := false
	for _, secret := range secrets {
		if len(secret) == 0 {
			continue
		}
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write(body) // a hash never fails
		if hmac.Equal(mac.Sum(nil), signature) {
			ok = true
		}
	}
	return ok
}

func kind(header http.Header) string {
	for _, name := range []string{"X-GitHub-Event", "X-Gitea-Event", "X-Forgejo-Event"} {
		if value := header.Get(name); value != "" {
			return value
		}
	}
	if header.Get("X-Gitlab-Event") != "" {
		return fromGitLab
	}
	return ""
}

// payload is all that is read of a body.
type payload struct {
	Number      int    `json:"number"`
	Ref         string `json:"ref"`
	PullRequest *struct {
		Number int `json:"number"`
	} `json:"pull_request"`
	Issue *struct {
		Number      int              `json:"number"`
		PullRequest *json.RawMessage `json:"pull_request"`
	} `json:"issue"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`

	// GitLab's.
	Kind    string `json:"object_kind"`
	Project struct {
		Path string `json:"path_with_namespace"`
	} `json:"project"`
	Attributes struct {
		IID int `json:"iid"`
	} `json:"object_attributes"`
	MergeRequest *struct {
		IID int `json:"iid"`
	} `json:"merge_request"`
}

// The kinds of GitLab's events that are read, as a body has them. A note may be on something else than a merge request.
const (
	gitLabPush         = "push"
	gitLabMergeRequest = "merge_request"
	gitLabNote         = "note"
)

// fromGitLab is what stands for a kind that only the body has.
const fromGitLab = "gitlab"

func parse(kind, contentType string, body []byte) (Event, error) {
	family, _, _ := strings.Cut(kind, "_")
	if family != "pull" && kind != "push" && kind != "issue_comment" && kind != fromGitLab {
		return Event{Ignored: true}, nil
	}
	if media, _, _ := strings.Cut(contentType, ";"); strings.TrimSpace(strings.ToLower(media)) != "application/json" {
		return Event{}, &RequestError{http.StatusUnsupportedMediaType, "the webhook's content type has to be application/json"}
	}
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return Event{}, &RequestError{http.StatusBadRequest, "the body is no JSON of the kind " + fmt.Sprintf("%.40q", kind)}
	}
	if kind == fromGitLab {
		if kind = p.translate(); kind == "" {
			return Event{Ignored: true}, nil
		}
	}
	event, err := p.event(kind)
	if err != nil {
		return Event{}, &RequestError{http.StatusBadRequest, err.Error()}
	}
	return event, nil
}

// translate puts what GitLab sends where the others have it, and returns their word for its kind; empty for an event
// that means nothing to us.
func (p *payload) translate() string {
	p.Repository.FullName = p.Project.Path
	p.Number, p.PullRequest, p.Issue = p.Attributes.IID, nil, nil
	switch p.Kind {
	case gitLabPush:
		return "push"
	case gitLabMergeRequest:
		return "pull_request"
	case gitLabNote:
		if p.MergeRequest != nil {
			p.Number = p.MergeRequest.IID
			return "pull_request"
		}
	}
	return ""
}

// event reads what the kind has. A deleted comment counts too: ours may be the one that
// is gone.
func (p payload) event(kind string) (Event, error) {
	owner, name, ok := strings.Cut(p.Repository.FullName, "/")
	if !ok || owner == "" || name == "" || len(p.Repository.FullName) > 256 {
		return Event{}, errors.New("the body names no repository")
	}
	event := Event{Repository: p.Repository.FullName}
	switch {
	case kind == "push":
		branch, ok := strings.CutPrefix(p.Ref, "refs/heads/")
		if !ok || branch == "" {
			return Event{Ignored: true}, nil
		}
		event.Branch = branch
		return event, nil
	case p.PullRequest != nil && p.PullRequest.Number != 0:
		event.Number = p.PullRequest.Number
	case p.Issue != nil:
		if kind == "issue_comment" && p.Issue.PullRequest == nil {
			return Event{Ignored: true}, nil
		}
		event.Number = p.Issue.Number
	default:
		event.Number = p.Number
	}
	if event.Number <= 0 {
		return Event{}, errors.New("the body names no pull request")
	}
	return event, nil
}
