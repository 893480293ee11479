// Package repairbackoff stands between Karpenter's disruption controller and its method for unhealthy nodes, and bounds
// over time how many nodes of a NodePool are replaced to no effect: a driver that fails some minutes after each start
// must not replace one node after another.
//
// What is counted, and when that backs a pool off, is package noderepair's, whose Backoff is kept in an annotation of the
// NodePool: so it outlasts a restart and a new leader, and a person may end a back-off by removing it.
//
// What it refuses: to repair a node before the repair is recorded, or while the NodePool cannot be read. That keeps the nodes
// of this NodePool only: Karpenter's controller gets no error for it, with which it would disrupt nothing in the whole
// cluster. Start reading at Decorate.
package repairbackoff

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	disruptionevents "sigs.k8s.io/karpenter/pkg/controllers/disruption/events"
	"sigs.k8s.io/karpenter/pkg/events"

	"github.com/poolwright/poolwright/provision/backoff"
	"github.com/poolwright/poolwright/provision/noderepair"
)

// Config is what a decorated method works with. All fields are needed.
type Config struct {
	// Live reads NodePools past every cache, since what was written a moment ago counts.
	Live client.Reader
	// Writer patches NodePools.
	Writer client.Writer
	// Clock is the engine's.
	Clock clock.PassiveClock
	// Recorder is the engine's.
	Recorder events.Recorder
	// Release takes back places of a static pool's node limit that a command had reserved for its replacement.
	Release func(nodePool string, count int64)
}

// Decorate returns inner, Karpenter's method for unhealthy nodes, for the nodes of pools that are not backed off.
func Decorate(inner disruption.Method, cfg Config) disruption.Method {
	return &method{inner, cfg}
}

type method struct {
	disruption.Method
	cfg Config
}

// SetNodePoolTotals implements disruption.NodePoolTotalsSetter for an inner that does.
func (m *method) SetNodePoolTotals(totals map[string]disruption.NodePoolTotals) {
	if setter, ok := m.Method.(disruption.NodePoolTotalsSetter); ok {
		setter.SetNodePoolTotals(totals)
	}
}

// pools are the NodePools of the candidates by name, without those that are gone, and those that could not be read or written:
// of these no node is repaired in this pass.
type pools map[string]*pool

// pool is a NodePool as it was read or written last.
type pool struct {
	*karpv1.NodePool
	backoff noderepair.Backoff
}

// ComputeCommands implements disruption.Method. It records the repairs of the commands before it returns them.
func (m *method) ComputeCommands(ctx context.Context, budgets map[string]int, candidates ...*disruption.Candidate) ([]disruption.Command, error) {
	now := m.cfg.Clock.Now()
	all := m.read(ctx, candidates, now)
	first, others := all.split(candidates, now)
	m.observe(ctx, all, first, now)
	commands, err := m.compute(ctx, budgets, all, first, now)
	if err != nil || len(commands) > 0 {
		return commands, err
	}
	return m.compute(ctx, budgets, all, others, now)
}

// split returns which candidates go first. Where a repair was counted that was not done, since its command was dropped or its
// replacement not launched, it is the only one of its NodePool: otherwise the same back-off would be counted for others, without a
// repair. Where Karpenter cannot repair it, others follow, but none that would begin a back-off.
func (all pools) split(candidates []*disruption.Candidate, now time.Time) (first, others []*disruption.Candidate) {
	counted := map[*pool]bool{}
	for _, c := range candidates {
		if p, ok := all[c.NodePool.Name]; ok && p.backoff.Counted(c.NodeClaim, now) {
			counted[p] = true
		}
	}
	for _, c := range candidates {
		p, ok := all[c.NodePool.Name]
		switch {
		case !ok:
		case !counted[p] || p.backoff.Counted(c.NodeClaim, now):
			first = append(first, c)
		case !p.backoff.Observe(c.NodeClaim, c.Node, now).Active(now):
			others = append(others, c)
		}
	}
	return first, others
}

// observe backs off the NodePools whose replacements fail.
func (m *method) observe(ctx context.Context, all pools, candidates []*disruption.Candidate, now time.Time) {
	for _, c := range candidates {
		p, ok := all[c.NodePool.Name]
		if !ok {
			continue
		}
		is := p.backoff.Observe(c.NodeClaim, c.Node, now)
		if !is.Active(now) || p.backoff.Active(now) {
			continue
		}
		if err := m.write(ctx, p, is); err != nil {
			m.refuse(ctx, all, p.Name, candidates, err)
		}
	}
	for _, c := range candidates {
		if p, ok := all[c.NodePool.Name]; ok && p.backoff.Active(now) {
			m.cfg.Recorder.Publish(blocked(c, p)...)
		}
	}
}

// compute returns inner's commands that are recorded. It takes another turn where none of them could be, since Karpenter has
// one command for all NodePools.
func (m *method) compute(ctx context.Context, budgets map[string]int, all pools, candidates []*disruption.Candidate, now time.Time) ([]disruption.Command, error) {
	// A command that is not recorded takes its NodePool out of all, so that each turn is of fewer.
	for range len(all) + 1 {
		open := slices.DeleteFunc(slices.Clone(candidates), func(c *disruption.Candidate) bool {
			p, ok := all[c.NodePool.Name]
			return !ok || p.backoff.Active(now)
		})
		if len(open) == 0 {
			return nil, nil
		}
		commands, err := m.Method.ComputeCommands(ctx, budgets, open...)
		if err != nil || len(commands) == 0 {
			return nil, err
		}
		if commands = m.record(ctx, all, commands, now); len(commands) > 0 {
			return commands, nil
		}
	}
	return nil, nil
}

