// Package page renders what poolwright ui serves: HTML of the documents that get and explain print as JSON.
//
// It is a function of documents and a time: it reads no clock, no object and no network, and changes nothing. What the documents contain
// is text to it, and never markup. It refuses inline scripts and styles, which the server's Content-Security-Policy refuses too. Start
// reading at Overview.
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

// Write writes the page as HTML.
func (d Document) Write(w io.Writer) error {
	t, err := templates()
	if err != nil {
		return err
	}
	if err := t.ExecuteTemplate(w, "layout.html", d); err != nil {
		return fmt.Errorf("rendering the page: %w", err)
	}
	return nil
}

// templates are all of a page. A page is rendered at most once a second: they are not kept.
func templates() (*template.Template, error) {
	t, err := template.New("").Funcs(functions()).ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parsing the templates: %w", err)
	}
	return t, nil
}

// Windows are the lengths of time that the timeline of nodes can have.
func Windows() []time.Duration {
	return []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}
}

// NodeLife is a node that is gone, as a history of nodes has it.
type NodeLife struct {
	// Node is what it was at its end; its phases end when it ended.
	get.Node
	// Ended is when its instance was terminated.
	Ended time.Time
	// EndReason is why, in CamelCase, such as Empty, Drifted or Interrupted; empty where it is not known.
	EndReason string
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
	// Lives are nodes that are gone. Without a history there are none.
	Lives []NodeLife
	// Window is how much of the past the timeline has, one of Windows. Zero is the shortest that has all nodes from their beginning, of at
	// most a day.
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
	for _, w := range Windows() {
		if w >= oldest || w == longest {
			return w
		}
	}
	return longest
}

// Overview renders the first page.
func Overview(in Input) (Document, error) {
	m := overviewOf(in)
	return render(Document{Title: m.Title, Updates: "/updates/" + windowQuery(in.Window), Data: "/api/v1/overview"}, m, "status", "summary", "attention", "pools", "nodes", "pulls", "drift", "syncs", "quotas")
}

// Explanation renders the page of a pod or a node, whose name is the title. The cluster is that of the summary, which may be nil.
func Explanation(e explain.Explanation, path, name string, in get.Report) (Document, error) {
	m := explanationOf(e, name, in)
	return render(Document{Title: m.Title, Updates: "/updates" + path, Data: "/api/v1" + path}, m, "status", "explanation")
}

// Failure renders the page of what could not be read, or does not exist.
func Failure(title, message string, in get.Report) (Document, error) {
	m := failureModel{statusModel: statusOf(in), Heading: clean(title), Message: clean(message)}
	m.Title = m.titled(m.Heading)
	return render(Document{Title: m.Title}, m, "status", "failure")
}

// render renders each section of a page from one model by the template of its name.
func render(out Document, model any, sections ...string) (Document, error) {
	t, err := templates()
	if err != nil {
		return out, err
	}
	for _, id := range sections {
		var content bytes.Buffer
		if err := t.ExecuteTemplate(&content, id+".html", model); err != nil {
			return out, fmt.Errorf("rendering the section %s: %w", id, err)
		}
		// html/template has escaped what is in it.
		out.Sections = append(out.Sections, Section{ID: id, HTML: template.HTML(content.String())}) //nolint:gosec // the output of a template
	}
	return out, nil
}
