package rollout

import (
	"context"
	"errors"
	gosync "sync"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

const (
	// batchDelay is how long after a change nodes are read: changes come together.
	batchDelay = time.Second
	// pollInterval is the least time between two readings of nodes and pods, of which a cluster has many, and
	// slowInterval the one between them once a roll-out takes longer than slowAfter. While nothing changes by then, it
	// doubles up to maxInterval: what is blocked may stay so for days.
	pollInterval = 10 * time.Second
	slowInterval = time.Minute
	slowAfter    = 10 * time.Minute
	maxInterval  = 10 * time.Minute
	// stabilizationWindow is the least time between the two readings that find the end of a roll-out. What AWS finds for an
	// EC2NodeClass, Karpenter compares with each NodeClaim by itself, after the class is Ready.
	stabilizationWindow = time.Minute
)

// Poller reads, while the roll-out of a Sync is under way, which nodes are yet to be replaced. A nil Poller sets no
// condition.
type Poller struct {
	read  func(ctx context.Context) (nodeReplacements, error)
	label func(sync string) string
	clock clock.Clock
	log   logr.Logger
	// requested has an element where nodes are to be read sooner.
	requested chan struct{}
	last      time.Time

	notify func(types.NamespacedName)

	mu    gosync.Mutex
	syncs map[types.NamespacedName]*syncProgress
	// removed are the values of the label of the Syncs that have deleted a pool, by the pool's name.
	removed map[string]string
}

// NewPoller makes a Poller. All fields of the Config are needed.
func NewPoller(cfg Config) *Poller {
	return &Poller{
		read: cfg.read, label: cfg.LabelValue, clock: cfg.Clock, log: cfg.Log,
		requested: make(chan struct{}, 1), syncs: map[types.NamespacedName]*syncProgress{}, removed: map[string]string{}, notify: func(types.NamespacedName) {},
	}
}

// AddTo puts the Poller on a manager, with what is called with the name of each Sync whose condition becomes another.
func (p *Poller) AddTo(mgr manager.Manager, notify func(types.NamespacedName)) error {
	if p == nil {
		return nil
	}
	p.notify = notify
	return mgr.Add(p)
}

// Start polls until ctx ends. It implements manager.Runnable, and so runs for the leader only.
func (p *Poller) Start(ctx context.Context) error {
	var next <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.requested:
			select {
			case <-ctx.Done():
				return nil
			case <-p.clock.After(max(batchDelay, p.last.Add(pollInterval).Sub(p.clock.Now()))):
			}
		case <-next:
		}
		next = nil
		if after := p.poll(ctx); after > 0 {
			next = p.clock.After(after)
		}
	}
}

// Drop ends the roll-out of a Sync that is gone, or suspended.
func (p *Poller) Drop(sync types.NamespacedName) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.syncs, sync)
}

// invalidate has what was found of a Sync not count for its next revision.
func (p *Poller) invalidate(sync types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(sync).own = false
}

// removedBy takes in that a Sync has deleted what may be a pool: its nodes are then those of that Sync.
func (p *Poller) removedBy(sync types.NamespacedName, deleted state.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if deleted.Kind == "NodePool" {
		p.removed[deleted.Name] = p.label(sync.Name)
	}
}

// require has the nodes of a Sync read. With restart, what was found before does not count any more.
func (p *Poller) require(sync types.NamespacedName, restart bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := *p.of(sync)
	if restart {
		now.restart(p.clock.Now())
	} else {
		now.requests++
		now.clean = time.Time{}
		now.require(p.clock.Now())
		// What has just changed is read as often as what begins.
		now.since = p.clock.Now()
	}
	p.store(sync, &now)
}

// of is the progress of a Sync.
func (p *Poller) of(sync types.NamespacedName) *syncProgress {
	now := p.syncs[sync]
	if now == nil {
		now = &syncProgress{}
		p.syncs[sync] = now
	}
	return now
}

// store has the progress of a Sync become another, nil for none, and nodes read soon where that requests it.
func (p *Poller) store(sync types.NamespacedName, progress *syncProgress) {
	if progress == nil {
		delete(p.syncs, sync)
		return
	}
	before := p.of(sync)
	p.syncs[sync] = progress
	if !progress.required || before.required && before.requests == progress.requests {
		return
	}
	select {
	case p.requested <- struct{}{}:
	default:
	}
}

