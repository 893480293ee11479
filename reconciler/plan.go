package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"

	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// plan compares the last revision with the targets.
func (l *Loop) plan(ctx context.Context, result Result, opts Options, applying bool) (Result, error) {
	if l.last == nil {
		return result, state.Failf(state.Retry, fluxmeta.ProgressingReason, "planning: no revision has been fetched yet")
	}
	result = result.withSnapshot(l.last.snapshot)
	if l.planned != l.last {
		l.cache.take(l.planned) // From here on the targets have what another one desires.
	}
	has := l.active
	has.desired = nil
	has.activate()
	defer func() {
		if has.desired == nil {
			l.trim()
		}
	}()
	all := map[string]state.Set{}
	allDesired, observed := state.Set{}, state.Set{}
	problems := has.Problems
	for _, w := range l.targets {
		desired, more, err := l.last.desired(ctx, w.Target, has.Set)
		if err != nil {
			return result, fmt.Errorf("preparing %s: %w", w.Name, err)
		}
		problems = append(slices.Clip(problems), more...)
		found, err := w.Target.Observe(ctx, desired)
		if err != nil {
			return result, fmt.Errorf("observing %s: %w", w.Name, err)
		}
		if revoker, ok := w.Target.(targets.ApprovalRevoker); ok && applying {
			if err := revoker.RevokeApprovals(ctx); err != nil {
				return result, fmt.Errorf("recording what is desired again in %s: %w", w.Name, err)
			}
		}
		all[w.Name] = desired
		allDesired, observed = allDesired.Union(desired), observed.Union(found)
	}
	has.desired, l.last.problems, l.planned, l.plannedWaiting = all, problems, l.last, l.waiting
	result.Problems = problems
	// What could not be read may well be what would be deleted.
	unsure := len(problems) > 0 || result.SourceError != nil
	result.Plan = plan.Compute(allDesired, observed, l.planPolicies(l.last, unsure, opts.Policies)...)
	if applying {
		of := result.Plan
		if unsure || l.onlyDrift(l.last) {
			// What only a problem keeps from being deleted is not given up.
			of = plan.Compute(allDesired, observed, opts.Policies...)
		}
		if err := l.revokeApprovals(ctx, of.RevokedApprovals(observed)); err != nil {
			return result, err
		}
	}
	result = applyGuard(ctx, result, opts)
	l.planned.recordPlan(result)
	return result, nil
}

// activate makes the revision the one that the targets are used for.
func (c *decodedRevision) activate() {
	if c.BeforeDesired != nil {
		c.BeforeDesired()
	}
}

// desired is what a target makes of the revision. What an earlier process applied last may be what
// it began to delete since, by a later revision: that is not desired again.
func (r *revision) desired(ctx context.Context, t targets.Target, declared state.Set) (state.Set, []state.Problem, error) {
	set, problems, err := computeDesired(ctx, t, declared)
	revoker, ok := t.(targets.ApprovalRevoker)
	if err != nil || !ok || !r.resumed {
		return set, problems, err
	}
	deleting, err := revoker.Deleting(ctx)
	if err != nil {
		return state.Set{}, nil, fmt.Errorf("reading which deletions have begun: %w", err)
	}
	kept := slices.DeleteFunc(set.Items(), func(i state.Item) bool { return slices.Contains(deleting, i.Key) })
	return state.NewSet(kept...), problems, nil
}

// computeDesired separates the problems that only a target finds from its failures.
func computeDesired(ctx context.Context, t targets.Target, d state.Set) (state.Set, []state.Problem, error) {
	set, err := t.Desired(ctx, d)
	if problems, ok := errors.AsType[*targets.ProblemsError](err); ok {
		return set, problems.Problems, nil
	}
	return set, nil, err
}

// onlyDrift reports whether nothing but drift from a revision is put back.
func (l *Loop) onlyDrift(r *revision) bool { return r.resumed || l.waiting }

// planPolicies are the policies for a plan of a revision; unsure is true where what it does not
// declare proves nothing. What an earlier process applied may have been declared by another
// path or with other values: only what that process is known to have applied is put back. Of a
// revision of which nothing more must be applied yet, what is gone is made again, too.
func (l *Loop) planPolicies(r *revision, unsure bool, policies []plan.Policy) []plan.Policy {
	switch {
	case r.resumed:
		policies = append([]plan.Policy{plan.OnlyDrift(plan.Update)}, policies...)
	case l.waiting:
		policies = append([]plan.Policy{plan.OnlyDrift(plan.Create, plan.Update)}, policies...)
	}
	if unsure || l.onlyDrift(r) {
		policies = append([]plan.Policy{plan.NoPrune()}, policies...)
	}
	return policies
}

