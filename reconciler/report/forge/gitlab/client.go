package gitlab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// user is who wrote something.
type user struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
}

// mergeRequest is one of a list.
type mergeRequest struct {
	IID             int64     `json:"iid"`
	Title           string    `json:"title"`
	State           string    `json:"state"`
	WebURL          string    `json:"web_url"`
	Draft           bool      `json:"draft"`
	Author          user      `json:"author"`
	SourceBranch    string    `json:"source_branch"`
	TargetBranch    string    `json:"target_branch"`
	SourceProjectID int64     `json:"source_project_id"`
	TargetProjectID int64     `json:"target_project_id"`
	SHA             string    `json:"sha"`
	MergeCommitSHA  string    `json:"merge_commit_sha"`
	SquashCommitSHA string    `json:"squash_commit_sha"`
	UpdatedAt       time.Time `json:"updated_at"`
	MergedAt        time.Time `json:"merged_at"`
}

// note is a comment on a merge request.
type note struct {
	ID     int64  `json:"id"`
	Body   string `json:"body"`
	Author user   `json:"author"`
	System bool   `json:"system"`
}

// commitStatus is one of a commit.
type commitStatus struct {
	ID          int64  `json:"id"`
	Name        string `json:"name"`
	Ref         string `json:"ref"`
	Status      string `json:"status"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url"`
	// PipelineID is the pipeline that holds it; versions of GitLab before 16.3 leave it out.
	PipelineID int64 `json:"pipeline_id"`
}

// setStatusOptions are the parameters of a status that is set.
type setStatusOptions struct {
	State       string `json:"state"`
	Name        string `json:"name"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url,omitempty"`
	Ref         string `json:"ref,omitempty"`
	PipelineID  int64  `json:"pipeline_id,omitempty"`
}

// project is the path of the API below which all of the project's is.
func (f *Forge) project(parts ...string) string {
	// GitLab's own clients escape dots as well: some proxies take what follows one for a format.
	id := strings.ReplaceAll(url.PathEscape(f.config.Project), ".", "%2E")
	return "/projects/" + id + "/" + strings.Join(parts, "/")
}

// apiError is a response that is no success.
type apiError struct {
	code    int
	message string
}

// Error is GitLab's text.
func (e *apiError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.message) }

// call is the client: GitLab's own, client-go, panics where a list contains null or a Link header has a parameter without
// a value, so that whoever poses as the forge could end the controller. It makes a request, with sent as its body unless that is nil, and reads the response into got unless that is nil. It returns
// the number of the page to go on with, 0 where there is none.
func (f *Forge) call(ctx context.Context, method, path string, query url.Values, sent, got any) (next int, err error) {
	var body io.Reader
	if sent != nil {
		content, err := json.Marshal(sent)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(content)
	}
	address := f.config.Address + "/api/v4" + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return 0, err
	}
	request.Header.Set("PRIVATE-TOKEN", f.config.Token)
	request.Header.Set("User-Agent", "poolwright")
	request.Header.Set("Accept", "application/json")
	if sent != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := f.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is not of interest
	content, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return 0, fmt.Errorf("reading the response: %w", err)
	case response.StatusCode < 200 || response.StatusCode > 299:
		return 0, &apiError{response.StatusCode, message(content)}
	case got == nil:
		return 0, nil
	}
	if err := json.Unmarshal(content, got); err != nil {
		return 0, fmt.Errorf("reading the response: %w", err)
	}
	return nextPage(response.Header), nil
}

// message is what GitLab writes of a refusal: a text or texts of fields below message, or a text below error.
func message(content []byte) string {
	var body struct {
		Message     json.RawMessage `json:"message"`
		Error       string          `json:"error"`
		Description string          `json:"error_description"`
	}
	if json.Unmarshal(content, &body) != nil {
		return ""
	}
	var text string
	if len(body.Message) == 0 || json.Unmarshal(body.Message, &text) == nil {
		return strings.TrimSpace(strings.Join([]string{text, body.Error, body.Description}, " "))
	}
	return string(body.Message)
}

// nextPage is the number of the page that follows. Where GitLab leaves the header out, the Link header has it.
func nextPage(header http.Header) int {
	if number, err := strconv.Atoi(header.Get("X-Next-Page")); err == nil && number > 0 {
		return number
	}
	for link := range strings.SplitSeq(header.Get("Link"), ",") {
		address, relation, _ := strings.Cut(link, ";")
		if !strings.Contains(relation, `rel="next"`) {
			continue
		}
		_, query, _ := strings.Cut(strings.Trim(strings.TrimSpace(address), "<>"), "?")
		values, err := url.ParseQuery(query)
		if err != nil {
			return 0
		}
		if number, err := strconv.Atoi(values.Get("page")); err == nil && number > 0 {
			return number
		}
	}
	return 0
}