// poll reads the nodes once, if they have to be, and returns after what time to read them again; 0 is never.
func (p *Poller) poll(ctx context.Context) time.Duration {
	begun := p.begin()
	if len(begun) == 0 {
		return 0
	}
	p.last = p.clock.Now()
	found, err := p.read(ctx)
	if ctx.Err() != nil {
		return 0
	}
	if err != nil {
		p.log.Error(err, "Finding the nodes that are to be replaced, trying again", "after", slowInterval)
	}
	found.removed = p.removed
	changed, next := p.end(begun, found, err)
	for _, sync := range changed {
		p.notify(sync)
	}
	return next
}

// begin returns how often the nodes of each Sync of which they are to be read were requested.
func (p *Poller) begin() map[types.NamespacedName]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[types.NamespacedName]int{}
	for name, now := range p.syncs {
		if now.required {
			out[name] = now.requests
		}
	}
	return out
}

// end takes in what was read for the requests that had begun before, and returns the Syncs of which another result is
// known now, and after what time to read again.
func (p *Poller) end(begun map[types.NamespacedName]int, found nodeReplacements, err error) (changed []types.NamespacedName, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := func(after time.Duration) {
		if next == 0 || after < next {
			next = after
		}
	}
	for name, requests := range begun {
		now := p.syncs[name]
		switch {
		case now == nil || !now.required:
			continue
		case now.requests != requests:
			again(pollInterval) // What was read may be of before.
			continue
		case err != nil:
			again(slowInterval)
			// What was found before stays the condition.
			failed := result{metav1.ConditionUnknown, fluxmeta.ProgressingWithRetryReason, readFailure(err)}
			if now.failed != failed && now.found == (result{}) {
				changed = append(changed, name)
			}
			now.failed = failed
			continue
		}
		before := *now
		now.found, now.own, now.reset, now.failed = p.stabilized(now, found.of(p.label(name.Name)), found.isOlder(p.label(name.Name), now.since)), true, false, result{}
		now.required = !now.found.over()
		if now.left, _ = found.left(p.label(name.Name)); now.left != before.left {
			now.changed = p.clock.Now()
		}
		if now.found != before.found {
			now.changed = p.clock.Now()
			changed = append(changed, name)
		}
		if now.required {
			again(p.nextReading(now))
		}
	}
	return changed, next
}

// nextReading is after what time the nodes of a Sync are read again.
func (p *Poller) nextReading(now *syncProgress) time.Duration {
	switch {
	case !now.clean.IsZero():
		return max(pollInterval, now.clean.Add(stabilizationWindow).Sub(p.clock.Now()))
	case now.found.reason == noCluster:
		return slowInterval // Without nodes and pods, that is little to read.
	case p.clock.Since(now.since) < slowAfter:
		return pollInterval
	}
	// As long as nothing has changed, which doubles the time from one reading to the next.
	slow := now.since.Add(slowAfter)
	if now.changed.After(slow) {
		slow = now.changed
	}
	return min(max(slowInterval, p.clock.Since(slow)), maxInterval)
}

// stabilized is what the last reading has found: an end only where it is the second one of that, was known before, or there is
// no node that Karpenter may be yet to mark.
func (p *Poller) stabilized(now *syncProgress, found result, older bool) result {
	switch {
	case !found.over():
		now.clean = time.Time{}
	case !older, now.found.over(), !now.clean.IsZero() && p.last.Sub(now.clean) >= stabilizationWindow:
		now.clean = time.Time{}
	default:
		if now.clean.IsZero() {
			now.clean = p.clock.Now()
		}
		return stabilizing
	}
	return found
}

// readFailure is why nodes cannot be read, for a message that is the same each time: the text of an error may have a port.
func readFailure(err error) string {
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) || refused.Status().Reason == metav1.StatusReasonUnknown {
		return "the nodes cannot be read: the controller's log has the error"
	}
	what := "what runs in the cluster"
	if details := refused.Status().Details; details != nil && details.Kind != "" {
		what = details.Kind
	}
	return "reading " + sanitize.Text(what) + ": " + sanitize.Text(string(refused.Status().Reason))
}
