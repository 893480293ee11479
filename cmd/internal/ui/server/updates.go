package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/ui/page"
)

const (
	// maxStreams is how many streams of updates are open at a time.
	maxStreams = 64
	// renderInterval is the least time between two renderings of a page because objects changed.
	renderInterval = time.Second
	// ageInterval is how often a page is rendered because time passes.
	ageInterval = 10 * time.Second
	// explainInterval is how often an explanation is made anew.
	explainInterval = 15 * time.Second
	// writeTimeout bounds each write to a stream.
	writeTimeout = 10 * time.Second
)

// hub renders each page that somebody reads once, for all who read it.
type hub struct {
	ctx    context.Context
	render func(context.Context, *http.Request) (page.Document, error)

	mu      sync.Mutex
	streams int
	live    map[string]*liveDocument
	// changed is closed and replaced when objects change.
	changed chan struct{}
}

// liveDocument is a page with those who read it.
type liveDocument struct {
	readers map[chan []page.Section]bool
	// sections are the last rendering.
	sections []page.Section
	stop     context.CancelFunc
}

func newHub(ctx context.Context, s *Server) *hub {
	h := &hub{ctx: ctx, render: s.document, live: map[string]*liveDocument{}, changed: make(chan struct{})}
	go h.follow(s.Documents.Changed())
	return h
}

// follow notifies all pages of changes.
func (h *hub) follow(changes <-chan struct{}) {
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-changes:
			h.mu.Lock()
			close(h.changed)
			h.changed = make(chan struct{})
			h.mu.Unlock()
		}
	}
}

// subscribe adds a reader of the page of a request. It returns false where there are too many.
func (h *hub) subscribe(r *http.Request) (updates chan []page.Section, leave func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams >= maxStreams {
		return nil, nil, false
	}
	h.streams++
	key := r.URL.EscapedPath() + "?" + windowOf(r).String()
	one, found := h.live[key]
	if !found {
		ctx, cancel := context.WithCancel(h.ctx)
		one = &liveDocument{readers: map[chan []page.Section]bool{}, stop: cancel}
		h.live[key] = one
		go h.run(ctx, one, r.Clone(ctx))
	}
	updates = make(chan []page.Section, 1)
	one.readers[updates] = true
	if one.sections != nil {
		updates <- one.sections
	}
	return updates, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.streams--
		delete(one.readers, updates)
		if len(one.readers) == 0 {
			one.stop()
			if h.live[key] == one {
				delete(h.live, key)
			}
		}
	}, true
}

// run renders a page as long as somebody reads it.
func (h *hub) run(ctx context.Context, one *liveDocument, r *http.Request) {
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		if d, err := h.render(ctx, r); err == nil {
			h.publish(one, d.Sections)
		}
		interval, atChange := ageInterval, changed
		if _, isObject := objectOf(r); isObject {
			interval, atChange = explainInterval, nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(renderInterval):
		}
		select {
		case <-ctx.Done():
			return
		case <-atChange:
		case <-time.After(interval):
		}
	}
}

// publish gives a rendering to all readers. One that has not taken the last yet gets only the newest.
func (h *hub) publish(one *liveDocument, sections []page.Section) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one.sections = sections
	for updates := range one.readers {
		select {
		case <-updates:
		default:
		}
		updates <- sections
	}
}

// updates streams the sections of a page that change.
func (s *Server) updates() http.Handler {
	mux := http.NewServeMux()
	for _, pattern := range []string{"GET /{$}", "GET /pods/{namespace}/{name}", "GET /nodes/{name}", "GET /pools/{name}"} {
		mux.HandleFunc(pattern, s.stream)
	}
	return mux
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	updates, leave, ok := s.hub.subscribe(r)
	if !ok {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer leave()
	out := http.NewResponseController(w)
	sent := map[string]string{}
	heartbeat := time.NewTicker(explainInterval)
	defer heartbeat.Stop()
	for {
		var content bytes.Buffer
		select {
		case <-r.Context().Done():
			return
		case <-s.hub.ctx.Done():
			return
		case <-heartbeat.C:
			content.WriteString(":\n\n")
		case sections := <-updates:
			for _, one := range sections {
				if html := string(one.HTML); sent[one.ID] != html {
					sent[one.ID] = html
					writeEvent(&content, one.ID, html)
				}
			}
		}
		if content.Len() == 0 {
			continue
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // without one, the write fails or does not
		if _, err := w.Write(content.Bytes()); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}

// writeEvent writes a server-sent event, whose lines each have a prefix.
func writeEvent(w *bytes.Buffer, name, data string) {
	fmt.Fprintf(w, "event: %s\n", name)
	for line := range strings.Lines(data) {
		fmt.Fprintf(w, "data: %s\n", strings.Trim(line, "\r\n"))
	}
	w.WriteString("\n")
}