// revokeApprovals records that deletions were given up.
func (l *Loop) revokeApprovals(ctx context.Context, revoked []state.Key) error {
	for _, w := range l.targets {
		of := slices.DeleteFunc(slices.Clone(revoked), func(k state.Key) bool { return k.Target != w.Name })
		revoker, ok := w.Target.(targets.ApprovalRevoker)
		if !ok || len(of) == 0 {
			continue
		}
		if err := revoker.RevokeApprovals(ctx, of...); err != nil {
			return fmt.Errorf("recording which deletions were given up in %s: %w", w.Name, err)
		}
	}
	return nil
}

// applyGuard holds the changes whose consequences opts.Guard does not allow. A deletion that is held
// already is counted, too: a person should read all at once.
func applyGuard(ctx context.Context, result Result, opts Options) Result {
	if opts.Guard == nil || len(result.Plan.Guarded()) == 0 {
		return result
	}
	result.Plan = opts.Guard(ctx, result.Plan)
	return result
}

// recordPlan records what is held, and what is desired, for reads some things only.
func (r *revision) recordPlan(result Result) {
	r.held, r.dependents, r.nodeConfiguration = map[state.Key]hold.Reasons{}, map[state.Key]hold.Reasons{}, result.Plan.Desired
	for _, c := range result.Plan.Changes {
		if c.HeldForDependent() {
			r.dependents[c.Key] = c.Hold
		}
		if c.Hold.Nodes() || c.Hold.Has(hold.UpdateLosses, hold.QuotaExceeded) {
			r.held[c.Key] = c.Hold
		}
	}
}

func (l *Loop) apply(ctx context.Context, result Result, opts Options) (Result, error) {
	targets := map[string]targets.Target{}
	for _, w := range l.targets {
		targets[w.Name] = w.Target
		opts.Apply.Order = append(slices.Clip(opts.Apply.Order), w.Name)
	}
	opts.Apply.NoDeletes = opts.Apply.NoDeletes || len(result.Problems) > 0 || result.SourceError != nil
	ended := func(Result) {}
	if l.record != nil {
		ended = l.record()
	}
	result.Outcome = apply.Run(ctx, result.Plan, targets, opts.Apply)
	if len(result.Outcome.Results) > 0 {
		ended(result)
	}
	return result, nil
}

// trimming is the ability of a target to drop what only Apply needs, until its Desired is
// called again.
type trimming interface{ Trim() }

func (l *Loop) trim() {
	for _, w := range l.targets {
		if t, ok := w.Target.(trimming); ok {
			t.Trim()
		}
	}
}

// desired is what the targets make of the active revision.
func (l *Loop) desired(ctx context.Context) (map[string]state.Set, error) {
	has := l.active
	if has.desired != nil {
		return has.desired, nil
	}
	all := map[string]state.Set{}
	has.activate()
	for _, w := range l.targets {
		var err error
		if all[w.Name], _, err = has.of.desired(ctx, w.Target, has.Set); err != nil {
			l.trim()
			return nil, fmt.Errorf("preparing %s: %w", w.Name, err)
		}
	}
	has.desired = all
	return all, nil
}

// partial is the ability of a target to observe some things without taking
// the others for undesired.
type partial interface {
	ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error)
}

func observeOnly(ctx context.Context, t targets.Target, some state.Set) (state.Set, error) {
	if some.Len() == 0 {
		return state.Set{}, nil
	}
	if p, ok := t.(partial); ok {
		return p.ObserveOnly(ctx, some)
	}
	return t.Observe(ctx, some)
}

// applyGuardToPart is applyGuard for a plan of some things only, which shows too little of what
// the whole revision does: what was held of that stays so until all is planned
// again, however few nodes a part of it would cost.
func (r *revision) applyGuardToPart(ctx context.Context, result Result, opts Options) Result {
	result.Plan.Desired = r.nodeConfiguration
	result.Plan = result.Plan.KeepDependentHolds(r.dependents).KeepHolds(r.held)
	if !slices.ContainsFunc(result.Plan.Guarded(), func(c plan.Change) bool { return c.Admitted() }) {
		return result
	}
	return applyGuard(ctx, result, opts)
}
