package wire

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target/aws"
)

// newestEvery is how often SSM is asked whether pinned parameters have newer values.
const newestEvery = time.Hour

// pinner keeps the values of Syncs' SSM parameters in their status.
type pinner struct {
	live client.Client
	// fresh is nil, or says why this replica may not write now.
	fresh func() error
	ask   func(ctx context.Context, live client.Reader, names []string) (map[string]pin.Reading, error)
	tell  record.EventRecorder
	clock clock.PassiveClock

	mu    sync.Mutex
	known map[client.ObjectKey]asking
}

// asking is what one reading of a Sync's parameters leaves to the next.
type asking struct {
	// at is when all of them were asked for, and whose and which they were.
	at  time.Time
	who string
	// trouble is what was wrong with them, and told.
	trouble string
}

func newPinner(live client.Client, fresh func() error, tell record.EventRecorder) *pinner {
	return &pinner{live: live, fresh: fresh, ask: askParameters, tell: tell, clock: clock.RealClock{}, known: map[client.ObjectKey]asking{}}
}

// values are those of the Sync's parameters, by variable. What is decided anew is in
// its status before this returns. SSM is asked for what has no value, for an update,
// and once an hour for what is newer: only the first of these can fail.
func (p *pinner) values(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error) {
	now := sync.DeepCopy()
	name := client.ObjectKeyFromObject(sync)
	read, err := p.read(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("looking up the variables of Sync %s: %w", name.Name, err)
	}
	var found pin.Resolution
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if found = pin.Resolve(now, read, p.clock.Now()); len(found.Missing) > 0 {
			return state.Failf(state.Retry, "ParametersPending", "spec.substituteFrom changed while its parameters were read: SSM parameter %s has no value yet", strings.Join(found.Missing, ", "))
		}
		before := now.DeepCopy()
		now.Status.Parameters, now.Status.LastHandledUpdateParameters = found.Pins, found.Handled
		if equality.Semantic.DeepEqual(before.Status, now.Status) {
			return nil
		}
		if err := p.fresh(); err != nil {
			return err
		}
		err := p.live.Status().Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err == nil {
			return nil
		}
		if again := p.live.Get(ctx, name, now); again != nil {
			return again
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keeping the parameters of Sync %s: %w", name.Name, err)
	}
	p.announce(now, found)
	return found.Values(), nil
}

// read asks SSM for what Resolve needs to know, and once an hour for everything. What
// has values already is not worth an error.
func (p *pinner) read(ctx context.Context, sync *v1alpha1.Sync) (map[string]pin.Reading, error) {
	names := pin.Names(sync)
	missing := pin.Pinned(sync).Missing
	out := map[string]pin.Reading{}
	if len(missing) > 0 {
		found, err := p.ask(ctx, p.live, missing)
		if err != nil {
			return nil, err
		}
		out = found
	}
	next := asking{at: p.clock.Now(), who: string(sync.UID) + " " + strings.Join(names, " ")}
	last := p.last(client.ObjectKeyFromObject(sync))
	due := pin.Due(sync) || last.who != next.who || !p.clock.Now().Before(last.at.Add(newestEvery))
	if !due || len(names) == 0 {
		return out, nil
	}
	var rest []string
	for _, name := range names {
		if _, known := out[name]; !known {
			rest = append(rest, name)
		}
	}
	if len(rest) > 0 {
		found, err := p.ask(ctx, p.live, rest)
		maps.Copy(out, found)
		if err != nil {
			next.trouble = err.Error()
		}
	}
	if next.trouble != "" && next.trouble != last.trouble {
		p.tell.Event(sync, corev1.EventTypeWarning, "ParametersUnreadable", "The values in use stay, and it is not known whether there are newer ones: "+next.trouble)
	}
	p.remember(client.ObjectKeyFromObject(sync), next)
	return out, nil
}

func (p *pinner) last(of client.ObjectKey) asking {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[of]
}

func (p *pinner) remember(of client.ObjectKey, a asking) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[of] = a
}

// announce says what became of parameters: once, for it stands in the status now.
func (p *pinner) announce(sync *v1alpha1.Sync, found pin.Resolution) {
	for _, one := range found.Updated {
		p.tell.Eventf(sync, corev1.EventTypeNormal, "ParametersUpdated", "SSM parameter %s is %s for ${%s} now, its newest value%s", one.Name, one.Value, one.Variable, unused(sync, one))
	}
	for _, one := range found.Outdated {
		p.tell.Eventf(sync, corev1.EventTypeNormal, "ParameterOutdated", "SSM parameter %s stays %s for ${%s}; it has the newer value %s: poolwright reconcile %s --update-parameters takes it%s",
			one.Name, one.Value, one.Variable, one.Latest, sync.Name, unused(sync, one))
	}
}

// unused says so where the Sync itself has another value of a parameter's variable.
func unused(sync *v1alpha1.Sync, one v1alpha1.PinnedParameter) string {
	if _, set := sync.Spec.Substitute[one.Variable]; set {
		return "; nothing uses it: spec.substitute sets ${" + one.Variable + "}"
	}
	return ""
}

// askParameters reads parameters in the region of the live Cluster; before there is one,
// in that of the process.
func askParameters(ctx context.Context, live client.Reader, names []string) (map[string]pin.Reading, error) {
	region, err := regionOf(ctx, live)
	if err != nil {
		return nil, err
	}
	return askIn(ctx, region, names)
}

// askIn reads parameters in a region.
func askIn(ctx context.Context, region string, names []string) (map[string]pin.Reading, error) {
	found, err := aws.ReadParameters(ctx, engine.LoadAWS, region, names)
	out := make(map[string]pin.Reading, len(found))
	for name, one := range found {
		out[name] = pin.Reading(one)
	}
	return out, err
}

// regionOf is the region of the live Cluster, or that which the environment names.
func regionOf(ctx context.Context, live client.Reader) (string, error) {
	var list v1alpha1.ClusterList
	err := live.List(ctx, &list)
	switch {
	case err == nil && len(list.Items) > 0:
		return list.Items[0].Spec.Region, nil
	case err != nil && !meta.IsNoMatchError(err):
		return "", fmt.Errorf("reading the Cluster object: %w", err)
	}
	cfg, err := engine.LoadAWS(ctx, "")
	if err != nil {
		return "", err
	}
	if cfg.Region == "" {
		return "", state.Failf(state.Retry, "RegionUnknown", "SSM parameters are those of a region, and there is no Cluster object yet that names it: set AWS_REGION where poolwright runs")
	}
	return cfg.Region, nil
}
