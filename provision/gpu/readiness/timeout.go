package readiness

import (
	"time"

	"github.com/poolwright/poolwright/provision/gpu"
)

// maxExtensions bounds how often a node gets its whole time again because another
// plugin came: a plugin that is made anew all the time never advertises anything.
const maxExtensions = 3

// timeout is how long the node may take.
func (s *nodeView) timeout() time.Duration {
	if s.config.ReadyTimeout <= 0 {
		return defaultTimeout
	}
	return s.config.ReadyTimeout
}

// warnAfter is how much of its time a node has left when it is reported as
// late: people may mend what it waits for before it is replaced.
func (s *nodeView) warnAfter() time.Duration { return s.timeout() / 2 }

// deadline is when a node must advertise its GPUs that registered at one time, and
// of which this process has a history.
//
// Its time begins when the plugin could come: with its registration, or with a
// DaemonSet that is younger or was made for something else before; without a
// DaemonSet, with this process's first observation. A plugin of another revision has the
// whole time, too, since it may be what mends the first, up to a bound.
//
// And every process watches a node for a while before it concludes: the one that
// follows an outage of the API server finds nodes that had no way to start. Where
// the plugin's pod came only after the first observation, that while is the whole time.
// It is not given again by a process that starts later, which finds the pod there.
func (s *nodeView) deadline(registered time.Time, past nodeTimes) time.Time {
	timeout := s.timeout()
	begin := registered
	watch := min(grace, timeout)
	if !HasBuiltinPlugin(s.node) {
		begin = latest(begin, past.applied, s.installed(past.firstObserved))
		if s.plugin != nil && s.plugin.CreationTimestamp.After(past.firstObserved) {
			watch = timeout
		}
	}
	again := latest(begin, past.revised, s.pluginCreated())
	due := again.Add(timeout)
	if bound := begin.Add(maxExtensions * timeout); due.After(bound) {
		due = bound
	}
	return latest(due, past.firstObserved.Add(watch))
}

// driverDue is when a node of the DRA driver is reported that lacks devices since some time.
func (s *nodeView) driverDue(since time.Time) time.Time {
	return latest(s.node.CreationTimestamp.Add(s.timeout()), since.Add(grace))
}

// installed is when the DaemonSet was created.
func (s *nodeView) installed(firstObserved time.Time) time.Time {
	if s.set == nil {
		return firstObserved
	}
	return s.set.CreationTimestamp.Time
}

// pluginCreated is when the declared plugin's pod was created; zero while it is not there.
func (s *nodeView) pluginCreated() time.Time {
	if s.plugin == nil || !s.health.Current {
		return time.Time{}
	}
	return s.plugin.CreationTimestamp.Time
}

// pluginUpdateUntil is until when the node's plugin is being replaced by the update, which does
// not mean that it fails; zero when it is not.
func (s *nodeView) pluginUpdateUntil() time.Time {
	record := gpu.ReadPluginUpdate(s.node.Annotations)
	if record == (gpu.PluginUpdate{}) || record.Stopped {
		return time.Time{}
	}
	return record.Time.Add(s.timeout())
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}
