package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/go-github/v88/github"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// permission is what a call needs of its credential.
type permission struct{ fine, classic string }

var (
	reading    = permission{"Pull requests: Read-only", "repo"}
	commenting = permission{"Pull requests: Read and write", "repo"}
	setting    = permission{"Commit statuses: Read and write", "repo:status"}
	checking   = permission{"Checks: Read and write", "none"}
	identity   = permission{"none", "none"}
)

// failed makes the error of a call. response may be nil.
func (f *Forge) failed(doing string, what permission, response *github.Response, err error) *forge.Error {
	var result rest.Response
	var header http.Header
	if response != nil && response.Response != nil {
		result.Code, header = response.StatusCode, response.Header
	}
	if refused, ok := errors.AsType[*github.ErrorResponse](err); ok {
		result.Message = refused.Message
		for _, detail := range refused.Errors {
			result.Message += "; " + strings.Join(strings.Fields(strings.Join([]string{detail.Resource, detail.Field, detail.Code, detail.Message}, " ")), " ")
		}
	} else if result.Code >= 300 {
		result.Message = http.StatusText(result.Code)
	}
	out := rest.Explain(doing, err, result, f.secret)
	if out.Until.IsZero() && out.Remedy == "" {
		out.Remedy = f.remedy(out, what, rest.Clean(header.Get("X-Accepted-GitHub-Permissions")))
	}
	return out
}

// remedy is what a person can do about a response.
func (f *Forge) remedy(e *forge.Error, what permission, accepted string) string {
	switch {
	case e.Code >= 300 && e.Code < 400:
		return "has the repository been renamed? Give its new name: reads are sent on, writes are not"
	case e.Code == http.StatusUnauthorized:
		return "the credential is wrong, expired or revoked: make a new one and put it into the Secret"
	case e.Code == http.StatusForbidden && strings.Contains(e.Message, "locked"): // GitHub has no code for it.
		return "the conversation is locked: unlock it, or close the pull request"
	case e.Code == http.StatusForbidden && what == identity:
		return "this is no personal token: give an installation as App with its ID, installation and private key"
	case e.Code == http.StatusForbidden:
		out := fmt.Sprintf("the permission %q is missing: give it to the App (and accept it for the installation) or to the fine-grained token; a classic token needs the scope %q", what.fine, what.classic)
		if accepted != "" {
			out += "; GitHub requires " + accepted
		}
		return out
	case e.Code == http.StatusNotFound:
		return fmt.Sprintf("it does not exist, or the credential may not read it: add %s/%s to the repositories of the token or the installation, with the permission %q", f.owner, f.name, what.fine)
	}
	return ""
}

// tokenGuard reads the responses that hold installation tokens, because the library
// takes them as they come: a refusal becomes an error with the remedy, and a response
// without a token an error at all.
type tokenGuard struct {
	base       http.RoundTripper
	repository string
	// needs are the permissions that are requested.
	needs []string
}

// errNotGranted is the cause of an error where an installation grants no such token.
var errNotGranted = errors.New("the installation does not grant it")

// RoundTrip implements http.RoundTripper.
func (g tokenGuard) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := g.base.RoundTrip(request)
	if err != nil || !strings.HasSuffix(request.URL.Path, "/access_tokens") {
		return response, err
	}
	const tokenBytes = 1 << 20
	content, err := io.ReadAll(io.LimitReader(response.Body, tokenBytes))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	const doing = "getting a token of the GitHub App's installation"
	var got struct {
		Token     string `json:"token"`
		ExpiresAt string `json:"expires_at"`
		Message   string `json:"message"`
	}
	err = json.Unmarshal(content, &got)
	switch {
	case response.StatusCode >= 300:
		refused := &forge.Error{Operation: doing, Code: response.StatusCode, Message: rest.Clean(got.Message), Remedy: g.remedy(response.StatusCode)}
		if refused.Code == http.StatusUnprocessableEntity {
			refused.Cause = errNotGranted
		}
		return nil, refused
	case err != nil || got.Token == "" || got.ExpiresAt == "":
		return nil, &forge.Error{Operation: doing, Message: "the response holds no token"}
	}
	response.Body = io.NopCloser(strings.NewReader(string(content)))
	return response, nil
}

func (g tokenGuard) remedy(code int) string {
	switch code {
	case http.StatusUnauthorized:
		return "the App's ID does not belong to its private key, or this machine's clock is wrong"
	case http.StatusForbidden:
		return "the installation is suspended: resume it"
	case http.StatusNotFound:
		return "the App has no such installation: take the number at the end of the installation's address"
	case http.StatusUnprocessableEntity:
		quoted := make([]string, len(g.needs))
		for i, n := range g.needs {
			quoted[i] = strconv.Quote(n)
		}
		return fmt.Sprintf("the installation does not reach %s, or lacks a permission: it needs %s", g.repository, strings.Join(quoted, " and "))
	}
	return ""
}
