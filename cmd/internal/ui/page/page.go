// Package page renders what poolwright ui serves: HTML of the documents that get, explain, history and events print as JSON.
//
// It is a function of documents and a time: it reads no clock, no object and no network, and changes nothing. What the documents contain
// is text to it, and never markup. It refuses inline scripts and styles, which the server's Content-Security-Policy refuses too. Start
// reading at NewRenderer.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/history"
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// Assets are the files that a page refers to, by name.
func Assets() (fs.FS, error) { return fs.Sub(assetFiles, "assets") }

// Section is a part of a page that is replaced when it changes.
type Section struct {
	// ID is that of its element.
	ID string
	// HTML is the content of its element.
	HTML template.HTML
}

// The sections that an error can be in: that of the overview with what needs attention, and those of the other pages.
const (
	SectionAttention   = "attention"
	SectionExplanation = "explanation"
	SectionEvents      = "events"
	SectionPull        = "pull"
	SectionSavings     = "savings"
)

// Document is a page.
type Document struct {
	// Title is that of the window.
	Title string
	// Updates is the path of the stream of its sections.
	Updates string
	// Data is the path of the document that it is made of; empty where there is none.
	Data string
	// Sections are in the order of the page; the first is in its header.
	Sections []Section
}

// Renderer renders pages by the templates, which it has parsed. Several pages can be rendered at a time.
type Renderer struct {
	templates *template.Template
}

// NewRenderer parses the templates.
func NewRenderer() (*Renderer, error) {
	t, err := template.New("").Funcs(functions()).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parsing the templates: %w", err)
	}
	return &Renderer{t}, nil
}

// Write writes a page as HTML.
func (r *Renderer) Write(w io.Writer, d Document) error {
	if err := r.templates.ExecuteTemplate(w, "layout.html", d); err != nil {
		return fmt.Errorf("rendering the page: %w", err)
	}
	return nil
}

// Windows are the lengths of time that the timeline of nodes can have.
func Windows() []time.Duration {
	return []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}
}

// Interruption is a time in which the cluster could not be read.
type Interruption struct {
	// Since is when it began.
	Since time.Time
	// Message is the error.
	Message string
}

// Input is what the overview is made of.
type Input struct {
	// Report is the document that get prints; its time is that of the page.
	Report get.Report
	// Interrupted is what has kept the objects from being up to date; nil where nothing has.
	Interrupted *Interruption
	// History is what is recorded of the cluster; the zero one where nothing is.
	History history.History
	// Namespace is that of the Syncs that the history has.
	Namespace string
	// Window is how much of the past the timeline and the events have, one of Windows. Zero is the shortest that has all nodes of the last
	// day from their beginning.
	Window time.Duration
}

// window is that of the timeline.
func (in Input) window() time.Duration {
	const longest = 24 * time.Hour
	if in.Window > 0 {
		return in.Window
	}
	var oldest time.Duration
	for _, n := range in.Report.Nodes {
		oldest = max(oldest, in.Report.Time.Sub(n.Created.Time))
	}
	for _, n := range endedWithin(in.History, in.Report.Time.Time, longest) {
		oldest = max(oldest, in.Report.Time.Sub(n.Created.Time))
	}
	for _, w := range Windows() {
		if w >= oldest || w == longest {
			return w
		}
	}
	return longest
}

// Overview renders the first page.
func (r *Renderer) Overview(in Input) (Document, error) {
	m := overviewOf(in)
	return r.render(Document{Title: m.Title, Updates: "/updates/" + windowQuery(in.Window), Data: "/api/v1/overview"}, m, "status", "summary", "attention", "pools", "nodes", "recent", "pulls", "drift", "syncs", "quotas")
}

// ExplanationInput is what the page of a pod, a node or a pool is made of.
type ExplanationInput struct {
	// Explanation is the document that explain prints; its time is that of the page.
	Explanation explain.Explanation
	// Path is that of the page, Name what it is called.
	Path, Name string
	// Report has the cluster in its summary, which may be nil.
	Report get.Report
	// Interrupted is what has kept the objects from being up to date; nil where nothing has.
	Interrupted *Interruption
	// Recorded is what the history has of a node; nil where it has nothing.
	Recorded *history.NodeClaim
	// RecordedUntil is until when that is.
	RecordedUntil time.Time
	// Gone is whether there is nothing but what is recorded.
	Gone bool
}

// Explanation renders the page of a pod, a node or a pool.
func (r *Renderer) Explanation(in ExplanationInput) (Document, error) {
	m := explanationOf(in)
	data := "/api/v1" + in.Path
	if in.Gone {
		data = ""
	}
	return r.render(Document{Title: m.Title, Updates: "/updates" + in.Path, Data: data}, m, "status", "explanation")
}

// Failure renders the page of what could not be read, or does not exist.
func (r *Renderer) Failure(title, message string, in get.Report) (Document, error) {
	m := failureModel{statusModel: statusOf(in, nil), Heading: clean(title), Message: clean(message)}
	m.Title = m.titled(m.Heading)
	return r.render(Document{Title: m.Title}, m, "status", "failure")
}

// Outdated renders the section of an open page that stands for one which could not be rendered anew: of the overview what needs
// attention, of another page its only section.
func (r *Renderer) Outdated(section, title, message string) (Section, error) {
	title, message = clean(title), clean(message)
	if section != SectionAttention {
		d, err := r.render(Document{}, failureModel{Heading: title, Message: message}, "failure")
		if err != nil {
			return Section{}, err
		}
		return Section{ID: section, HTML: d.Sections[0].HTML}, nil
	}
	d, err := r.render(Document{}, overviewModel{Attention: []attentionRow{{Sign: signError, Class: "error", Text: title + ", and the page has an earlier state: " + message}}}, "attention")
	if err != nil {
		return Section{}, err
	}
	return d.Sections[0], nil
}

// render renders each section of a page from one model by the template of its name.
func (r *Renderer) render(out Document, model any, sections ...string) (Document, error) {
	for _, id := range sections {
		var content bytes.Buffer
		if err := r.templates.ExecuteTemplate(&content, id+".html", model); err != nil {
			return out, fmt.Errorf("rendering the section %s: %w", id, err)
		}
		// html/template has escaped what is in it.
		out.Sections = append(out.Sections, Section{ID: id, HTML: template.HTML(content.String())}) //nolint:gosec // the output of a template
	}
	return out, nil
}
