package aws

import (
	"net/http"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
)

// Cloud is one emulated AWS account. It is an http.Handler and safe for
// concurrent use; all of its memory is behind one lock.
type Cloud struct {
	cfg      Config
	account  *api.Account
	services map[string]service
	offers   *offerings.Service

	st      *state
	faults  []*fault
	journal journal
	buckets map[string]*bucket
	// leftByOthers is the share of what is added to the buckets that other callers of the account
	// leave; 0 while there are none.
	leftByOthers float64
	// restricted are the callers who may not do everything, by access key.
	restricted map[string]*restriction
	// expired are the access keys whose time is up.
	expired map[string]bool
}

// New makes a Cloud; its errors name the field of the config that is wrong.
func New(cfg Config) (*Cloud, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Clock == nil {
		cfg.Clock = wallClock{}
	}
	if cfg.Tags == nil {
		cfg.Tags = map[string]string{
			"karpenter.sh/discovery":                    cfg.Cluster.Name,
			"kubernetes.io/cluster/" + cfg.Cluster.Name: "owned",
		}
	}
	account := &api.Account{ID: cfg.Account, Region: cfg.Region, Cluster: cfg.Cluster.Name, Clock: cfg.Clock, Delays: cfg.Delays}
	offers, err := offerings.New(account, cfg.Catalog)
	if err != nil {
		return nil, err
	}
	offers.NotOffered = cfg.NotOffered
	c := &Cloud{cfg: cfg, account: account, offers: offers, buckets: map[string]*bucket{}, restricted: map[string]*restriction{}, expired: map[string]bool{}}
	c.st = newState(account, cfg, offers, func(now time.Time, state State, i Instance) {
		c.journal.publish(Event{Time: now, Kind: state, Instance: i})
	})
	c.services = servicesOf(account, c.st)
	return c, c.setUp()
}

// SetCluster changes what DescribeCluster shows from now on; a sandbox has its API
// server's endpoint and authority only after it has started it.
func (c *Cloud) SetCluster(cluster Cluster) error {
	if err := cluster.Validate(); err != nil {
		return err
	}
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.eks.SetCluster(cluster)
}

// ServeHTTP serves one AWS API request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := read(c.services, r)
	in.Params = in.digest()
	record := &Call{Time: c.account.Clock.Now(), Service: in.svc.name, Operation: in.Op, Key: in.Key, Dry: in.Dry, Params: clip(in.Params)}
	c.account.Lock()
	c.journal.record(record)
	in.id, in.record = record.ID, record
	c.account.Unlock()

	response, err := any(nil), in.broken
	if err == nil {
		response, err = c.serve(in)
	}
	c.account.Lock()
	record.finish(err)
	c.account.Unlock()
	c.wait(in.Gone, c.account.Delays.Response)
	if r.Context().Err() != nil {
		return // nobody listens any more
	}
	in.svc.write(w, in, response, err)
}

// serve takes a request through faults and checks to its operation. A fault
// that fails comes before the effect, unless it loses the response; a fault that delays
// comes after it, so that a caller may die in between.
func (c *Cloud) serve(in *call) (any, error) {
	f, err := c.admit(in)
	if err != nil {
		return nil, err
	}
	op, ok := in.svc.table.Operations[in.Op]
	if !ok {
		return nil, in.svc.unknown(in)
	}
	if err := in.check(op); err != nil {
		return nil, err
	}
	if err := in.require(); err != nil {
		return nil, err
	}
	if err := c.authorize(in); err != nil {
		return nil, err
	}
	if !in.Dry {
		c.wait(nil, op.Before)
	}
	response, err := c.run(op, in, f)
	c.wait(in.Gone, f.delay())
	if err == nil && f.lost() {
		return nil, f.failure(in.svc)
	}
	return response, err
}

func (c *Cloud) run(op api.Operation, in *call, f *fault) (any, error) {
	if !op.Unlocked {
		c.account.Lock()
		defer c.account.Unlock()
	}
	in.Now = c.account.Clock.Now()
	in.st, in.Extra = c.st, f.extra()
	if old := f.snapshot(); old != nil && op.Read {
		in.st = old
	}
	if in.Dry && op.Read {
		return nil, api.ErrDryRun()
	}
	response, err := in.st.tables()[in.svc.name]().Operations[in.Op].Run(&in.Call)
	if len(in.Launched) > 0 {
		in.record.Launched = in.Launched
	}
	return response, err
}

// wait lets d pass on the cloud's clock, or gone be closed; a nil gone waits
// in full.
func (c *Cloud) wait(gone <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	over := make(chan struct{})
	stop := c.account.Clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
	case <-gone:
	}
}
