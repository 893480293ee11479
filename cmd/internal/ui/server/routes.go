package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	past "github.com/poolwright/poolwright/cmd/internal/history"
	"github.com/poolwright/poolwright/cmd/internal/ui/page"
	"github.com/poolwright/poolwright/reconciler/history"
)

// policy is the Content-Security-Policy: everything from this server, and nothing inline.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// Handler serves the requests.
func (s *Server) Handler() (http.Handler, error) {
	assets, err := page.Assets()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(assets)))
	mux.HandleFunc("GET /favicon.svg", s.favicon)
	for _, p := range paths() {
		mux.HandleFunc("GET "+p, s.page)
	}
	mux.Handle("GET /updates/", http.StripPrefix("/updates", s.updates()))
	mux.HandleFunc("GET /api/v1/overview", s.overviewJSON)
	mux.HandleFunc("GET /api/v1/pods/{namespace}/{name}", s.explanationJSON)
	mux.HandleFunc("GET /api/v1/nodes/{name}", s.explanationJSON)
	mux.HandleFunc("GET /api/v1/pools/{name}", s.explanationJSON)
	mux.HandleFunc("GET /api/v1/history", s.historyJSON)
	mux.HandleFunc("GET /api/v1/events", s.eventsJSON)
	mux.HandleFunc("GET /api/v1/pulls/{number}", s.pullJSON)
	mux.HandleFunc("GET /api/v1/savings", s.savingsJSON)
	mux.HandleFunc("GET /api/v1/savings.csv", s.savingsCSV)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, http.StatusNotFound, "There is no such page", "")
	})
	return s.guard(mux), nil
}

// paths are those of the pages.
func paths() []string {
	return []string{"/{$}", "/pods/{namespace}/{name}", "/nodes/{name}", "/pools/{name}", "/pulls/{number}", "/events", "/savings"}
}

// guard lets only requests pass that are for this server, change nothing, and have the cookie.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Robots-Tag", "noindex")
		h.Set("Cache-Control", "no-store")
		switch {
		case !slices.Contains(s.Hosts, r.Host):
			http.Error(w, "this is not the host of the server", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the pages change nothing: only GET and HEAD are allowed", http.StatusMethodNotAllowed)
		case r.URL.Path == "/login":
			s.login(w, r)
		case !s.authenticated(r):
			http.Error(w, "run poolwright ui, and open the address that it prints", http.StatusUnauthorized)
		default:
			// A stream sets its own for each write.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(responseTimeout)) // where there is none, a write does not end
			next.ServeHTTP(w, r)
		}
	})
}

// login exchanges the token for the cookie. It responds with a page that leads to the overview, not with a redirect: of a link in another
// site, such as a terminal in the browser, a redirect would be requested without the cookie, which is of the same site only.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		// What fetches the header of a link in advance must not use the token up.
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
		return
	}
	if !s.authenticated(r) {
		session, ok := s.exchange(r.URL.Query().Get("token"))
		if !ok {
			http.Error(w, "the token is not valid, or was used already: run poolwright ui again", http.StatusUnauthorized)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, entrance) // the reader is gone
}

