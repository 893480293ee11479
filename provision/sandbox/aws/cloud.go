package aws

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Cloud is one emulated AWS account. It is an http.Handler and safe for
// concurrent use; all of its memory is behind one lock.
type Cloud struct {
	cfg      Config
	clock    Clock
	services map[string]service
	offers   *offers

	mu       sync.Mutex
	st       *state
	capacity capacity
	faults   []*fault
	journal  journal
	buckets  map[string]*bucket
	// restricted are the callers who may not do everything, by access key.
	restricted map[string]*restriction
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
	offers, err := newOffers(cfg)
	if err != nil {
		return nil, err
	}
	c := &Cloud{cfg: cfg, clock: cfg.Clock, offers: offers, buckets: map[string]*bucket{}, restricted: map[string]*restriction{}}
	c.services = c.table()
	c.st = newState(cfg, offers.zones)
	c.capacity.fleets = map[string]*fleetResponse{}
	return c, c.setUp()
}

// SetCluster changes what DescribeCluster shows from now on; a sandbox knows
// its API server's endpoint and authority only after it has started it.
func (c *Cloud) SetCluster(cluster Cluster) error {
	if err := cluster.validate(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cluster.Name != c.st.cluster.Name {
		return fmt.Errorf("changing cluster %q into %q: the name is fixed by the config", c.st.cluster.Name, cluster.Name)
	}
	c.st.cluster = cluster
	return nil
}

// ServeHTTP answers one AWS API request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in := c.read(r)
	in.params = in.digest()
	record := &Call{Time: c.clock.Now(), Service: in.svc.name, Operation: in.op, Key: in.key, Dry: in.dry, Params: clip(in.params)}
	c.mu.Lock()
	c.journal.record(record)
	in.id, in.record = record.ID, record
	c.mu.Unlock()

	answer, err := any(nil), in.broken
	if err == nil {
		answer, err = c.serve(in)
	}
	c.mu.Lock()
	record.finish(err)
	c.mu.Unlock()
	c.wait(in.gone, c.cfg.Delays.Response)
	if r.Context().Err() != nil {
		return // nobody listens any more
	}
	in.svc.write(w, in, answer, err)
}

// serve takes a request through faults and checks to its operation. A fault
// that fails comes before the effect, unless it loses the answer; a fault that
// delays comes after it, so that a caller may die in between.
func (c *Cloud) serve(in *call) (any, error) {
	f, err := c.admit(in)
	if err != nil {
		return nil, err
	}
	op, ok := in.svc.ops[in.op]
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
	if op.before != nil && !in.dry {
		c.wait(nil, op.before(c))
	}
	answer, err := c.run(op, in, f)
	c.wait(in.gone, f.delay())
	if err == nil && f.lost() {
		return nil, f.failure(in.svc)
	}
	return answer, err
}

func (c *Cloud) run(op operation, in *call, f *fault) (any, error) {
	if !op.unlocked {
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	in.now = c.clock.Now()
	in.st = c.st
	if old := f.snapshot(); old != nil && op.read {
		in.st = old
	}
	if in.dry && op.read {
		return nil, errDryRun()
	}
	return op.run(in)
}

// afterFunc has f run, with the lock held, once d has passed on the cloud's clock.
func (c *Cloud) afterFunc(d time.Duration, f func()) {
	c.clock.AfterFunc(d, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		f()
	})
}

// wait lets d pass on the cloud's clock, or gone be closed; a nil gone waits
// in full.
func (c *Cloud) wait(gone <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	over := make(chan struct{})
	stop := c.clock.AfterFunc(d, func() { close(over) })
	defer stop()
	select {
	case <-over:
	case <-gone:
	}
}
