package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// gateInterval is how often the gates of a running engine are checked.
const gateInterval = 5 * time.Minute

// Gates are the safety checks for one Cluster object.
type Gates struct {
	gate.Gates
	supervisor *Supervisor
}

// Gates returns the gates of the engine with the desired settings. It fails where AWS cannot be
// reached.
func (s *Supervisor) Gates(ctx context.Context) (Gates, error) {
	settings := s.Desired.Settings
	aws, err := engine.LoadAWS(ctx, settings.Region)
	if err != nil {
		return Gates{}, err
	}
	return Gates{gate.Gates{
		Cluster: settings.Cluster, Region: settings.Region, Account: settings.Account,
		REST: s.REST, Kube: s.Live, AWS: aws, OwnLease: s.OwnLease,
		ConfirmGarbageCollection: func() string { return confirmedGarbageCollection(ctx, s.Live) },
	}, s}, nil
}

// confirmedGarbageCollection reads the confirmation live: it is a person's decision of this
// moment, not a setting. A Cluster that cannot be read confirms nothing.
func confirmedGarbageCollection(ctx context.Context, reader client.Reader) string {
	all, err := Clusters(ctx, reader)
	if err != nil || len(all) == 0 {
		return ""
	}
	return all[0].Annotations[v1alpha1.ConfirmGarbageCollectionAnnotation]
}

// Blocking returns nil when all gates are open.
func (g Gates) Blocking(ctx context.Context) *Blocked {
	refusals, err := g.Check(ctx)
	if err != nil {
		return BlockedBy("GatesUnchecked", err)
	}
	return blockedByGates(refusals)
}

func blockedByGates(refusals []gate.ClosedGate) *Blocked {
	if len(refusals) == 0 {
		return nil
	}
	var texts []string
	for _, r := range refusals {
		texts = append(texts, r.Error())
	}
	return &Blocked{Reason: reasonOf(refusals), Message: strings.Join(texts, "; ")}
}

// reasonOf is the condition's reason while gates are closed: the first that is. Another
// Karpenter is the reason only where it was found and nothing else is closed, since
// whoever takes over from it scales it down for that.
func reasonOf(refusals []gate.ClosedGate) string {
	for _, r := range refusals {
		if reason := r.Reason(); reason != gate.OtherKarpenterRunning {
			return reason
		}
	}
	return gate.OtherKarpenterRunning
}

// AddTo has a manager check the gates for as long as the engine runs.
func (g Gates) AddTo(mgr manager.Manager) error {
	return errors.Join(mgr.Add(g.recheck()), mgr.Add(g.watchOthers()))
}

// recheck has the process started anew when a gate closes under a running
// engine; the engine will be blocked then.
func (g Gates) recheck() manager.Runnable {
	return gate.Watch{
		Check: g.Check,
		Report: func(closed []gate.ClosedGate) {
			if by := blockedByGates(closed); by != nil {
				g.supervisor.Log.Error(fmt.Errorf("%s", by.Message), "A safety gate has closed: stopping the engine")
				g.supervisor.Restart()
			}
		},
		Every: gateInterval,
		Retry: blockedRetry,
	}
}

// othersInterval is how often a leader checks for another Karpenter. It sends requests
// to the API server only, so it need not wait as long as for all gates.
const othersInterval = 30 * time.Second

// watchOthers checks for another Karpenter once this replica leads, when its own
// lease shows that to the others: of two that start at once, one finds the other. It goes
// on for as long as this one leads: somebody may start another any day.
func (g Gates) watchOthers() manager.RunnableFunc {
	return func(ctx context.Context) error {
		again := time.NewTicker(othersInterval)
		defer again.Stop()
		for {
			err := g.CheckOthers(ctx)
			refusal, _ := errors.AsType[gate.ClosedGate](err)
			if err != nil && ctx.Err() == nil && !refusal.Unproven { // recheck counts those
				g.supervisor.Log.Error(err, "Somebody else leads as well: stopping the engine")
				g.supervisor.Restart()
				return nil
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
}
