package github

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/go-github/v88/github"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// GitHub's limits of a check run: characters of its summary, taken as bytes, and annotations in one request. Those of an
// annotation's title and message are 255 characters and 64 KiB; ours of a message is shorter.
const (
	summaryBytes         = 65535
	annotationsAtOnce    = 50
	annotationTitleRunes = forge.MaxAnnotationTitle
	annotationRunes      = forge.MaxAnnotationMessage
)

// checkAgain is after how long an App without the permission Checks, or Commit statuses, is tried again: it may have been granted.
const checkAgain = time.Hour

const (
	inProgress = "in_progress"
	completed  = "completed"
	cancelled  = "cancelled"
)

var _ forge.CheckWriter = (*Forge)(nil)

// Check implements forge.CheckWriter. With a token, or an App whose installation does not grant Checks, it sets the status.
//
// There is one check run for an App, a context and a commit, found by its external ID, so that what a process left behind is
// updated by the next: GitHub lets no App update those of another. It takes no annotations away, and that it changes the
// conclusion of a completed check run is not relied on: where one of both is to change there is a new one, and GitHub
// shows the newest of a name.
func (f *Forge) Check(ctx context.Context, sha string, check forge.Check) error {
	check.Context, check.Description = comments.Context(check.Context), comments.Description(check.Description)
	doing := fmt.Sprintf("setting check %q in %s/%s", check.Context, f.owner, f.name)
	if sha = rest.SHA(sha); sha == "" || check.Context == "" {
		return fmt.Errorf("%s: it takes a commit's whole hash and a context", doing)
	}
	if !f.hasChecks() {
		return f.status(ctx, sha, check.Status, false)
	}
	want, key := newCheckRun(f.appID, sha, check), statusKey{sha, check.Context}
	if f.checks.Get(key) == want.digest() {
		return nil
	}
	f.checks.Remove(key)
	kept, err := f.setCheck(ctx, doing, want)
	if notGranted(err) {
		return f.withoutChecks(ctx, sha, check.Status)
	}
	if err != nil || kept {
		return err
	}
	if err := f.updateStatus(ctx, sha, check.Status); err != nil {
		return err
	}
	f.checks.Put(key, want.digest())
	return nil
}

// hasChecks reports whether check runs are to be tried.
func (f *Forge) hasChecks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.checking != nil && !f.now().Before(f.noChecksUntil)
}

// notGranted reports that the installation gives out no token, or that the permission was taken from one that it gave out.
func notGranted(err error) bool {
	known, ok := errors.AsType[*forge.Error](err)
	return errors.Is(err, errNotGranted) || ok && known.Code == http.StatusForbidden && known.Until.IsZero()
}

// withoutChecks sets the status in place of a check run that is refused. Only where GitHub takes it, the permission Checks is
// what is missing, and is not tried for a while: an installation that does not reach the repository gives out no token at all.
func (f *Forge) withoutChecks(ctx context.Context, sha string, status forge.Status) error {
	if err := f.status(ctx, sha, status, false); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noChecksUntil = f.now().Add(checkAgain)
	return nil
}

// checkRun is a check as GitHub has it.
type checkRun struct {
	sha, name, externalID, url string
	status, conclusion         string
	title, summary             string
	annotations                []forge.LineAnnotation
	// keepCompleted has a completed check run stay.
	keepCompleted bool
}

