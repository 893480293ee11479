// Package collector records the history of a cluster while this replica leads: it observes NodeClaims, Nodes and pods in the
// manager's cache, takes in the results of Syncs, and has package store write what is new.
//
// It refuses to hold anything up: what cannot be written is written later, a Sync does not wait for it, and a termination for two
// seconds at most, so that one may be carried out before it is recorded. It ends where it fails, and nothing with it. It sends no request while nothing happens and no node runs. Start reading at Collector.
package collector

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
	"github.com/poolwright/poolwright/reconciler/history/store"
)

const (
	// sampleInterval is how often nodes and pods are observed.
	sampleInterval = 5 * time.Second
	// changeDelay is how long a write waits for more changes, and sumDelay how long it waits where only sums
	// grow. What a process that ends has not written of the sums is not observed: five minutes at most, until the next
	// leader has begun.
	changeDelay = 5 * time.Second
	sumDelay    = 4 * time.Minute
	// slowBytes is by how many bytes of the State changeDelay grows by itself: what takes long to write is written less often. A State
	// of more than largeBytes is not written for each termination either.
	slowBytes  = 64 << 10
	largeBytes = 256 << 10
	// refusedDelay is how long nothing is written after a write that the API server does not allow.
	refusedDelay = 4 * time.Minute
	// logInterval is how often a failure is logged.
	logInterval = time.Minute
	// requestTimeout bounds an observation with its write, and goneTimeout the part in which NodeClaims are read past the cache.
	requestTimeout = 10 * time.Second
	goneTimeout    = 4 * time.Second
	// terminationTimeout is how long a termination waits until it is recorded.
	terminationTimeout = 2 * time.Second
	// maxQueued is how much is taken in between two observations, and maxUnread how much of it is kept where the history cannot
	// be read.
	maxQueued = 4096
	maxUnread = 256
)

// Config is what a Collector works with. All fields are needed but Offerings.
type Config struct {
	// Cached reads the objects of the cluster, best from a cache.
	Cached client.Reader
	// Live reads past every cache, and writes only while this replica leads.
	Live client.Client
	// Namespace has the ConfigMaps of the history, and the Syncs.
	Namespace string
	// Offerings has the prices that AWS returned; may be nil, and return nil.
	Offerings func() *pricelist.List
	// Nodes is true where this process provisions nodes, and so observes them.
	Nodes bool
	// Registry gets the metrics.
	Registry prometheus.Registerer
	Clock    clock.WithTicker
	Log      logr.Logger
}

// Collector records the history of a cluster. Make one with New, and put it on a manager. What it is given before it is on one
// is kept until then.
type Collector struct {
	cfg    Config
	types  *catalog.Catalog
	writer *store.Store
	series *metrics

	mu sync.Mutex
	// queued is what is to be done with the State, in order.
	queued []func(*recorder.State)
	// interruptions are the last reasons for which Karpenter reported an interruption, by the UID of the NodeClaim.
	interruptions map[string]history.Reason
	// recorded are the NodeClaims whose termination was recorded.
	recorded map[string]bool

	// off is true after a failure of the program: nothing is recorded any more by this process.
	off atomic.Bool
	// leads is true from the time on at which this replica leads.
	leads atomic.Bool
	// flushes are those that wait for a write.
	flushes chan chan<- error
	// state is that of the goroutine of Start; nil before it is loaded.
	state *recorder.State
	// present are the NodeClaims of the last observation, and missing those that were not in the one before.
	present, missing map[string]bool
	attempts
	// ending is true for the last write.
	ending bool
	// prices are those of AWS, as they were read last.
	prices   *pricelist.List
	pricesAt time.Time
}

// attempts are when something was written last, and when a failure was logged.
type attempts struct {
	saved, logged time.Time
	// refused is when the API server last did not allow a write; zero where it allowed the last one.
	refused time.Time
}

