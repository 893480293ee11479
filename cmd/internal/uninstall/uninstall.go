// Package uninstall takes Poolwright out of a cluster: what `poolwright uninstall` does. A
// removal is planned, shown, and carried out when somebody has confirmed it; it refuses to
// take out what another tool would bring back. What was cut off is finished by the next
// run. Start reading at Plan.
package uninstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// Request is what to take out of which cluster.
type Request struct {
	// REST reaches the cluster.
	REST *rest.Config
	// Namespace is the controller's.
	Namespace string
	// Drain removes the pools' nodes first, while the engine still runs.
	Drain bool
	// ReleaseFinalizers takes Karpenter's finalizers off also where nothing identifies
	// them as the embedded engine's.
	ReleaseFinalizers bool
	// Timeout bounds each wait.
	Timeout time.Duration
	// Progress receives what happens, a line at a time.
	Progress func(line string)
}

// Uninstall is a removal that was planned and waits for confirmation. Every step finds
// out anew what is left to do, so that one that was cut off anywhere is finished by the
// next run.
type Uninstall struct {
	// Remaining are the things that are left as they are, in sentences.
	Remaining []string
	// Warnings are what a person should read before confirming.
	Warnings []string

	req    Request
	direct client.Client
	target *kubernetes.Target
	found  installedState
	steps  []step
}

// step is one part of a removal.
type step struct {
	// text is what is done, in the imperative.
	text  string
	stage stage
	do    func(context.Context) error
}

// stage marks the steps after which somebody who stops has something to read.
type stage int

const (
	_ stage = iota
	suspending
	draining
	stopping
)

// Plan reads what there is of Poolwright. It writes nothing.
func Plan(ctx context.Context, req Request) (*Uninstall, error) {
	u := &Uninstall{req: req}
	var err error
	if u.direct, err = connect.DirectClient(req.REST); err != nil {
		return nil, err
	}
	if u.target, err = kubernetes.New(kubernetes.Config{REST: req.REST, Sync: installation.Name, Namespace: req.Namespace, StopsEngine: true}); err != nil {
		return nil, err
	}
	if u.found, err = u.inspect(ctx); err != nil {
		return nil, fmt.Errorf("finding what is installed: %w", err)
	}
	if !u.found.any() {
		return u, nil
	}
	if err := u.check(); err != nil {
		return nil, err
	}
	u.schedule()
	u.Remaining, u.Warnings = u.found.remaining(u.releases()), u.found.warnings(req.Drain, u.releases())
	return u, nil
}

// check refuses what cannot end well.
func (u *Uninstall) check() error {
	for _, item := range u.found.installed.Items() {
		if item.Owner != (owner.Reference{}) && item.Owner.Kind != owner.Sync {
			return fmt.Errorf("%s is managed by %s, which would bring it back: take Poolwright out there, then run uninstall again for what is left", item.Key, item.Owner)
		}
	}
	if !u.req.Drain {
		return nil
	}
	switch {
	case u.found.otherKarpenter != "":
		return fmt.Errorf("--drain removes only nodes of the embedded engine: %s; leave --drain out", u.found.otherKarpenter)
	case len(u.found.claims) > 0 && !u.found.lease.EngineRuns():
		return errors.New("--drain needs the engine, which drains and terminates nodes, and it does not run; kubectl get clusters -o wide shows the reason; without --drain the nodes stay as they are")
	}
	return nil
}

// Steps are what Run will do, in its order; none means that there is nothing of
// Poolwright.
func (u *Uninstall) Steps() []string {
	out := make([]string, 0, len(u.steps))
	for _, s := range u.steps {
		out = append(out, s.text)
	}
	return out
}

// Run takes Poolwright out. It can be run again after it failed or was cut off.
func (u *Uninstall) Run(ctx context.Context) error {
	for i, s := range u.steps {
		u.req.Progress(s.text)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%w%s", err, u.halfway(i))
		}
	}
	return nil
}

// halfway describes in what state a removal that ends at a step leaves the cluster, and
// how a person goes on or back.
func (u *Uninstall) halfway(at int) string {
	reached := func(kind stage) bool {
		return slices.ContainsFunc(u.steps[:at+1], func(s step) bool { return s.stage == kind })
	}
	switch {
	case reached(stopping):
		return "; run poolwright uninstall again to finish"
	case reached(draining):
		return "; the Syncs are suspended, and the NodePools may launch no node: run poolwright uninstall --drain again to finish, or poolwright resume for each Sync to go back, which restores the pools' limits, too"
	case reached(suspending):
		return "; the Syncs are suspended: run poolwright uninstall again to finish, or poolwright resume for each Sync to go back"
	}
	return ""
}

