package github_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checkRun is one as GitHub's reference of the Checks API has it, version 2022-11-28.
type checkRun struct {
	id, app     int64
	fields      map[string]any
	annotations []map[string]any
}

func (c *checkRun) json() map[string]any {
	out := map[string]any{"id": c.id, "status": "queued", "conclusion": nil, "external_id": "", "details_url": "https://github.com/apps/poolwright", "app": map[string]any{"id": c.app}}
	for _, key := range []string{"name", "head_sha", "external_id", "details_url", "status", "conclusion", "output"} {
		if v, ok := c.fields[key]; ok {
			out[key] = v
		}
	}
	output := map[string]any{"title": nil, "summary": nil, "annotations_count": len(c.annotations)}
	if sent, ok := c.fields["output"].(map[string]any); ok {
		output["title"], output["summary"] = sent["title"], sent["summary"]
	}
	out["output"] = output
	return out
}

// mayCheck refuses all but the token of an installation that has the permission: no user writes check runs.
func (h *hub) mayCheck(w http.ResponseWriter, r *http.Request) bool {
	permissions := h.tokens[credential(r)]
	switch {
	case permissions == nil:
		refuse(w, http.StatusForbidden, "You must authenticate via a GitHub App.")
	case permissions["checks"] != "write":
		refuse(w, http.StatusForbidden, "Resource not accessible by integration")
	default:
		return true
	}
	return false
}

// sentCheck reads a request for a check run, and refuses what the reference does.
func sentCheck(w http.ResponseWriter, r *http.Request, creating bool) (map[string]any, bool) {
	var sent map[string]any
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		refuse(w, http.StatusBadRequest, "Problems parsing JSON")
		return nil, false
	}
	if problem := checkProblem(sent, creating); problem != "" {
		refuse(w, http.StatusUnprocessableEntity, "Invalid request.\n\n"+problem)
		return nil, false
	}
	// What has a conclusion is completed, whatever its status.
	if sent["conclusion"] != nil {
		sent["status"] = "completed"
	}
	return sent, true
}

func text(m map[string]any, key string) (string, bool) {
	s, ok := m[key].(string)
	return s, ok
}

func checkProblem(sent map[string]any, creating bool) string {
	name, named := text(sent, "name")
	sha, _ := text(sent, "head_sha")
	status, hasStatus := text(sent, "status")
	conclusion, hasConclusion := text(sent, "conclusion")
	target, hasTarget := text(sent, "details_url")
	u, err := url.Parse(target)
	switch {
	case creating && (!named || name == "" || len(sha) != 40):
		return "name and head_sha are required"
	case hasStatus && !slices.Contains([]string{"queued", "in_progress", "completed"}, status):
		return "status " + status
	case status == "completed" && !hasConclusion:
		return "a completed check run needs a conclusion"
	case hasConclusion && !slices.Contains([]string{"action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out"}, conclusion):
		return "conclusion " + conclusion
	case hasTarget && (err != nil || !strings.HasPrefix(u.Scheme, "http")):
		return "details_url " + target
	}
	if actions, ok := sent["actions"].([]any); ok && len(actions) > 3 {
		return "more than 3 actions"
	}
	output, ok := sent["output"].(map[string]any)
	if !ok {
		return ""
	}
	return outputProblem(output)
}

func outputProblem(output map[string]any) string {
	title, hasTitle := text(output, "title")
	summary, hasSummary := text(output, "summary")
	if !hasTitle || !hasSummary || title == "" || summary == "" {
		return "output needs title and summary"
	}
	for _, key := range []string{"summary", "text"} {
		if s, _ := text(output, key); utf8.RuneCountInString(s) > 65535 {
			return key + " is too long (maximum is 65535 characters)"
		}
	}
	annotations, _ := output["annotations"].([]any)
	if len(annotations) > 50 {
		return "no more than 50 annotations"
	}
	for _, a := range annotations {
		a, _ := a.(map[string]any)
		path, _ := text(a, "path")
		level, _ := text(a, "annotation_level")
		message, _ := text(a, "message")
		title, _ := text(a, "title")
		start, _ := a["start_line"].(float64)
		end, _ := a["end_line"].(float64)
		switch {
		case path == "" || strings.HasPrefix(path, "/") || message == "" || start < 1 || end < start:
			return fmt.Sprintf("annotation %v", a)
		case !slices.Contains([]string{"notice", "warning", "failure"}, level):
			return "annotation_level " + level
		case len(message) > 64<<10 || utf8.RuneCountInString(title) > 255:
			return "an annotation is too long"
		}
	}
	return ""
}