func newCheckRun(app int64, sha string, check forge.Check) checkRun {
	run := checkRun{
		sha: sha, name: check.Context, url: check.URL, status: completed,
		title: check.Description, summary: comments.Fit(check.Summary, summaryBytes),
		annotations: annotationsOf(check.Annotations), keepCompleted: check.KeepCompleted,
	}
	if run.title == "" {
		run.title = run.name // GitHub requires one, and a summary.
	}
	if strings.TrimSpace(run.summary) == "" {
		run.summary = forge.PlainText(run.title, annotationTitleRunes)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", app, sha, check.Context))
	run.externalID = "poolwright-" + hex.EncodeToString(sum[:16])
	switch check.State {
	case forge.Pending:
		run.status = inProgress
	case forge.Success, forge.Failure, forge.Neutral, forge.ActionRequired:
		run.conclusion = string(check.State)
	case forge.Errored:
		run.conclusion = string(forge.Failure) // GitHub has no other for what could not be made.
	}
	return run
}

// annotationsOf are those that GitHub takes, each once, within its limits.
func annotationsOf(list []forge.LineAnnotation) []forge.LineAnnotation {
	var out []forge.LineAnnotation
	for _, a := range list {
		clean := path.Clean(a.Path)
		if a.Path == "" || a.Line < 1 || path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
			continue
		}
		a.Path, a.Title, a.Message = clean, within(a.Title, annotationTitleRunes), within(a.Message, annotationRunes)
		if a.Message == "" || slices.Contains(out, a) {
			continue
		}
		if out = append(out, a); len(out) == forge.MaxAnnotations {
			break
		}
	}
	return out
}

func within(text string, most int) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// digest identifies all of it.
func (c checkRun) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []any{c.sha, c.name, c.url, c.status, c.conclusion, c.title, c.summary, c.annotations}))
	return hex.EncodeToString(sum[:])
}

// setCheck brings the newest check run to what is desired, or makes one, unless a completed one is to be kept.
func (f *Forge) setCheck(ctx context.Context, doing string, want checkRun) (kept bool, err error) {
	current, err := f.checkRun(ctx, doing, want)
	if err != nil {
		return false, err
	}
	if want.keepCompleted && current.GetStatus() == completed {
		return true, nil
	}
	var existing []forge.LineAnnotation
	if current.GetOutput().GetAnnotationsCount() > 0 {
		if existing, err = f.annotations(ctx, doing, current.GetID()); err != nil {
			return false, err
		}
	}
	ended := current.GetStatus() == completed && (want.status != completed || current.GetConclusion() != want.conclusion)
	outdated := slices.ContainsFunc(existing, func(a forge.LineAnnotation) bool { return !slices.Contains(want.annotations, a) })
	if current == nil || ended || outdated {
		if current != nil && current.GetStatus() != completed {
			// Nothing would conclude it later. Cancelled lets nobody merge before there is a new one.
			if err := f.cancelCheck(ctx, doing, current.GetID(), want.name); err != nil {
				return false, err
			}
		}
		existing = nil
		if current, err = f.createCheck(ctx, doing, want); err != nil {
			return false, err
		}
	}
	return false, f.complete(ctx, doing, want, current, existing)
}

// complete updates a check run, and adds the annotations that it lacks.
func (f *Forge) complete(ctx context.Context, doing string, want checkRun, current *github.CheckRun, existing []forge.LineAnnotation) error {
	missing := slices.DeleteFunc(slices.Clone(want.annotations), func(a forge.LineAnnotation) bool { return slices.Contains(existing, a) })
	batches := slices.Collect(slices.Chunk(missing, annotationsAtOnce))
	if len(batches) == 0 {
		if want.is(current) {
			return nil
		}
		batches = [][]forge.LineAnnotation{nil}
	}
	for i, batch := range batches {
		// The conclusion comes with the last of them: what is concluded has all.
		if err := f.updateCheck(ctx, doing, current.GetID(), want, batch, i == len(batches)-1); err != nil {
			return err
		}
	}
	return nil
}

// is reports whether a check run is as desired, but for its annotations.
func (c checkRun) is(r *github.CheckRun) bool {
	return r.GetStatus() == c.status && r.GetConclusion() == c.conclusion && r.GetOutput().GetTitle() == c.title &&
		r.GetOutput().GetSummary() == c.summary && (c.url == "" || r.GetDetailsURL() == c.url)
}

