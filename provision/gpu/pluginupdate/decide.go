package pluginupdate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/gpu"
)

// decision is what there is to do now. Everything in it but next affects no pod.
type decision struct {
	// lower are nodes that have more recorded than is coming.
	lower []*member
	// done are nodes whose new plugin is available.
	done []*member
	// late are nodes whose new plugin is out of time, which was not reported yet.
	late []*member
	// idle are nodes with an old plugin and no pod that it matters to.
	idle []*member
	// able are the nodes of which one may have its plugin replaced while pods use
	// it, unless pods wait for its GPUs: the first of each pool, in order. None while
	// others must come to rest first.
	able []*member
	// next is the one of them that is taken.
	next *member
	// middle is the node that all wait for, or nil; stopped is true where it is out of
	// time.
	middle  *member
	stopped bool
	// queue are all nodes to come, in their order.
	queue []*member
	// reasons are, by configuration, why its working plugins may not be touched.
	reasons map[string]string
	// pendingPods has, by pool, which pods wait for GPUs.
	pendingPods map[string]string
	// again is when to decide again though nothing happens; zero for never.
	again time.Duration
}

// decide is the whole update: what to do about the nodes at a moment.
func decide(f gpuNodes, now time.Time) *decision {
	s := &decision{reasons: map[string]string{}, pendingPods: map[string]string{}}
	var astray []*member
	for _, m := range f {
		marked := m.record != (gpu.PluginUpdate{})
		if m.capacityTooHigh() {
			s.lower = append(s.lower, m)
		}
		if marked && m.available() {
			s.done = append(s.done, m)
			marked = false
		}
		switch {
		case m.set == nil, !m.node.DeletionTimestamp.IsZero():
		case m.idle():
			if m.old() && m.observed() {
				s.idle = append(s.idle, m)
			}
		case !m.reachable(): // nobody waits for it; it has its turn when it is back
		case m.old():
			s.queue = append(s.queue, m)
		case marked:
			s.inTheMiddle(m, now)
		case !m.agrees():
			astray = append(astray, m)
		}
	}
	slices.SortFunc(s.queue, before)
	s.decideNext(f, astray, now)
	s.choose()
	return s
}

// before orders the nodes to come: one that is already marked, whose plugin is
// about to go or failed at an earlier revision; one whose GPUs are of no use as
// they are; then the oldest plugin.
func before(a, b *member) int {
	rank := func(m *member) int {
		switch {
		case m.record != (gpu.PluginUpdate{}):
			return 0
		case !m.works():
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.created().Compare(b.created()), cmp.Compare(a.node.Name, b.node.Name))
}

// inTheMiddle notes a node whose old plugin is gone and whose new one is not
// available yet.
func (s *decision) inTheMiddle(m *member, now time.Time) {
	left := m.since().Add(m.timeout()).Sub(now)
	stopped := left <= 0 && !m.agrees()
	switch {
	case m.agrees():
		s.requeueAfter(minReady - m.agreed)
	case !stopped:
		s.requeueAfter(left)
	case !m.record.Stopped || m.record.Hash != m.pluginHash():
		s.late = append(s.late, m)
	}
	// A stop is what must be reported; otherwise the first one by name is as good as any
	// other.
	if s.middle == nil || stopped && !s.stopped {
		s.middle, s.stopped = m, stopped
	}
}

// decideNext finds what keeps working plugins of each configuration from being replaced.
//
// Nodes that do not advertise what they should, for whatever reason, use up the budget
// of their configuration, which is one: what broke them (a driver, a configuration, the
// new plugin itself) is likely to break the next one too, and the configuration's pods
// have less to go to already. Of other configurations only a plugin that has just come
// counts, because that may well be the same change: a GPU that is broken for good
// must not keep the whole cluster from an upgrade.
func (s *decision) decideNext(f gpuNodes, astray []*member, now time.Time) {
	for _, m := range f {
		if m.set == nil {
			continue
		}
		if set := m.set; !m.observed() {
			s.setReason(m.config.Name, fmt.Sprintf("waits: the DaemonSet controller has not observed DaemonSet %s/%s yet", set.Namespace, set.Name))
		}
	}
	for _, m := range astray {
		reason := fmt.Sprintf("waits: node %s does not advertise its GPUs: %s", m.node.Name, m.reason())
		s.setReason(m.config.Name, reason)
		young := m.timeout() - now.Sub(m.created())
		if young <= 0 { // or there is no plugin at all
			continue
		}
		s.requeueAfter(young)
		for _, other := range f {
			s.setReason(other.config.Name, reason)
		}
	}
}

// setReason keeps the first reason.
func (s *decision) setReason(config, reason string) {
	if s.reasons[config] == "" {
		s.reasons[config] = reason
	}
}

// choose finds the nodes that may be next. A node that is marked goes before all
// others may. Nodes of one pool are so alike that the first stands for all of them
// when it comes to pods that wait; where pods would be affected it matters who uses each.
func (s *decision) choose() {
	if s.middle != nil {
		return
	}
	pools := map[string]bool{}
	for _, m := range s.queue {
		// A plugin that does not work is no loss, so it waits for nobody who is
		// broken too: replacing it may be the cure.
		free := s.reasons[m.config.Name] == "" || !m.works() && m.observed()
		if free && !pools[m.pool] {
			pools[m.pool] = m.podImpact() == ""
			s.able = append(s.able, m)
		}
		if m.record != (gpu.PluginUpdate{}) {
			return
		}
	}
}

func (s *decision) requeueAfter(d time.Duration) {
	if s.again == 0 || d < s.again {
		s.again = max(d, time.Second)
	}
}
