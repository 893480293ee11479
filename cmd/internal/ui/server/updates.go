package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
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
	// readerRate is how many bytes a second each reader of a page is sent on average: a large page is rendered less often.
	readerRate = 64 << 10
	// explainInterval is how often an explanation is made anew.
	explainInterval = 15 * time.Second
	// writeTimeout bounds each write to a stream.
	writeTimeout = 10 * time.Second
)

// hub renders each page that somebody reads once, for all who read it.
type hub struct {
	ctx    context.Context
	render func(context.Context, *http.Request) (page.Document, error)
	// outdated is the section of a page that could not be rendered.
	outdated func(*http.Request, error) (page.Section, error)

	mu      sync.Mutex
	streams int
	live    map[string]*liveDocument
	// changed is closed and replaced when objects change.
	changed chan struct{}
}

// liveDocument is a page with those who read it.
type liveDocument struct {
	readers map[chan []sectionEvent]bool
	// events are the last rendering.
	events []sectionEvent
	stop   context.CancelFunc
}

// sectionEvent is a section as a server-sent event, which all readers share.
type sectionEvent struct {
	section page.Section
	encoded string
}

func newHub(ctx context.Context, s *Server) *hub {
	h := &hub{ctx: ctx, render: s.document, outdated: s.outdated, live: map[string]*liveDocument{}, changed: make(chan struct{})}
	go h.follow(s.Changed)
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
func (h *hub) subscribe(r *http.Request) (updates chan []sectionEvent, leave func(), ok bool) {
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
		one = &liveDocument{readers: map[chan []sectionEvent]bool{}, stop: cancel}
		h.live[key] = one
		go h.run(ctx, one, r.Clone(ctx))
	}
	updates = make(chan []sectionEvent, 1)
	one.readers[updates] = true
	if one.events != nil {
		updates <- one.events
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
		pause := h.publish(one, h.sections(ctx, r))
		interval, atChange := ageInterval, changed
		if _, isObject := objectOf(r); isObject {
			interval, atChange = explainInterval, nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		select {
		case <-ctx.Done():
			return
		case <-atChange:
		case <-time.After(interval):
		}
	}
}

// sections renders a page. Of one that cannot be rendered it returns the section which has the error: the others keep what they have.
func (h *hub) sections(ctx context.Context, r *http.Request) []page.Section {
	d, err := h.render(ctx, r)
	if err == nil || ctx.Err() != nil {
		return d.Sections
	}
	one, err := h.outdated(r, err)
	if err != nil {
		return nil
	}
	return []page.Section{one}
}

// publish gives a rendering to all readers. One that has not taken the last yet gets only the newest. It returns how long to wait before
// the next.
func (h *hub) publish(one *liveDocument, sections []page.Section) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Readers hold the events before: they are not changed.
	events, changed := slices.Clone(one.events), 0
	for _, s := range sections {
		i := slices.IndexFunc(events, func(e sectionEvent) bool { return e.section.ID == s.ID })
		switch {
		case i < 0:
			events = append(events, sectionEvent{s, encode(s)})
			i = len(events) - 1
		case events[i].section.HTML == s.HTML:
			continue
		default:
			events[i] = sectionEvent{s, encode(s)}
		}
		changed += len(events[i].encoded)
	}
	pause := max(renderInterval, time.Duration(changed)*time.Second/readerRate)
	if changed == 0 {
		return pause
	}
	one.events = events
	for updates := range one.readers {
		select {
		case <-updates:
		default:
		}
		updates <- events
	}
	return pause
}

// outdated is the section of an open page that could not be rendered anew.
func (s *Server) outdated(r *http.Request, err error) (page.Section, error) {
	_, title, message := failureOf(err)
	return s.pages.Outdated(sectionOf(r), title, message)
}

// updates streams the sections of a page that change.
func (s *Server) updates() http.Handler {
	mux := http.NewServeMux()
	for _, p := range paths() {
		mux.HandleFunc("GET "+p, s.stream)
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
		var parts []string
		select {
		case <-r.Context().Done():
			return
		case <-s.hub.ctx.Done():
			return
		case <-heartbeat.C:
			parts = []string{":\n\n"}
		case events := <-updates:
			for _, e := range events {
				if id := e.section.ID; sent[id] != e.encoded {
					sent[id] = e.encoded
					parts = append(parts, e.encoded)
				}
			}
		}
		if len(parts) == 0 {
			continue
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // without one, the write fails or does not
		for _, part := range parts {
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}

// encode is a section as a server-sent event, whose lines each have a prefix.
func encode(s page.Section) string {
	var out strings.Builder
	fmt.Fprintf(&out, "event: %s\n", s.ID)
	for line := range strings.Lines(string(s.HTML)) {
		fmt.Fprintf(&out, "data: %s\n", strings.Trim(line, "\r\n"))
	}
	out.WriteString("\n")
	return out.String()
}
