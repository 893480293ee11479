package controller

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// awsWorld is the world that `drift: Report` closes to every write. What Git
// changes in the cluster is a decision; AWS also belongs to people who never
// see that Git.
const awsWorld = "aws"

// picture is what is known of the worlds between two visits: a run that looks
// only at what drifted says nothing of the rest.
type picture struct {
	// left are the changes that were not made, in the order of work.
	left []leftover
	// unknown are the things of which nothing could be told, by key.
	unknown []plan.Unknown
	// complete is false as long as the last comparison failed as a whole.
	complete bool
}

// leftover is a change that was not made.
type leftover struct {
	key    state.Key
	change v1alpha1.PendingChange
	// drift is why the live thing is taken for drifted, in the condition's
	// words; empty where it is not.
	drift string
	// standing is true for what no run will ever make.
	standing bool
}

// seen is the picture that one run alone gives.
func seen(done run) picture {
	p := picture{unknown: done.Plan.Unknown, complete: true}
	for _, r := range done.Outcome.Results {
		if r.Status == apply.Applied {
			continue
		}
		c := r.Change
		l := leftover{key: c.Key, standing: r.Status == apply.Held && c.Standing(), change: v1alpha1.PendingChange{
			Object: thing(c.Key), Action: string(c.Action), Reason: c.Hold, Source: c.Origin().String(),
		}}
		if r.Err != nil {
			l.change.Reason = r.Err.Error()
		}
		switch {
		case l.standing, c.Drift && r.Status == apply.Held:
			l.drift = driftReported
		case c.Drift:
			l.drift = driftNotCorrected
		}
		p.left = append(p.left, l)
	}
	return p
}

// after is the picture after one more run: a full one paints it anew, a partial
// one what it looked at.
func (p picture) after(done run) picture {
	switch {
	case done.err != nil:
		p.complete = false
	case done.kind == full:
		return seen(done)
	case done.kind == partial:
		some := seen(done)
		p.left = append(slices.DeleteFunc(slices.Clone(p.left), func(l leftover) bool { return slices.Contains(done.looked, l.key) }), some.left...)
		p.unknown = append(slices.DeleteFunc(slices.Clone(p.unknown), func(u plan.Unknown) bool { return slices.Contains(done.looked, u.Key) }), some.unknown...)
		slices.SortStableFunc(p.unknown, func(a, b plan.Unknown) int { return a.Key.Compare(b.Key) })
	}
	return p
}

// pendingLimit bounds what a status lists.
const pendingLimit = 20

func (p picture) pending() []v1alpha1.PendingChange {
	var out []v1alpha1.PendingChange
	for _, l := range p.left[:min(len(p.left), pendingLimit)] {
		out = append(out, l.change)
	}
	return out
}

// drifted counts the live things that differ and stay so, and says why; what is
// only reported goes first.
func (p picture) drifted() (n int, reason string) {
	for _, l := range p.left {
		if l.drift == "" {
			continue
		}
		n++
		if reason != driftReported {
			reason = l.drift
		}
	}
	return n, reason
}

// settled reports whether another full comparison would find nothing to do.
func (p picture) settled() bool {
	return len(p.unknown) == 0 && !slices.ContainsFunc(p.left, func(l leftover) bool { return !l.standing })
}

// lost are the things that are unknown now and were not before.
func (p picture) lost(before picture) []plan.Unknown {
	return slices.DeleteFunc(slices.Clone(p.unknown), func(u plan.Unknown) bool {
		return slices.ContainsFunc(before.unknown, func(b plan.Unknown) bool { return b.Key == u.Key })
	})
}

// thing names a thing with its world, unless that is the cluster.
func thing(k state.Key) string {
	if k.Target == awsWorld {
		return awsWorld + " " + k.String()
	}
	return k.String()
}

// unknowns names the first unknown thing and counts all.
func unknowns(list []plan.Unknown) string {
	first := thing(list[0].Key)
	if at := list[0].Origin.String(); at != "" {
		first += " (" + at + ")"
	}
	first += ": " + list[0].Reason
	if len(list) == 1 {
		return "1 thing could not be compared: " + first
	}
	return fmt.Sprintf("%d things could not be compared, the first: %s", len(list), first)
}
