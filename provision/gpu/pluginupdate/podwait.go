package pluginupdate

import (
	"slices"
	"time"
)

const (
	// pendingPodsTimeout is how long a pool's update waits for pods that wait for its GPUs. A
	// pod that has waited for so long waits for something else: room that the pool's
	// limits do not allow, a volume, a zone. The new plugin, which may mend a fault
	// in the old one, must not wait for it for ever.
	pendingPodsTimeout = time.Hour
	// recheckInterval is when waiting pods, which no watch reports, are read again;
	// idleInterval is when they are after fresh, because to read them is to list all
	// pending pods of the cluster past every cache.
	recheckInterval = 10 * time.Second
	idleInterval    = time.Minute
	recentWait      = 5 * time.Minute
)

// podWait is that a pool's update waits for pods. It is this process's own
// observation, on this machine's clock; after a restart the wait begins anew.
type podWait struct {
	since time.Time
	// why is the state's text meanwhile.
	why string
	// again is until when the pods are not read again; zero for as soon as anything
	// happens.
	again time.Time
}

// rests reports that the pool's pods need not be read again yet, and notes what it
// waits for.
func (r *Updater) rests(s *decision, m *member, now time.Time) bool {
	p, known := r.pauses[m.pool]
	if !known || !now.Before(p.again) {
		return false
	}
	s.pendingPods[m.pool] = p.why
	s.requeueAfter(p.again.Sub(now))
	return true
}

// wait has a pool wait for pods, and is false once it has done so for long enough:
// then one of its nodes may go on all the same, and the next one waits anew.
func (r *Updater) wait(s *decision, m *member, pods *tally, now time.Time) bool {
	p, known := r.pauses[m.pool]
	if !known {
		p.since = now
	}
	ends := p.since.Add(pendingPodsTimeout)
	if !now.Before(ends) {
		return false
	}
	p.why = "waits: " + pods.who("waits for GPUs", "wait for GPUs") + "; goes on with one node at " + ends.UTC().Format("15:04 MST")
	every := recheckInterval
	if p.again = (time.Time{}); now.Sub(p.since) >= recentWait {
		every = idleInterval
		p.again = now.Add(min(every, ends.Sub(now)))
	}
	r.pauses[m.pool] = p
	s.pendingPods[m.pool] = p.why
	s.requeueAfter(min(every, ends.Sub(now)))
	return true
}

// endPauses ends the pauses of pools that have no node to come.
func (r *Updater) endPauses(s *decision) {
	for pool := range r.pauses {
		if !slices.ContainsFunc(s.queue, func(m *member) bool { return m.pool == pool }) {
			delete(r.pauses, pool)
		}
	}
}
