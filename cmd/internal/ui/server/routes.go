package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/ui/page"
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
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /favicon.svg", s.favicon)
	mux.HandleFunc("GET /pods/{namespace}/{name}", s.page)
	mux.HandleFunc("GET /nodes/{name}", s.page)
	mux.HandleFunc("GET /pools/{name}", s.page)
	mux.Handle("GET /updates/", http.StripPrefix("/updates", s.updates()))
	mux.HandleFunc("GET /api/v1/overview", s.overviewJSON)
	mux.HandleFunc("GET /api/v1/pods/{namespace}/{name}", s.explanationJSON)
	mux.HandleFunc("GET /api/v1/nodes/{name}", s.explanationJSON)
	mux.HandleFunc("GET /api/v1/pools/{name}", s.explanationJSON)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, http.StatusNotFound, "There is no such page", "")
	})
	return s.guard(mux), nil
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

// login exchanges the token for the cookie. It answers with a page that leads to the overview, not with a redirect: of a link in another
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
<head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>Poolwright</title></head>
<body><p><a href="/">Overview</a></p></body>
</html>
`

// responseTimeout bounds a response: Karpenter's scheduler explains an object of a large cluster.
const responseTimeout = 2 * time.Minute

// document renders the page of a path.
func (s *Server) document(ctx context.Context, r *http.Request) (page.Document, error) {
	report, err := s.Documents.Report(ctx)
	if err != nil {
		return page.Document{}, err
	}
	object, isObject := objectOf(r)
	if isObject {
		e, err := s.Documents.Explain(ctx, object)
		if err != nil {
			return page.Document{}, err
		}
		return s.pages.Explanation(page.ExplanationInput{Explanation: e, Path: r.URL.EscapedPath(), Name: object.Name, Report: report, Interrupted: s.Documents.Interrupted()})
	}
	return s.pages.Overview(page.Input{Report: report, Window: windowOf(r), Interrupted: s.Documents.Interrupted()})
}

// windowOf is the length of the timeline that a request selects; zero where it selects none that there is.
func windowOf(r *http.Request) time.Duration {
	hours, err := strconv.Atoi(r.URL.Query().Get("hours"))
	window := time.Duration(hours) * time.Hour
	if err != nil || !slices.Contains(page.Windows(), window) {
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
	s.write(w, http.StatusOK, d)
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
	s.write(w, code, d)
}

func (s *Server) write(w http.ResponseWriter, code int, d page.Document) {
	var content bytes.Buffer
	if err := s.pages.Write(&content, d); err != nil {
		http.Error(w, "rendering the page failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(content.Bytes()) // the reader is gone
}

func (s *Server) overviewJSON(w http.ResponseWriter, r *http.Request) {
	report, err := s.Documents.Report(r.Context())
	s.writeJSON(w, err, report.WriteJSON)
}

func (s *Server) explanationJSON(w http.ResponseWriter, r *http.Request) {
	object, _ := objectOf(r)
	e, err := s.Documents.Explain(r.Context(), object)
	s.writeJSON(w, err, e.WriteJSON)
}

// writeJSON writes a document of the API, or the error as text.
func (s *Server) writeJSON(w http.ResponseWriter, err error, write func(io.Writer) error) {
	var content bytes.Buffer
	if err == nil {
		err = write(&content)
	}
	if err != nil {
		code, _, _ := failureOf(err)
		http.Error(w, page.Text(err.Error()), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content.Bytes()) // the reader is gone
}

// favicon is the mark in a colour of the cluster's.
func (s *Server) favicon(w http.ResponseWriter, r *http.Request) {
	report, _ := s.Documents.Report(r.Context()) // without one, it has no colour
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write(page.Favicon(report)) // the reader is gone
}