// New returns a Collector that is on no manager yet: see AddTo.
func New(log logr.Logger) *Collector {
	return &Collector{
		cfg: Config{Log: log, Clock: clock.RealClock{}}, interruptions: map[string]history.Reason{}, recorded: map[string]bool{},
		flushes: make(chan chan<- error),
	}
}

// AddTo puts the Collector on a manager, with what it works with. It runs on the leader.
func (c *Collector) AddTo(mgr manager.Manager, cfg Config) error {
	if err := c.configure(cfg); err != nil {
		return err
	}
	if cfg.Nodes {
		if err := c.follow(mgr); err != nil {
			return err
		}
	}
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("registering the history: %w", err)
	}
	return nil
}

func (c *Collector) configure(cfg Config) error {
	types, err := catalog.Load()
	if err != nil {
		return err
	}
	series, err := newMetrics(cfg.Registry)
	if err != nil {
		return err
	}
	c.cfg, c.types, c.series = cfg, types, series
	c.writer = &store.Store{Kube: cfg.Live, Namespace: cfg.Namespace}
	return nil
}

// follow takes in the last state of NodeClaims that are gone.
func (c *Collector) follow(mgr manager.Manager) error {
	informer, err := mgr.GetCache().GetInformer(context.Background(), &karpv1.NodeClaim{})
	if err != nil {
		return fmt.Errorf("watching NodeClaims: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		if claim, ok := object.(*karpv1.NodeClaim); ok { // Else it is not known when it went.
			c.deleted(claim)
		}
	}})
	if err != nil {
		return fmt.Errorf("watching NodeClaims: %w", err)
	}
	return nil
}

// Start implements manager.Runnable.
func (c *Collector) Start(ctx context.Context) error {
	c.leads.Store(true)
	ticks := c.cfg.Clock.NewTicker(sampleInterval)
	defer ticks.Stop()
	for {
		c.step(ctx, nil)
		if c.off.Load() {
			return nil
		}
		select {
		case <-ctx.Done():
			// The lease is given back after this, so that the write is not refused.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminationTimeout)
			defer cancel()
			c.ending = true
			c.step(last, nil)
			c.step(last, []chan<- error{make(chan error, 1)})
			return nil
		case <-ticks.C():
		case first := <-c.flushes:
			c.step(ctx, c.waiting(first))
		}
	}
}

// waiting are all that wait for a write now: one is enough for them.
func (c *Collector) waiting(first chan<- error) []chan<- error {
	all := []chan<- error{first}
	for {
		select {
		case another := <-c.flushes:
			all = append(all, another)
		default:
			return all
		}
	}
}

// step observes, and writes where that is due; where somebody waits for a write, it writes what was queued at once. A failure is
// tried again at the next step.
func (c *Collector) step(ctx context.Context, waiting []chan<- error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.attempt(ctx, len(waiting) > 0)
	if now := c.cfg.Clock.Now(); err != nil && !errors.Is(err, errPostponed) && (c.logged.IsZero() || now.Sub(c.logged).Abs() >= logInterval) {
		after := sampleInterval
		if c.waits() {
			after = refusedDelay
		}
		c.cfg.Log.Error(err, "The history could not be recorded, trying again", "after", after)
		c.logged = now
	}
	for _, one := range waiting {
		one <- err
	}
}

// errPostponed is that a State is too large to be written at once.
var errPostponed = errors.New("the history is written later")

// attempt is a step that ends whatever happens.
func (c *Collector) attempt(ctx context.Context, write bool) error {
	defer c.guard()
	if err := c.load(ctx); err != nil {
		c.mu.Lock()
		c.queued = slices.Clone(c.queued[max(0, len(c.queued)-maxUnread):])
		c.mu.Unlock()
		return err
	}
	if write {
		c.drain()
		if (c.writer.Bytes() > largeBytes && c.age() < c.changeDelay() || c.waits()) && !c.ending {
			return errPostponed
		}
		return c.save(ctx)
	}
	err := c.observe(ctx)
	if c.due() && !c.waits() {
		err = errors.Join(err, c.save(ctx))
	}
	return err
}

