// Package wiretap records every request that the processes of a test send to the API
// server, to AWS, to Git and to a forge, in one order, and lets chosen ones meet a fault:
// the process is killed before or after it, it is dropped, its response is lost, another
// response is returned, it is delayed or sent twice, or a client is cut off.
//
// Each wire is a reverse proxy on loopback, made by Listen; what is recorded is data
// (provision/sandbox/trace). It decides nothing about what is right, and it keeps no
// content of requests. Start reading at Tap.
package wiretap

import (
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// Tap is the recorder of all wires. The zero value is not usable; New makes one.
type Tap struct {
	clock func() time.Time

	mu sync.Mutex
	// n is the last place that was given away.
	n       int
	records []trace.Record
	// at finds the record of a request that has not ended, by its place.
	at        map[int]int
	armed     []*Armed
	cut       map[string]bool
	forms     map[string][]string // of planted secrets, by name
	listeners []*Listener
}

// New returns a tap without wires, which takes its times from the clock.
func New(clock func() time.Time) *Tap {
	return &Tap{clock: clock, at: map[int]int{}, cut: map[string]bool{}, forms: map[string][]string{}}
}

// Record adds an event at this moment.
func (t *Tap) Record(e trace.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.append(trace.Record{Event: &e})
}

func (t *Tap) append(r trace.Record) int {
	t.n++
	r.N, r.Begin = t.n, t.clock()
	t.records = append(t.records, r)
	t.at[r.N] = len(t.records) - 1
	return r.N
}

// Records returns a copy of all that was recorded so far.
func (t *Tap) Records() []trace.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.records)
	for i, r := range out {
		if r.Request != nil {
			copied := *r.Request
			out[i].Request = &copied
		}
	}
	return out
}

// Discard removes the records of requests that have ended and that the function selects, for
// a trace that goes on for long.
func (t *Tap) Discard(selects func(*trace.Request) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records = slices.DeleteFunc(t.records, func(r trace.Record) bool {
		return r.Request != nil && r.Done != 0 && selects(r.Request)
	})
	for i, r := range t.records {
		if _, open := t.at[r.N]; open {
			t.at[r.N] = i
		}
	}
}

// Plant has the tap find a secret in requests on every wire, and records on which it
// belongs. Records have its name only.
func (t *Tap) Plant(name, secret string, own ...trace.Wire) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Within a longer text, base64 has one of three forms of each byte; the whole triples of
	// a secret are in one of these.
	forms := []string{secret}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), secret...))
		if whole := encoded[4:max(4, len(encoded)-4)]; len(whole) >= 8 {
			forms = append(forms, whole)
		}
	}
	t.forms[name] = forms
	t.append(trace.Record{Event: &trace.Event{Kind: trace.SecretAdded, Secret: name, Wires: own}})
}

// Cut takes all wires from a client, or gives them back: requests break off without a
// response, those under way as well.
func (t *Tap) Cut(client string, cut bool) {
	t.mu.Lock()
	t.cut[client] = cut
	open := slices.Clone(t.listeners)
	t.mu.Unlock()
	if cut {
		for _, l := range open {
			l.abort(client)
		}
	}
}

// admit completes a request that has arrived, and returns the fault that it meets. It is
// false for a client that is cut off.
func (t *Tap) admit(q *trace.Request, content []byte) (met *Armed, connected bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, forms := range t.forms {
		if slices.ContainsFunc(forms, func(form string) bool { return contains(content, form) }) {
			q.Secrets = append(q.Secrets, name)
		}
	}
	slices.Sort(q.Secrets)
	if t.cut[q.Client] {
		q.Fault = "cut off"
		return nil, false
	}
	if met = t.match(q); met != nil {
		q.Fault = met.fault.String()
		if met.fault.Do == Kill {
			t.cut[q.Client] = true // nothing of it follows
		}
	}
	return met, true
}

// begin records a request that is sent on now.
func (t *Tap) begin(q trace.Request) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.append(trace.Record{Request: &q})
}

// match returns the fault that the request meets, or nil.
func (t *Tap) match(q *trace.Request) *Armed {
	for _, a := range t.armed {
		switch {
		case !a.fault.At.matches(q):
		case a.met != nil && t.clock().Sub(a.since) < a.fault.For:
			return a
		case a.met == nil:
			if a.matched++; a.matched == max(1, a.fault.Nth) {
				a.met, a.since = q, t.clock()
				return a
			}
		}
	}
	return nil
}

// end records the response of a request; complete, if any, adds what is in it.
func (t *Tap) end(n, status int, complete func(*trace.Request)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
	r := &t.records[t.at[n]]
	r.Done, r.End = t.n, t.clock()
	r.Request.Status = status
	if complete != nil {
		complete(r.Request)
	}
	delete(t.at, n)
}