// checkRun is the newest check run that has the external ID; nil where there is none.
func (f *Forge) checkRun(ctx context.Context, doing string, want checkRun) (*github.CheckRun, error) {
	var newest *github.CheckRun
	options := &github.ListCheckRunsOptions{CheckName: &want.name, AppID: &f.appID, Filter: new("all"), ListOptions: github.ListOptions{Page: 1, PerPage: 100}}
	for range commentPages {
		list, response, err := f.checking.Checks.ListCheckRunsForRef(ctx, f.owner, f.name, want.sha, options)
		if err != nil {
			return nil, f.failed(doing, checking, response, err)
		}
		if list == nil {
			return nil, f.failed(doing, checking, nil, errors.New("the response holds no check runs"))
		}
		for _, r := range list.CheckRuns {
			if r.GetExternalID() == want.externalID && r.GetID() > newest.GetID() {
				newest = r
			}
		}
		if options.Page = response.NextPage; options.Page == 0 {
			break
		}
	}
	return newest, nil
}

// annotations are those of a check run.
func (f *Forge) annotations(ctx context.Context, doing string, id int64) ([]forge.LineAnnotation, error) {
	var out []forge.LineAnnotation
	options := &github.ListOptions{Page: 1, PerPage: 100}
	for range commentPages {
		list, response, err := f.checking.Checks.ListCheckRunAnnotations(ctx, f.owner, f.name, id, options)
		if err != nil {
			return nil, f.failed(doing, checking, response, err)
		}
		for _, a := range list {
			out = append(out, forge.LineAnnotation{
				Path: a.GetPath(), Line: a.GetStartLine(), Level: forge.AnnotationLevel(a.GetAnnotationLevel()), Title: a.GetTitle(), Message: a.GetMessage(),
			})
		}
		if options.Page = response.NextPage; options.Page == 0 {
			break
		}
	}
	return out, nil
}

// createCheck makes a check run that is in progress where annotations follow.
func (f *Forge) createCheck(ctx context.Context, doing string, want checkRun) (*github.CheckRun, error) {
	if err := f.mayWrite(ctx, doing); err != nil {
		return nil, err
	}
	options := github.CreateCheckRunOptions{
		Name: want.name, HeadSHA: want.sha, DetailsURL: optional(want.url), ExternalID: &want.externalID, Status: &want.status,
		Conclusion: optional(want.conclusion), Output: &github.CheckRunOutput{Title: &want.title, Summary: &want.summary},
	}
	if len(want.annotations) > 0 {
		options.Status, options.Conclusion = new(inProgress), nil
	}
	made, response, err := f.checking.Checks.CreateCheckRun(ctx, f.owner, f.name, options)
	if err == nil && made.GetID() == 0 {
		response, err = nil, errors.New("the response holds no check run")
	}
	if err != nil {
		return nil, f.failed(doing, checking, response, err)
	}
	return made, nil
}

// cancelCheck concludes a check run that another takes the place of.
func (f *Forge) cancelCheck(ctx context.Context, doing string, id int64, name string) error {
	if err := f.mayWrite(ctx, doing); err != nil {
		return err
	}
	options := github.UpdateCheckRunOptions{Name: name, Status: new(completed), Conclusion: new(cancelled)}
	if _, response, err := f.checking.Checks.UpdateCheckRun(ctx, f.owner, f.name, id, options); err != nil {
		return f.failed(doing, checking, response, err)
	}
	return nil
}

// updateCheck writes all of it and appends annotations.
func (f *Forge) updateCheck(ctx context.Context, doing string, id int64, want checkRun, batch []forge.LineAnnotation, last bool) error {
	if err := f.mayWrite(ctx, doing); err != nil {
		return err
	}
	options := github.UpdateCheckRunOptions{
		Name: want.name, DetailsURL: optional(want.url), ExternalID: &want.externalID,
		Output: &github.CheckRunOutput{Title: &want.title, Summary: &want.summary, Annotations: make([]*github.CheckRunAnnotation, len(batch))},
	}
	if last {
		options.Status, options.Conclusion = &want.status, optional(want.conclusion)
	}
	for i, a := range batch {
		options.Output.Annotations[i] = &github.CheckRunAnnotation{
			Path: &a.Path, StartLine: &a.Line, EndLine: &a.Line, AnnotationLevel: new(string(a.Level)), Title: optional(a.Title), Message: &a.Message,
		}
	}
	if _, response, err := f.checking.Checks.UpdateCheckRun(ctx, f.owner, f.name, id, options); err != nil {
		return f.failed(doing, checking, response, err)
	}
	return nil
}
