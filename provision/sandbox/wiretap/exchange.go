package wiretap

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// exchange is one request with its response.
type exchange struct {
	*Listener
	n       int
	w       http.ResponseWriter
	request *http.Request
	// life is ended at once when the client is cut off; the request's context a moment later.
	life    context.Context
	content []byte
	// writes is set where the response is read for the identity of an object.
	writes bool
}

// pass sends the request to the server and the response to the client. The end is recorded
// before the client has the response, or learns that there is none: what follows from it
// comes later in the order.
func (x *exchange) pass() {
	if x.writes {
		x.relay(x.collect(false))
		return
	}
	out := &captured{ResponseWriter: x.w, onStatus: func(status int) { x.tap.end(x.n, status, nil) }}
	x.send(out)
	if out.status == 0 {
		x.hangUp()
	}
}

// collect has the server do its work, and returns its response, also where the client has
// ended in the meantime: what a server has begun, it finishes.
func (x *exchange) collect(firstLine bool) *captured {
	gone := x.request.Context()
	x.request = x.request.WithContext(ownContext{context.WithoutCancel(gone)})
	defer func() { x.request = x.request.WithContext(gone) }()
	out := &captured{ResponseWriter: nowhere{http.Header{}}, keep: true, firstLine: firstLine}
	x.send(out)
	x.tap.end(x.n, out.status, func(q *trace.Request) {
		if x.config.Protocol.Response != nil && x.writes {
			x.config.Protocol.Response(q, out.kept.Bytes())
		}
	})
	return out
}

// relay sends a response that was collected.
func (x *exchange) relay(out *captured) {
	if out.status == 0 || out.firstLine || x.life.Err() != nil || x.request.Context().Err() != nil {
		hangUp(x.w)
		return
	}
	maps.Copy(x.w.Header(), out.Header())
	x.w.WriteHeader(out.status)
	_, _ = x.w.Write(out.kept.Bytes()) // who has left needs no response
}

func (x *exchange) send(w http.ResponseWriter) {
	x.request.Body = io.NopCloser(bytes.NewReader(x.content))
	x.forward.ServeHTTP(w, x.request)
}

// hangUp ends the exchange without a response.
func (x *exchange) hangUp() {
	x.tap.end(x.n, 0, nil)
	hangUp(x.w)
}

// inject has a fault happen to the request. What happens before a request is sent on has an
// earlier place in the order than the request.
func (x *exchange) inject(a *Armed, q trace.Request) {
	f := a.fault
	ends := f.Do == Kill || f.Do == Drop || f.Do == Respond
	if !f.After && !ends {
		x.act(a, q)
	}
	x.n = x.tap.begin(q)
	switch {
	case f.Do == Respond && !f.After:
		x.act(a, q)
		x.tap.end(x.n, f.Status, nil)
		x.respond(f)
	case !f.After && ends:
		x.act(a, q)
		x.hangUp()
	case !f.After:
		if f.Do == Duplicate {
			// Both are in the record: what the first has created belongs to the client, too, and the
			// second may be refused for it.
			x.collect(watches(x.request))
			x.n = x.tap.begin(q)
		}
		x.pass()
	default:
		x.after(a, q)
	}
}

// act does what the fault does beside the request.
func (x *exchange) act(a *Armed, q trace.Request) {
	switch a.fault.Do {
	case Kill, Call:
		a.fault.Call(q)
	case Delay:
		x.wait(a.fault.Wait)
	case Drop, Respond, Duplicate, Truncate:
	}
	a.once.Do(func() { close(a.done) })
}

// after lets the server do its work, and keeps the response from the client, or back, until
// the fault has happened. A watch has no end: its response is its first line.
func (x *exchange) after(a *Armed, q trace.Request) {
	out := x.collect(watches(x.request))
	x.act(a, q)
	switch {
	case a.fault.Do == Kill || a.fault.Do == Drop:
		hangUp(x.w)
	case a.fault.Do == Respond:
		x.respond(a.fault)
	case a.fault.Do == Truncate && out.status != 0 && !out.firstLine:
		// With the length of the whole, so that the client finds that some is missing.
		maps.Copy(x.w.Header(), out.Header())
		x.w.Header().Set("Content-Length", strconv.Itoa(out.kept.Len()))
		x.w.WriteHeader(out.status)
		_, _ = x.w.Write(out.kept.Bytes()[:out.kept.Len()/2]) // who has left needs no response
		_ = http.NewResponseController(x.w).Flush()
		hangUp(x.w)
	default:
		x.relay(out)
	}
}

// watches reports whether a request is a watch of the API server.
func watches(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// respond returns the fault's status.
func (x *exchange) respond(f Fault) {
	maps.Copy(x.w.Header(), f.Header)
	http.Error(x.w, http.StatusText(f.Status), f.Status)
}

// ownContext hides from httputil.ReverseProxy that a server runs it: it would panic where
// the response is not read to its end.
type ownContext struct{ context.Context }

// Value returns nothing.
func (ownContext) Value(any) any { return nil }

func (x *exchange) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.request.Context().Done():
	}
}

// captured passes a response on, or keeps it.
type captured struct {
	http.ResponseWriter
	keep bool
	// firstLine ends the response with what is written first.
	firstLine bool
	// onStatus, if any, is called before the status is passed on.
	onStatus func(int)
	status   int
	kept     bytes.Buffer
}

// WriteHeader takes the status.
func (r *captured) WriteHeader(status int) {
	if status >= 200 && r.status == 0 {
		r.status = status
		if r.onStatus != nil {
			r.onStatus(status)
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write takes content.
func (r *captured) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !r.keep {
		return r.ResponseWriter.Write(p)
	}
	r.kept.Write(p)
	if r.firstLine {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// Unwrap lets http.ResponseController flush and hijack.
func (r *captured) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// nowhere is where a response goes that no client gets.
type nowhere struct{ header http.Header }

// Header is written to, and read by nobody.
func (n nowhere) Header() http.Header { return n.header }

// WriteHeader does nothing.
func (nowhere) WriteHeader(int) {}

// Write takes everything.
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