// record returns the commands whose repairs are recorded.
func (m *method) record(ctx context.Context, all pools, commands []disruption.Command, now time.Time) []disruption.Command {
	var out []disruption.Command
	for i := range commands {
		// A reboot is no repair to record: the node stays.
		if commands[i].Reboot || m.recorded(ctx, all, commands[i].Candidates, now) {
			out = append(out, commands[i])
		} else {
			m.release(&commands[i])
		}
	}
	return out
}

func (m *method) recorded(ctx context.Context, all pools, candidates []*disruption.Candidate, now time.Time) bool {
	for _, c := range candidates {
		p, ok := all[c.NodePool.Name]
		if !ok {
			return false
		}
		if err := m.write(ctx, p, p.backoff.Record(c.NodeClaim, c.Node, now)); err != nil {
			m.refuse(ctx, all, p.Name, candidates, err)
			return false
		}
	}
	return true
}

func (m *method) release(command *disruption.Command) {
	for _, r := range command.Replacements {
		if r.IsStaticNodeClaim {
			m.cfg.Release(r.NodePoolName, 1)
		}
	}
}

// refuse takes a NodePool out of all, and reports that on those of the candidates that are its own.
func (m *method) refuse(ctx context.Context, all pools, name string, candidates []*disruption.Candidate, err error) {
	delete(all, name)
	log.FromContext(ctx).Error(err, "repairing no node of the NodePool now", "NodePool", name)
	for _, c := range candidates {
		if c.NodePool.Name == name {
			m.cfg.Recorder.Publish(unrecorded(c, err)...)
		}
	}
}

func (m *method) read(ctx context.Context, candidates []*disruption.Candidate, now time.Time) pools {
	all, known := pools{}, map[string]bool{}
	for _, c := range candidates {
		name := c.NodePool.Name
		if known[name] {
			continue
		}
		known[name] = true
		p := &pool{NodePool: &karpv1.NodePool{}}
		if err := m.cfg.Live.Get(ctx, types.NamespacedName{Name: name}, p.NodePool); err != nil {
			if !apierrors.IsNotFound(err) {
				m.refuse(ctx, all, name, candidates, fmt.Errorf("reading the node repairs of NodePool %q: %w", name, err))
			}
			continue
		}
		var err error
		if p.backoff, err = noderepair.BackoffOf(p.NodePool, now); err != nil {
			// A repair writes it anew.
			log.FromContext(ctx).Error(err, "taking the NodePool for one without repairs")
		}
		all[name] = p
	}
	return all
}

// write fails where the annotation has changed since it was read. That another part of the NodePool has, such as its status
// during Karpenter's simulation, is no reason to begin again.
func (m *method) write(ctx context.Context, p *pool, b noderepair.Backoff) error {
	text, err := b.Annotation()
	if err != nil {
		return err
	}
	written, err := m.patch(ctx, p.NodePool, text)
	if apierrors.IsConflict(err) {
		current := &karpv1.NodePool{}
		if err := m.cfg.Live.Get(ctx, client.ObjectKeyFromObject(p.NodePool), current); err != nil {
			return fmt.Errorf("recording the node repairs of NodePool %q: %w", p.Name, err)
		}
		if current.UID == p.UID && current.Annotations[noderepair.BackoffAnnotation] == p.Annotations[noderepair.BackoffAnnotation] {
			written, err = m.patch(ctx, current, text)
		}
	}
	if err != nil {
		return fmt.Errorf("recording the node repairs of NodePool %q: %w", p.Name, err)
	}
	p.NodePool, p.backoff = written, b
	return nil
}

// patch returns the NodePool with the annotation. It fails with a conflict where that is no longer as given.
func (m *method) patch(ctx context.Context, stored *karpv1.NodePool, text string) (*karpv1.NodePool, error) {
	changed := stored.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[noderepair.BackoffAnnotation] = text
	return changed, m.cfg.Writer.Patch(ctx, changed, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
}

// unrecorded are the events of a node that is not repaired because its NodePool cannot be read or written. The error itself is in
// the log only: it has parts that change, and any length.
func unrecorded(c *disruption.Candidate, err error) []events.Event {
	message := fmt.Sprintf("no node of nodepool %q is repaired: its annotation %s cannot be read or written", c.NodePool.Name, noderepair.BackoffAnnotation)
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		message += fmt.Sprintf(" (%s)", reason)
	}
	all := disruptionevents.NodeRepairBlocked(c.Node, c.NodeClaim, c.NodePool, message)
	for i := range all {
		all[i].DedupeValues = append(all[i].DedupeValues, noderepair.BackoffAnnotation)
	}
	return all
}

// blocked are the events of a node that is not repaired during a back-off, of its NodeClaim and of its NodePool, as
// Karpenter has them for its own threshold: once for each back-off.
func blocked(c *disruption.Candidate, p *pool) []events.Event {
	until := p.backoff.Until.UTC().Format(time.RFC3339)
	message := fmt.Sprintf("no node of nodepool %q is repaired until %s: replacements became unhealthy within an hour of their initialization", p.Name, until)
	all := disruptionevents.NodeRepairBlocked(c.Node, c.NodeClaim, p.NodePool, message)
	for i := range all {
		all[i].DedupeValues = append(all[i].DedupeValues, until)
		all[i].DedupeTimeout = backoff.Max
	}
	return all
}