// guard is deferred by whatever works on the history: a failure of the program ends the records, and nothing else.
func (c *Collector) guard() {
	if v := recover(); v != nil {
		c.off.Store(true)
		c.cfg.Log.Error(fmt.Errorf("%v", v), "The history failed, and is not recorded any more until this process ends", "stack", string(debug.Stack()))
	}
}

// age is for how long nothing was written; after a step of the clock backwards, for long enough.
func (c *Collector) age() time.Duration {
	if age := c.cfg.Clock.Now().Sub(c.saved); age >= 0 {
		return age
	}
	return sumDelay
}

// changeDelay is how long a write waits for more changes.
func (c *Collector) changeDelay() time.Duration {
	return changeDelay * time.Duration(1+c.writer.Bytes()/slowBytes)
}

// due reports whether the State is to be written.
func (c *Collector) due() bool {
	age := c.age()
	return c.state.Changed() && age >= c.changeDelay() || len(c.state.Open()) > 0 && age >= sumDelay
}

// waits reports whether the API server did not allow a write, so that one more cannot help before a person has changed that.
func (c *Collector) waits() bool {
	return !c.refused.IsZero() && c.cfg.Clock.Now().Sub(c.refused).Abs() < refusedDelay
}

// load reads what is recorded, where that was not read yet.
func (c *Collector) load(ctx context.Context) error {
	if c.state != nil {
		return nil
	}
	loaded, err := c.writer.Load(ctx, c.series.add)
	if err != nil {
		return err
	}
	c.state, c.saved = loaded, c.cfg.Clock.Now()
	return nil
}

// observe takes in what was queued, and what is in the cache.
func (c *Collector) observe(ctx context.Context) error {
	if err := c.observePullRequests(ctx); err != nil {
		return err
	}
	if !c.cfg.Nodes {
		c.drain()
		c.state.Observe(c.cfg.Clock.Now(), nil)
		return nil
	}
	observed, err := c.nodeClaims(ctx)
	if err != nil {
		return err
	}
	// What was deleted before the list was read is not in it, and was queued before.
	c.drain()
	now := c.cfg.Clock.Now()
	c.state.Observe(now, observed.claims)
	c.present = observed.present
	c.series.retain(observed.paid)
	c.deleteGone()
	return c.gone(ctx)
}

// drain does what was queued.
func (c *Collector) drain() {
	c.mu.Lock()
	queued := c.queued
	c.queued = nil
	c.mu.Unlock()
	for _, take := range queued {
		take(c.state)
	}
}

// queue has something done with the State. It does not wait for that.
func (c *Collector) queue(take func(*recorder.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queued) < maxQueued && !c.off.Load() {
		c.queued = append(c.queued, take)
	}
}

// save writes the State. Where another has written it meanwhile, what only the other has is taken over.
func (c *Collector) save(ctx context.Context) error {
	// What is not observed may be present.
	present := func(uid string) bool { return c.present == nil || c.present[uid] }
	err := c.writer.Save(ctx, c.state, present)
	if store.IsConflict(err) {
		// This State has all sums that were added since it was read: it stays.
		other, loadErr := c.writer.Load(ctx, nil)
		if loadErr != nil {
			return errors.Join(err, loadErr)
		}
		c.state.Absorb(other)
		err = c.writer.Save(ctx, c.state, present)
	}
	c.refused = time.Time{}
	switch {
	case err == nil:
		c.saved = c.cfg.Clock.Now()
	case store.IsRefused(err):
		c.refused = c.cfg.Clock.Now()
	}
	return err
}

// flush waits until all that was queued is written, or the context ends.
func (c *Collector) flush(ctx context.Context) error {
	written := make(chan error, 1)
	select {
	case c.flushes <- written:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
