package aws

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Fault is something that goes wrong with matching requests. At least one of Code,
// Throttle, Delay, Stale and Extra is set; they combine.
type Fault struct {
	Service   string // as in the credential scope: ec2, iam, sqs …; "" matches all
	Operation string // "CreateFleet"; "" matches all
	Match     string // must occur in the request's decoded parameters; "" matches all

	Code     string        // fail with this AWS error code …
	Status   int           // … this HTTP status (0 means 400) …
	Message  string        // … and this message
	Throttle bool          // fail as the service does over its quota
	Delay    time.Duration // hold the response back this long after the effect
	Stale    bool          // serve reads from the state at the time of Inject
	Lost     bool          // with Code or Throttle: the operation takes effect, its response is the error
	Extra    int           // CreateFleet launches so many instances more than were requested, fewer where it is negative
	Times    int           // for so many requests; 0 means until removed
}

// fault is an injected Fault with what it has left.
type fault struct {
	Fault
	left int
	old  *state
}

// Inject makes requests go wrong until remove is called or Times are used up.
// The first matching fault acts, in the order of injection. A fault that names
// something unknown, or does nothing, is an error.
func (c *Cloud) Inject(f Fault) (remove func(), err error) {
	if err := c.checkFault(f); err != nil {
		return nil, fmt.Errorf("injecting a fault: %w", err)
	}
	c.account.Lock()
	defer c.account.Unlock()
	in := &fault{Fault: f, left: f.Times}
	if f.Stale {
		in.old = c.st.clone()
	}
	c.faults = append(c.faults, in)
	return func() {
		c.account.Lock()
		defer c.account.Unlock()
		c.faults = slices.DeleteFunc(c.faults, func(o *fault) bool { return o == in })
	}, nil
}

func (c *Cloud) checkFault(f Fault) error {
	known := false
	for name, s := range c.services {
		op, has := s.table.Operations[f.Operation]
		if (f.Service != "" && f.Service != name) || (f.Operation != "" && !has) {
			continue
		}
		known = true
		if f.Stale && has && !op.Read {
			return fmt.Errorf("%s is no read, so it cannot return stale state", f.Operation)
		}
	}
	if !known {
		return fmt.Errorf("no service %q with an operation %q", f.Service, f.Operation)
	}
	if f.Extra != 0 && f.Operation != "CreateFleet" {
		return errors.New("Extra is for CreateFleet alone")
	}
	return f.contradiction()
}

// contradiction finds fields that do nothing together.
func (f Fault) contradiction() error {
	fails := f.Code != "" || f.Throttle
	for _, problem := range []struct {
		is   bool
		what string
	}{
		{!fails && f.Delay <= 0 && !f.Stale && f.Extra == 0, "it does nothing: set Code, Throttle, Delay, Stale or Extra"},
		{f.Code == "" && (f.Status != 0 || f.Message != ""), "it has a status or message and no Code"},
		{f.Code != "" && f.Throttle, "it has both a Code and Throttle"},
		{f.Lost && !fails, "a response that is Lost needs a Code or Throttle to replace it"},
		{f.Status != 0 && (f.Status < 400 || f.Status > 599), "its Status is no error: 400 to 599"},
	} {
		if problem.is {
			return errors.New(problem.what)
		}
	}
	return nil
}

func (f *fault) matches(in *call) bool {
	return (!f.Stale || in.svc.table.Operations[in.Op].Read) && (f.Service == "" || f.Service == in.svc.name) && (f.Operation == "" || f.Operation == in.Op) &&
		(f.Match == "" || strings.Contains(in.Params, f.Match))
}

func (f *fault) delay() time.Duration {
	if f == nil {
		return 0
	}
	return f.Delay
}

func (f *fault) snapshot() *state {
	if f == nil {
		return nil
	}
	return f.old
}

func (f *fault) extra() int {
	if f == nil {
		return 0
	}
	return f.Extra
}

func (f *fault) fails() bool { return f != nil && (f.Code != "" || f.Throttle) }

func (f *fault) lost() bool { return f.fails() && f.Lost }

func (f *fault) failure(s service) error {
	if f.Throttle {
		return s.throttle
	}
	status, message := f.Status, f.Message
	if status == 0 {
		status = http.StatusBadRequest
	}
	if message == "" {
		message = "An injected fault: " + f.Code + "."
	}
	return api.NewError(status, f.Code, message)
}

// admit spends the request's rate tokens and picks its fault.
func (c *Cloud) admit(in *call) (*fault, error) {
	c.account.Lock()
	defer c.account.Unlock()
	now := c.account.Clock.Now()
	if c.limitsRequests() && !c.allow(in, now) {
		return nil, in.svc.throttle
	}
	for n, f := range c.faults {
		if !f.matches(in) {
			continue
		}
		if f.left--; f.left == 0 {
			c.faults = slices.Delete(c.faults, n, n+1)
		}
		if f.fails() && !f.Lost {
			if f.Delay > 0 {
				c.account.Unlock()
				c.wait(in.Gone, f.Delay)
				c.account.Lock()
			}
			return nil, f.failure(in.svc)
		}
		return f, nil
	}
	return nil, nil
}
