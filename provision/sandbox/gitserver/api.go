package gitserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Account is a user who can log in. Printing it leaves its secrets out.
type Account struct {
	Name     string
	Password string // for the web pages and for Git over HTTP
	Token    string // for the API and, as the password, for Git over HTTP
}

// String is the name.
func (a Account) String() string { return a.Name }

// Format keeps every verb, also %+v, from printing secrets.
func (a Account) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, a.Name) }

// Repository is where to clone from and push to.
type Repository struct {
	Owner, Name string
	URL         string // without credentials
}

// PullRequest is a request to merge the branch Head into Base.
type PullRequest struct {
	Head, Base  string
	Title, Body string
}

// StatusError is a response of Gitea's API that is no success.
type StatusError struct {
	Method, Path string
	Code         int    // HTTP status
	Message      string // Gitea's message
}

// Error names the call and Gitea's response.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: the Git server responded with %d %s: %s", e.Method, e.Path, e.Code, http.StatusText(e.Code), e.Message)
}

// CreateUser adds a user with a random password and a token for everything
// that this user may do.
func (s *Server) CreateUser(ctx context.Context, name string) (Account, error) {
	password, err := randomText()
	if err != nil {
		return Account{}, err
	}
	user := Account{Name: name, Password: password}
	request := map[string]any{
		"username": name, "email": name + "@sandbox.invalid", "password": password, "must_change_password": false,
	}
	if err := s.Call(ctx, s.admin, http.MethodPost, "/admin/users", request, nil); err != nil {
		return Account{}, fmt.Errorf("creating user %q: %w", name, err)
	}
	user.Token, err = s.CreateToken(ctx, user, "all", "all")
	return user, err
}

// CreateToken adds a named token of the user with Gitea's scopes, such as
// "read:repository". It needs the user's password: Gitea lets no token make
// another.
func (s *Server) CreateToken(ctx context.Context, user Account, name string, scopes ...string) (string, error) {
	var made struct {
		Secret string `json:"sha1"`
	}
	user.Token = ""
	request := map[string]any{"name": name, "scopes": scopes}
	if err := s.Call(ctx, user, http.MethodPost, "/users/"+url.PathEscape(user.Name)+"/tokens", request, &made); err != nil {
		return "", fmt.Errorf("creating token %q of %q: %w", name, user.Name, err)
	}
	return made.Secret, nil
}

// CreateRepository adds an empty repository of the owner, with default branch
// main.
func (s *Server) CreateRepository(ctx context.Context, owner Account, name string, private bool) (Repository, error) {
	request := map[string]any{"name": name, "private": private, "default_branch": "main"}
	if err := s.Call(ctx, owner, http.MethodPost, "/user/repos", request, nil); err != nil {
		return Repository{}, fmt.Errorf("creating repository %q of %q: %w", name, owner.Name, err)
	}
	return Repository{Owner: owner.Name, Name: name, URL: s.URL() + "/" + owner.Name + "/" + name + ".git"}, nil
}

// AwaitBranch returns once Gitea has the branch. It processes a push a moment after it
// has accepted it; until then its API reports that there is no such branch, or that the
// repository is empty. A minute without the branch is an error.
func (s *Server) AwaitBranch(ctx context.Context, user Account, in Repository, branch string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		known, err := s.hasBranch(ctx, user, in, branch)
		if known || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for branch %q of %s/%s: %w", branch, in.Owner, in.Name, ctx.Err())
		case <-tick.C:
		}
	}
}

// hasBranch checks whether the repository is empty first: to a request for a branch of an
// empty one, this version of Gitea responds with a panic.
func (s *Server) hasBranch(ctx context.Context, user Account, in Repository, branch string) (bool, error) {
	var repository struct {
		Empty bool `json:"empty"`
	}
	if err := s.Call(ctx, user, http.MethodGet, in.path(), nil, &repository); err != nil || repository.Empty {
		return false, err
	}
	err := s.Call(ctx, user, http.MethodGet, in.path("branches", branch), nil, nil)
	var refused *StatusError
	if errors.As(err, &refused) && refused.Code == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// CreatePullRequest opens a pull request and returns its number. Both branches
// may have been pushed just before.
func (s *Server) CreatePullRequest(ctx context.Context, author Account, in Repository, pull PullRequest) (int, error) {
	var made struct {
		Number int `json:"number"`
	}
	for _, branch := range []string{pull.Base, pull.Head} {
		if err := s.AwaitBranch(ctx, author, in, branch); err != nil {
			return 0, fmt.Errorf("opening a pull request from %q to %q: %w", pull.Head, pull.Base, err)
		}
	}
	request := map[string]any{"head": pull.Head, "base": pull.Base, "title": pull.Title, "body": pull.Body}
	if err := s.Call(ctx, author, http.MethodPost, in.path("pulls"), request, &made); err != nil {
		return 0, fmt.Errorf("opening a pull request from %q to %q: %w", pull.Head, pull.Base, err)
	}
	return made.Number, nil
}

// DeleteBranch removes a branch; Gitea refuses the default branch.
func (s *Server) DeleteBranch(ctx context.Context, user Account, in Repository, branch string) error {
	if err := s.Call(ctx, user, http.MethodDelete, in.path("branches", branch), nil, nil); err != nil {
		return fmt.Errorf("deleting branch %q: %w", branch, err)
	}
	return nil
}

// RenameBranch gives a branch another name, also the default branch.
func (s *Server) RenameBranch(ctx context.Context, user Account, in Repository, branch, name string) error {
	request := map[string]any{"name": name}
	if err := s.Call(ctx, user, http.MethodPatch, in.path("branches", branch), request, nil); err != nil {
		return fmt.Errorf("renaming branch %q to %q: %w", branch, name, err)
	}
	return nil
}

func (r Repository) path(parts ...string) string {
	escaped := []string{"", "repos", url.PathEscape(r.Owner), url.PathEscape(r.Name)}
	for _, part := range parts {
		escaped = append(escaped, url.PathEscape(part))
	}
	return strings.Join(escaped, "/")
}

// Call calls Gitea's API, version 1, as the user: with the token, or with the password
// where there is no token. The path starts behind /api/v1. The body is sent as JSON
// unless nil, the response decoded into result unless nil. A response that is no
// success is a *StatusError.
func (s *Server) Call(ctx context.Context, user Account, method, path string, body, result any) error {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding the body of %s %s: %w", method, path, err)
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.URL()+"/api/v1"+path, sent)
	if err != nil {
		return fmt.Errorf("calling %s %s: %w", method, path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if user.Token != "" {
		request.Header.Set("Authorization", "token "+user.Token)
	} else {
		request.SetBasicAuth(user.Name, user.Password)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err // names method and URL already
	}
	// No more than a page of a long list; a cut response fails to decode.
	content, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading the response of %s %s: %w", method, path, err)
	}
	if response.StatusCode >= 300 {
		return responseError(method, path, response.StatusCode, content)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(content, result); err != nil {
		return fmt.Errorf("decoding the response of %s %s: %w", method, path, err)
	}
	return nil
}

func responseError(method, path string, code int, content []byte) error {
	var response struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(content, &response) != nil || response.Message == "" {
		response.Message = strings.TrimSpace(string(content[:min(len(content), 200)]))
	}
	return &StatusError{Method: method, Path: path, Code: code, Message: response.Message}
}