// entrance is the page that leads to the overview. Its place in the history of the browser is taken by the overview.
const entrance = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><link rel="icon" href="/favicon.svg"><title>Poolwright</title></head>
<body><p><a href="/">Overview</a></p></body>
</html>
`

// responseTimeout bounds a response: Karpenter's scheduler explains an object of a large cluster.
const responseTimeout = 2 * time.Minute

// present is the report, and the history, which could not be read where unread is an error: its kind is then among those that are incomplete.
func (s *Server) present(ctx context.Context) (report get.Report, h history.History, unread, err error) {
	if report, err = s.Documents.Report(ctx); err != nil {
		return report, h, nil, err
	}
	if h, unread = s.Documents.History(ctx); unread != nil {
		h = history.History{}
		report.IncompleteKinds = append(slices.Clone(report.IncompleteKinds), get.IncompleteKind{Kind: "configmaps", Reason: get.Failed, Message: "the history: " + page.Text(unread.Error())})
	}
	return report, h, unread, nil
}

// document renders the page of a path.
func (s *Server) document(ctx context.Context, r *http.Request) (page.Document, error) {
	report, h, unread, err := s.present(ctx)
	if err != nil {
		return page.Document{}, err
	}
	section := sectionOf(r)
	if unread != nil && (section == page.SectionPull || section == page.SectionEvents || section == page.SectionSavings) {
		return page.Document{}, fmt.Errorf("the history: %w", unread)
	}
	interrupted, window := s.Documents.Interrupted(), windowOf(r)
	switch section {
	case page.SectionExplanation:
		return s.explanation(ctx, r, report, h, unread)
	case page.SectionPull:
		d, found, err := s.pages.Pull(page.PullInput{Report: report, History: h, Namespace: s.Namespace, Interrupted: interrupted, Number: numberOf(r)})
		if err == nil && !found {
			err = errNoPull
		}
		return d, err
	case page.SectionEvents:
		return s.pages.Events(page.EventsInput{Report: report, History: h, Interrupted: interrupted, Window: window})
	case page.SectionSavings:
		return s.pages.Savings(page.SavingsInput{Report: report, History: h, Interrupted: interrupted, Window: window})
	}
	return s.pages.Overview(page.Input{Report: report, History: h, Namespace: s.Namespace, Window: window, Interrupted: interrupted})
}

// errNoPull reports a number of which there is no pull request.
var errNoPull = explain.NotFound{Message: "no Sync has a pull request of this number, and none is recorded"}

// explanation renders the page of a pod, a node or a pool. A node that is gone is what the history has of it, which could not be read
// where unread is an error.
func (s *Server) explanation(ctx context.Context, r *http.Request, report get.Report, h history.History, unread error) (page.Document, error) {
	object, _ := objectOf(r)
	in := page.ExplanationInput{Path: r.URL.EscapedPath(), Name: object.Name, Report: report, Interrupted: s.Documents.Interrupted()}
	if object.Kind == explain.KindNode {
		in.Recorded, in.RecordedUntil = page.RecordedNode(report, h, object.Name), h.Time.Time
	}
	var err error
	in.Explanation, err = s.Documents.Explain(ctx, object)
	if _, missing := errors.AsType[explain.NotFound](err); missing && in.Recorded != nil {
		in.Explanation, err = explain.Explanation{Time: report.Time, Object: "NodeClaim/" + in.Recorded.Name, Since: in.Recorded.Created}, nil
		in.Gone = true
	}
	if err != nil {
		return page.Document{}, err
	}
	if unread != nil && object.Kind == explain.KindNode {
		in.Explanation.Unknown = append(slices.Clone(in.Explanation.Unknown), "The history could not be read: "+unread.Error())
	}
	return s.pages.Explanation(in)
}

// sectionOf is the section of a page that has its content: of the overview the one that has errors.
func sectionOf(r *http.Request) string {
	_, isObject := objectOf(r)
	switch {
	case isObject:
		return page.SectionExplanation
	case r.PathValue("number") != "":
		return page.SectionPull
	case strings.HasSuffix(r.Pattern, "/events"):
		return page.SectionEvents
	case strings.HasSuffix(r.Pattern, "/savings"), strings.HasSuffix(r.Pattern, "/savings.csv"):
		return page.SectionSavings
	}
	return page.SectionAttention
}

// numberOf is the number of the pull request that a path names; 0 where it names none.
func numberOf(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.PathValue("number"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// windowOf is how much of the past a request selects; zero where it selects none that the page can have.
func windowOf(r *http.Request) time.Duration {
	windows := page.Windows()
	if sectionOf(r) == page.SectionSavings {
		windows = page.SavingsWindows()
	}
	n, err := strconv.Atoi(r.URL.Query().Get("hours"))
	window := time.Duration(n) * time.Hour
	if err != nil || !slices.Contains(windows, window) {
		return 0
	}
	return window
}

// objectOf is what a path explains.
func objectOf(r *http.Request) (explain.Object, bool) {
	o := explain.Object{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	switch {
	case o.Name == "":
		return o, false
	case o.Namespace != "":
		o.Kind = explain.KindPod
	case strings.Contains(r.Pattern, "/nodes/"):
		o.Kind = explain.KindNode
	default:
		o.Kind = explain.KindPool
	}
	return o, true
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	d, err := s.document(r.Context(), r)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.write(w, r, http.StatusOK, d)
}

// failed is the response to a request whose documents could not be read.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	code, title, message := failureOf(err)
	s.fail(w, r, code, title, message)
}

// failureOf is what a page has in place of documents that could not be read.
func failureOf(err error) (code int, title, message string) {
	if missing, is := errors.AsType[explain.NotFound](err); is {
		return http.StatusNotFound, "Not found", missing.Message
	}
	return http.StatusBadGateway, "The cluster could not be read", err.Error()
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, code int, title, message string) {
	// Without a report, the page lacks the cluster's name.
	report, _ := s.Documents.Report(r.Context())
	d, err := s.pages.Failure(title, message, report)
	if err != nil {
		http.Error(w, "rendering the page failed", http.StatusInternalServerError)
		return
	}
	s.write(w, r, code, d)
}

func (s *Server) write(w http.ResponseWriter, r *http.Request, code int, d page.Document) {
	var content bytes.Buffer
	if err := s.pages.Write(&content, d); err != nil {
		http.Error(w, "rendering the page failed", http.StatusInternalServerError)
		return
	}
	send(w, r, code, "text/html; charset=utf-8", content.Bytes())
}

func (s *Server) overviewJSON(w http.ResponseWriter, r *http.Request) {
	report, h, _, err := s.present(r.Context())
	s.writeJSON(w, r, err, report.Priced(h).WriteJSON)
}

func (s *Server) explanationJSON(w http.ResponseWriter, r *http.Request) {
	object, _ := objectOf(r)
	e, err := s.Documents.Explain(r.Context(), object)
	s.writeJSON(w, r, err, e.WriteJSON)
}

// recorded is the history, and the time of the report.
func (s *Server) recorded(r *http.Request) (history.History, time.Time, error) {
	h, err := s.Documents.History(r.Context())
	return h, s.Now(), err
}

// since is from when on a request selects: without a window, the last day.
func since(r *http.Request, now time.Time) time.Time {
	return now.Add(-cmp.Or(windowOf(r), 24*time.Hour))
}

func (s *Server) historyJSON(w http.ResponseWriter, r *http.Request) {
	h, now, err := s.recorded(r)
	h = past.Since(h, since(r, now), "")
	s.writeJSON(w, r, err, func(out io.Writer) error { return document.Value(out, "json", document.History, h) })
}

func (s *Server) eventsJSON(w http.ResponseWriter, r *http.Request) {
	h, now, err := s.recorded(r)
	from := since(r, now)
	events := slices.DeleteFunc(past.EventsOf(past.Since(h, from, "")), func(e past.Event) bool { return e.Time.Time.Before(from) })
	s.writeJSON(w, r, err, func(out io.Writer) error {
		return document.Value(out, "json", document.Events, past.Events{Events: append([]past.Event{}, events...)})
	})
}

func (s *Server) pullJSON(w http.ResponseWriter, r *http.Request) {
	h, _, err := s.recorded(r)
	selected := page.SelectPull(h, numberOf(r))
	if err == nil && len(selected.PullRequests) == 0 {
		err = errNoPull
	}
	s.writeJSON(w, r, err, func(out io.Writer) error { return document.Value(out, "json", document.History, selected) })
}

// savings are the hours of pools that a request selects.
func (s *Server) savings(r *http.Request) (history.History, error) {
	h, now, err := s.recorded(r)
	return history.History{Time: h.Time, PoolHours: page.SavingsHours(h, now, windowOf(r))}, err
}

func (s *Server) savingsJSON(w http.ResponseWriter, r *http.Request) {
	h, err := s.savings(r)
	s.writeJSON(w, r, err, func(out io.Writer) error { return document.Value(out, "json", document.History, h) })
}

func (s *Server) savingsCSV(w http.ResponseWriter, r *http.Request) {
	h, err := s.savings(r)
	w.Header().Set("Content-Disposition", `attachment; filename="poolwright-savings.csv"`)
	s.writeAs(w, r, "text/csv; charset=utf-8", err, func(out io.Writer) error { return page.WriteCSV(out, h.PoolHours) })
}

// writeJSON writes a document of the API, or the error as text.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, err error, write func(io.Writer) error) {
	s.writeAs(w, r, "application/json", err, write)
}

// writeAs writes a document of a type, or the error as text.
func (s *Server) writeAs(w http.ResponseWriter, r *http.Request, contentType string, err error, write func(io.Writer) error) {
	var content bytes.Buffer
	if err == nil {
		err = write(&content)
	}
	if err != nil {
		w.Header().Del("Content-Disposition")
		code, _, _ := failureOf(err)
		http.Error(w, page.Text(err.Error()), code)
		return
	}
	send(w, r, http.StatusOK, contentType, content.Bytes())
}

// favicon is the mark in a colour of the cluster's.
func (s *Server) favicon(w http.ResponseWriter, r *http.Request) {
	report, _ := s.Documents.Report(r.Context()) // without one, it has no colour
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write(page.Favicon(report)) // the reader is gone
}
