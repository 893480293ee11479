package pluginupdate

import (
	"fmt"

	"github.com/poolwright/poolwright/provision/gpu"
)

// states has, for each pool with plugins to replace, how far that is.
func (s *decision) states(f gpuNodes) map[string]string {
	members, out := map[string][]*member{}, map[string]string{}
	for _, m := range f {
		members[m.pool] = append(members[m.pool], m)
	}
	for pool, all := range members {
		replaced := 0
		for _, m := range all {
			if s.replaced(m) {
				replaced++
			}
		}
		if replaced == len(all) {
			continue
		}
		out[pool] = fmt.Sprintf("%d of %d plugins replaced", replaced, len(all))
		if why := s.why(pool, all); why != "" {
			out[pool] += "; " + why
		}
	}
	return out
}

// replaced reports that nothing is left to do about a node, or known to be. One
// whose first plugin has yet to come is no matter of an update.
func (s *decision) replaced(m *member) bool {
	switch {
	case m.set == nil:
		return true
	case m.old(), m.record != (gpu.PluginUpdate{}) && !m.available():
		return false
	}
	return m.others == 0 || m.idle()
}

// why is what a pool's update does, or what it waits for.
func (s *decision) why(pool string, all []*member) string {
	if m := s.middle; m != nil && s.stopped {
		return fmt.Sprintf("stopped: %s does not advertise its GPUs with the new plugin: %s", name(m, pool), m.reason())
	} else if m != nil {
		return "waits for the new plugin of " + name(m, pool)
	}
	for _, m := range s.queue {
		if m.pool == pool {
			return s.whyQueued(m)
		}
	}
	return s.whyNotQueued(all)
}

// whyQueued is about the first of a pool's nodes to come.
func (s *decision) whyQueued(m *member) string {
	if s.next == nil || s.next.pool != m.pool {
		for _, why := range []string{s.pendingPods[m.pool], s.reasons[m.config.Name]} {
			if why != "" {
				return why
			}
		}
	}
	if s.next == nil {
		return "waits for " + name(s.queue[0], m.pool)
	}
	return "replaces the plugin of " + name(s.next, m.pool)
}

// whyNotQueued is about a pool none of whose nodes is to come: somebody else has to
// act first, or nobody has to wait.
func (s *decision) whyNotQueued(all []*member) string {
	away := 0
	for _, m := range all {
		switch {
		case s.replaced(m):
		case m.idle() && m.node.DeletionTimestamp.IsZero():
			return s.whyIdle(m)
		case m.reachable():
			return "waits for the DaemonSet controller on node " + m.node.Name
		default:
			away++
		}
	}
	return fmt.Sprintf("waits: %d not ready, cordoned or going", away)
}

// whyIdle is about a node that is starting.
func (s *decision) whyIdle(m *member) string {
	switch {
	case m.old() && !m.observed():
		return s.reasons[m.config.Name]
	case s.pendingPods[m.pool] != "":
		return s.pendingPods[m.pool]
	}
	return "replaces those of nodes that are starting"
}

// name is a node's name, with its pool where that is another than the one in question.
func name(m *member, pool string) string {
	if m.pool == pool {
		return "node " + m.node.Name
	}
	return fmt.Sprintf("node %s of pool %s", m.node.Name, m.pool)
}
