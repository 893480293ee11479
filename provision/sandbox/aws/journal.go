package aws

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

// Event is one change in an instance's life.
type Event struct {
	Time     time.Time
	Kind     State    // the state it entered; Pending is the launch
	Instance Instance // as it was then
}

// Call is one request that arrived.
type Call struct {
	ID        string // request id, as the caller got it
	Time      time.Time
	Service   string
	Operation string
	Key       string // access key id that signed it, "" without a signature
	Dry       bool   // DryRun was asked for
	Params    string // parameters, without user data
	Code      string // AWS error code, "" for success or while it runs
	Done      bool   // the answer was made
	// Launched are the ids of the instances that it made.
	Launched []string
	// Asked is what the call asked of IAM, with the tags that things had then.
	Asked []policy.Request
}

func (r *Call) finish(err error) {
	r.Done = true
	if err == nil {
		return
	}
	r.Code = "InternalError"
	if f, ok := errors.AsType[*api.Error](err); ok {
		r.Code = f.Code
	}
}

// callsKept bounds the memory of Calls: a sandbox may run for days.
const callsKept = 20000

// journal is what observers read: calls, events and money.
type journal struct {
	requests int
	calls    []*Call
	watchers []*watcher
	billed   []bill // instances that have ended
}

// bill is one ended instance's time and price.
type bill struct {
	from, to time.Time
	rate     float64
}

// record notes a request. It is kept as a pointer so that its end shows.
func (j *journal) record(r *Call) {
	j.requests++
	r.ID = fmt.Sprintf("00000000-0000-4000-8000-%012x", j.requests)
	j.calls = append(j.calls, r)
	if len(j.calls) >= 2*callsKept {
		j.calls = append([]*Call(nil), j.calls[len(j.calls)-callsKept:]...)
	}
}

// Calls returns the requests so far in the order of their arrival, at least the
// last 20000.
func (c *Cloud) Calls() []Call {
	c.account.Lock()
	defer c.account.Unlock()
	out := make([]Call, 0, len(c.journal.calls))
	for _, r := range c.journal.calls {
		out = append(out, *r)
	}
	return out
}

// watcher holds what one reader has not taken yet. Its memory grows with a
// slow reader: no event is lost, and the server never waits.
type watcher struct {
	queue   []Event
	changed chan struct{}
}

// Watch returns the events from now on, in order, until ctx ends; then the
// channel is closed.
func (c *Cloud) Watch(ctx context.Context) <-chan Event {
	w := &watcher{changed: make(chan struct{}, 1)}
	c.account.Lock()
	c.journal.watchers = append(c.journal.watchers, w)
	c.account.Unlock()
	out := make(chan Event)
	go func() {
		defer close(out)
		defer c.unwatch(w)
		for {
			c.account.Lock()
			batch := w.queue
			w.queue = nil
			c.account.Unlock()
			for _, e := range batch {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
			if len(batch) > 0 {
				continue
			}
			select {
			case <-w.changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (c *Cloud) unwatch(w *watcher) {
	c.account.Lock()
	defer c.account.Unlock()
	for n, o := range c.journal.watchers {
		if o == w {
			c.journal.watchers = append(c.journal.watchers[:n:n], c.journal.watchers[n+1:]...)
			return
		}
	}
}

func (j *journal) publish(e Event) {
	for _, w := range j.watchers {
		w.queue = append(w.queue, e)
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

func (j *journal) bill(i *instance) {
	j.billed = append(j.billed, bill{i.Launched, i.end.at, i.rate})
}

// Spend is what all instances have cost until the given time, in dollars: by
// the second from launch to shutting-down, at least a minute each, as EC2 bills
// Linux. The price is that of the launch.
func (c *Cloud) Spend(at time.Time) float64 {
	c.account.Lock()
	defer c.account.Unlock()
	sum := 0.0
	for _, b := range c.journal.billed {
		sum += b.cost(at)
	}
	for _, i := range c.st.instances {
		if i.State.alive() {
			sum += bill{i.Launched, at, i.rate}.cost(at)
		}
	}
	return sum
}

func (b bill) cost(at time.Time) float64 {
	if at.Before(b.from) {
		return 0
	}
	to := b.to
	if at.Before(to) {
		to = at
	}
	return b.rate / 3600 * max(to.Sub(b.from).Truncate(time.Second), time.Minute).Seconds()
}
