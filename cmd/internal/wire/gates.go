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
	name := client.ObjectKeyFromObject(a.stance.cluster)
	return gates{gate.Gates{
		Cluster: s.Cluster, Region: s.Region, Account: s.Account,
		REST:     a.cfg.REST,
		Kube:     a.direct,
		AWS:      aws,
		OwnLease: types.NamespacedName{Namespace: a.cfg.Namespace, Name: leaseName},
		ConfirmOrphans: func() string {
			return confirmedOrphans(ctx, a.direct, name)
		},
	}}, nil
}

// confirmedOrphans reads the confirmation live: it is a person's word about this
// moment, not a setting. A Cluster that cannot be read confirms nothing.
func confirmedOrphans(ctx context.Context, reader client.Reader, name client.ObjectKey) string {
	var c v1alpha1.Cluster
	if err := reader.Get(ctx, name, &c); err != nil {
		return ""
	}
	return c.Annotations[v1alpha1.ConfirmOrphansAnnotation]
}

// check returns nil when all gates are open.
func (g gates) check(ctx context.Context) *hold {
	refusals, err := g.Check(ctx)
	if err != nil {
		return holdOf("GatesUnchecked", err)
	}
	return holdFrom(refusals)
}

func holdFrom(refusals []gate.Refusal) *hold {
	if len(refusals) == 0 {
		return nil
	}
	var words []string
	for _, r := range refusals {
		words = append(words, r.Error())
	}
	return &hold{reason: string(refusals[0].Gate), message: strings.Join(words, "; ")}
}

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

// lookAround looks for another Karpenter once this replica leads, when its own
// lease says so to the others: of two that start at once, one sees the other.
func (g gates) lookAround(a *attempt) manager.Runnable {
	return leading(func(ctx context.Context) error {
		err := g.CheckOthers(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if refusal, ok := errors.AsType[gate.Refusal](err); ok && refusal.Unproven {
			return nil // keepChecking counts those
		}
		a.cfg.Logger.Error(err, "Somebody else began to lead at the same time: stopping the engine")
		a.cancel(ErrRestart)
		return nil
	})
}