// take keeps what a request sets, and appends annotations, as the reference has it. That a check run which is completed stays
// so, with its conclusion, is an assumption: the reference does not have it, and it is the case that takes more of us.
func (c *checkRun) take(sent map[string]any) {
	if c.fields["status"] == "completed" {
		delete(sent, "status")
		delete(sent, "conclusion")
	}
	if output, ok := sent["output"].(map[string]any); ok {
		annotations, _ := output["annotations"].([]any)
		for _, a := range annotations {
			c.annotations = append(c.annotations, a.(map[string]any))
		}
	}
	for key, v := range sent {
		if key != "head_sha" || c.fields[key] == nil {
			c.fields[key] = v
		}
	}
}

func (h *hub) createCheck(w http.ResponseWriter, r *http.Request) {
	if !h.mayCheck(w, r) {
		return
	}
	if sent, ok := sentCheck(w, r, true); ok {
		h.nextID++
		c := &checkRun{id: h.nextID, app: appID, fields: map[string]any{}}
		c.take(sent)
		h.checks = append(h.checks, c)
		write(w, http.StatusCreated, c.json())
	}
}

func (h *hub) updateCheck(w http.ResponseWriter, r *http.Request) {
	i := h.findCheck(r)
	switch {
	case !h.mayCheck(w, r):
	case i < 0:
		refuse(w, http.StatusNotFound, "Not Found")
	case h.checks[i].app != appID:
		refuse(w, http.StatusForbidden, fmt.Sprintf("Invalid app_id `%d` - check run can only be modified by the GitHub App that created it.", appID))
	default:
		if sent, ok := sentCheck(w, r, false); ok {
			h.checks[i].take(sent)
			write(w, http.StatusOK, h.checks[i].json())
		}
	}
}

func (h *hub) findCheck(r *http.Request) int {
	return slices.IndexFunc(h.checks, func(c *checkRun) bool { return strconv.FormatInt(c.id, 10) == r.PathValue("id") })
}

func (h *hub) listAnnotations(w http.ResponseWriter, r *http.Request) {
	if i := h.findCheck(r); i >= 0 {
		write(w, http.StatusOK, paged(w, r, h.checks[i].annotations))
		return
	}
	refuse(w, http.StatusNotFound, "Not Found")
}

// listChecks lists the newest of a name, or all.
func (h *hub) listChecks(w http.ResponseWriter, r *http.Request) {
	var out []map[string]any
	names := map[any]bool{}
	for _, c := range slices.Backward(h.checks) {
		name, app := r.URL.Query().Get("check_name"), r.URL.Query().Get("app_id")
		if app != "" && app != strconv.FormatInt(c.app, 10) {
			continue
		}
		if c.fields["head_sha"] != r.PathValue("sha") || name != "" && c.fields["name"] != name || r.URL.Query().Get("filter") != "all" && names[c.fields["name"]] {
			continue
		}
		names[c.fields["name"]] = true
		out = append(out, c.json())
	}
	write(w, http.StatusOK, map[string]any{"total_count": len(out), "check_runs": paged(w, r, out)})
}

// carryOut does what a request for check runs requires, for a response that is lost.
func (h *hub) carryOut(r *http.Request) {
	w := httptest.NewRecorder()
	switch {
	case r.Method == http.MethodPost:
		h.createCheck(w, r)
	case r.Method == http.MethodPatch:
		r.SetPathValue("id", r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
		h.updateCheck(w, r)
	}
}
