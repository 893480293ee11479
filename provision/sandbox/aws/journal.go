package aws

import (
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
	Dry       bool   // DryRun was set
	Params    string // parameters, without user data
	Code      string // AWS error code, "" for success or while it runs
	Done      bool   // the response was made
	// Launched are the ids of the instances that it made.
	Launched []string
	// Authorizations is what the call needed of IAM, with the tags that things had then.
	Authorizations []policy.Request
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
	recorded int // requests so far
	calls    []*Call
	watchers []*watcher
}

// record notes a request. It is kept as a pointer so that its end shows.
func (j *journal) record(r *Call) {
	j.recorded++
	r.ID = fmt.Sprintf("00000000-0000-4000-8000-%012x", j.recorded)
	j.calls = append(j.calls, r)
	if len(j.calls) >= 2*callsKept {
		j.calls = append([]*Call(nil), j.calls[len(j.calls)-callsKept:]...)
	}
}

// watcher holds what one reader has not taken yet. Its memory grows with a
// slow reader: no event is lost, and the server never waits.
type watcher struct {
	queue   []Event
	changed chan struct{}
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