// releases reports whether Karpenter's finalizers are ours to remove: there was
// an embedded engine to set them, and no other Karpenter leads.
func (u *Uninstall) releases() bool {
	return u.found.otherKarpenter == "" && (u.found.embedded() || u.req.ReleaseFinalizers)
}

// schedule lists the steps that what was found requires. The order is what makes it
// safe: nobody re-creates what was removed, nodes are drained while somebody can, and
// what only the controller would have removed goes after it.
func (u *Uninstall) schedule() {
	f := &u.found
	add := func(needed bool, do func(context.Context) error, format string, values ...any) {
		if needed {
			u.steps = append(u.steps, step{text: fmt.Sprintf(format, values...), do: do})
		}
	}
	mark := func(s stage, before int) {
		if len(u.steps) > before {
			u.steps[len(u.steps)-1].stage = s
		}
	}
	n := len(u.steps)
	add(len(f.syncs) > 0, u.suspend, "suspend %s, so that no object is applied again", names("Sync", f.syncs))
	mark(suspending, n)
	n = len(u.steps)
	add(u.req.Drain && len(f.claims) > 0, u.drain, "drain and terminate %s, and set the limits of the NodePools so that none is launched", plural.Count(len(f.claims), "node"))
	mark(draining, n)
	add(!u.req.Drain && f.terminating() > 0 && f.lease.EngineRuns(), u.finish, "wait for %s that the engine is terminating", plural.Count(f.terminating(), "node"))
	n = len(u.steps)
	add(f.has("Deployment") || f.lease.Exists, u.stop, "stop the controller and wait until its lease is released")
	mark(stopping, n)
	add(u.req.Drain || f.lowered > 0, u.restorePools, "restore the limits of the NodePools")
	add(u.releases(), u.release, "remove Karpenter's finalizers from %s, and change nothing else in them", cmp.Or(f.finalized(u.req.Drain), "all objects that have one"))
	add(len(f.syncs) > 0, u.deleteSyncs, "delete %s; what they applied stays", names("Sync", f.syncs))
	add(len(f.inventories) > 0, u.deleteInventories, "delete the inventories of the Syncs (%s)", plural.Count(len(f.inventories), "object"))
	add(f.objects() > 0, u.removeObjects, "delete the installation: %s%s", plural.Count(f.objects(), "object"), f.kinds())
	add(true, u.deleteInstallation, "delete Namespace %s, if nothing else is in it", u.req.Namespace)
}

// removeObjects deletes the installation, but for the namespace.
func (u *Uninstall) removeObjects(ctx context.Context) error {
	if err := u.remove(ctx, func(k state.Key) bool { return k.Kind != "Namespace" }); err != nil {
		return err
	}
	return u.waitDeleted(ctx, func(k state.Key) bool { return k.Kind == "CustomResourceDefinition" })
}

// remove deletes those objects of the installation that are chosen, as any
// other run deletes, and no other incarnation than was observed. The inventory is
// not written: it names them already, or config/ does, and it may lie in a
// namespace that is on its way out.
func (u *Uninstall) remove(ctx context.Context, chosen func(state.Key) bool) error {
	installed, err := u.installed(ctx)
	if err != nil {
		return err
	}
	if installed, err = u.target.WithDeletionImpact(ctx, installed); err != nil {
		return err
	}
	p := plan.Compute(state.Set{}, installed)
	p.Changes = slices.DeleteFunc(p.Changes, func(c plan.Change) bool { return !chosen(c.Key) })
	only := struct{ targets.Target }{installation.WithProgress(u.target, u.req.Progress)}
	return apply.Run(ctx, p, map[string]targets.Target{kubernetes.Name: only}, apply.Options{}).Err()
}

// waitDeleted waits until none of the chosen objects is left.
func (u *Uninstall) waitDeleted(ctx context.Context, chosen func(state.Key) bool) error {
	err := installation.Await(ctx, u.req.Timeout, u.req.Progress, func(ctx context.Context) (bool, string, error) {
		installed, err := u.installed(ctx)
		if err != nil {
			return false, "", err
		}
		for _, item := range installed.Items() {
			if chosen(item.Key) {
				return false, item.Key.String() + " is on its way out", nil
			}
		}
		return true, "", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for deletions: %w", err)
	}
	return nil
}
