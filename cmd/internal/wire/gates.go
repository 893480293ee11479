package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// gateInterval is how often the gates of a running engine are checked.
const gateInterval = 5 * time.Minute

// gates are the safety checks for one Cluster object.
type gates struct{ gate.Gates }

func newGates(ctx context.Context, a *attempt) (gates, error) {
	s := a.stance.settings
	aws, err := engine.LoadAWS(ctx, s.Region)
	if err != nil {
		return gates{}, err
	}
	return gates{gate.Gates{
		Cluster: s.Cluster, Region: s.Region, Account: s.Account,
		REST:     a.cfg.REST,
		Kube:     a.direct,
		AWS:      aws,
		OwnLease: types.NamespacedName{Namespace: a.cfg.Namespace, Name: LeaseName},
		ConfirmOrphans: func() string {
			return confirmedOrphans(ctx, a.direct)
		},
	}}, nil
}

// confirmedOrphans reads the confirmation live: it is a person's word about this
// moment, not a setting. A Cluster that cannot be read confirms nothing.
func confirmedOrphans(ctx context.Context, reader client.Reader) string {
	all, err := liveClusters(ctx, reader)
	if err != nil || len(all) == 0 {
		return ""
	}
	return all[0].Annotations[v1alpha1.ConfirmOrphansAnnotation]
}

// check returns nil when all gates are open.
func (g gates) check(ctx context.Context) *notStarted {
	refusals, err := g.Check(ctx)
	if err != nil {
		return holdOf("GatesUnchecked", err)
	}
	return holdFrom(refusals)
}

func holdFrom(refusals []gate.Refusal) *notStarted {
	if len(refusals) == 0 {
		return nil
	}
	var words []string
	for _, r := range refusals {
		words = append(words, r.Error())
	}
	return &notStarted{reason: reasonOf(refusals), message: strings.Join(words, "; ")}
}

// reasonOf is the condition's reason while gates are closed: the first that is. Another
// Karpenter is the reason only where it was found and nothing else is closed, since
// whoever takes over from it scales it down for that.
func reasonOf(refusals []gate.Refusal) string {
	for _, r := range refusals {
		switch {
		case r.Unproven:
			return string(r.Gate) + unprovenSuffix
		case r.Gate != gate.OtherKarpenter:
			return string(r.Gate)
		}
	}
	return string(gate.OtherKarpenter)
}

// unprovenSuffix ends the reason of a Cluster's condition Ready where a gate could not be
// checked: GateNameUnknown, as a condition's status is Unknown.
const unprovenSuffix = "Unknown"

// keepChecking ends this life of the process when a gate closes under a running
// engine; the next life will find the engine held.
func (g gates) keepChecking(a *attempt) manager.Runnable {
	return gate.Watch{
		Check: g.Check,
		Report: func(closed []gate.Refusal) {
			if held := holdFrom(closed); held != nil {
				a.cfg.Logger.Error(fmt.Errorf("%s", held.message), "A safety gate has closed: stopping the engine")
				a.cancel(ErrRestart)
			}
		},
		Every: gateInterval,
		Retry: holdRetry,
	}
}

// othersInterval is how often a leader looks for another Karpenter. It asks nobody but
// the API server, so it need not wait as long as for all gates.
const othersInterval = 30 * time.Second

// lookAround looks for another Karpenter once this replica leads, when its own
// lease says so to the others: of two that start at once, one sees the other. It goes
// on for as long as this one leads: somebody may start another any day.
func (g gates) lookAround(a *attempt) manager.Runnable {
	return leading(func(ctx context.Context) error {
		again := time.NewTicker(othersInterval)
		defer again.Stop()
		for {
			err := g.CheckOthers(ctx)
			refusal, _ := errors.AsType[gate.Refusal](err)
			if err != nil && ctx.Err() == nil && !refusal.Unproven { // keepChecking counts those
				a.cfg.Logger.Error(err, "Somebody else leads as well: stopping the engine")
				a.cancel(ErrRestart)
				return nil
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}
