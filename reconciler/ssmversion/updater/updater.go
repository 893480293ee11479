// Package updater keeps the values of Syncs' SSM parameters in their status, as package
// pin decides them, and reports by events what became of them.
//
// It refuses to give out a value that is not on record: a crash must not let anything be
// applied twice with two values. It does not depend on how SSM is read. Start reading at
// Updater.Values.
package updater

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// newestEvery is how often it is read from SSM whether pinned parameters have newer values.
const newestEvery = time.Hour

// Config is what a Updater works with. All fields are needed but Clock.
type Config struct {
	// Live reads Syncs past every cache, and writes their status only while this replica
	// leads.
	Live client.Client
	// Read reads SSM parameters by name. What it returns beside an error holds.
	Read func(ctx context.Context, names []string) (map[string]ssmversion.Reading, error)
	// Events reports to users, beside the Sync.
	Events record.EventRecorder
	// Clock is the process's where it is nil.
	Clock clock.PassiveClock
}

// Updater keeps the values of Syncs' SSM parameters. It may be used by many at a time.
type Updater struct {
	cfg Config

	mu    sync.Mutex
	known map[client.ObjectKey]lastRead
}

// lastRead is what one reading of a Sync's parameters leaves to the next.
type lastRead struct {
	// at is when all of them were requested, and whose and which they were.
	at  time.Time
	who string
	// failure is what was wrong with them, and was reported.
	failure string
}

// New returns an Updater that has read nothing yet.
func New(cfg Config) *Updater {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Updater{cfg: cfg, known: map[client.ObjectKey]lastRead{}}
}

// Values are those of the Sync's parameters, by variable. What is decided anew is in
// its status before this returns. SSM is read for what has no value, for an update, and
// once an hour for what is newer: only the first of these can fail.
func (k *Updater) Values(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error) {
	now := sync.DeepCopy()
	name := client.ObjectKeyFromObject(sync)
	read, latest, err := k.read(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("reading the variables of Sync %s: %w", name.Name, err)
	}
	var found ssmversion.Resolution
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if found = ssmversion.Resolve(now, read, k.cfg.Clock.Now()); len(found.Missing) > 0 {
			return state.Failf(state.Retry, "ParametersPending", "spec.substituteFrom changed while its parameters were read: SSM parameter %s has no value yet", strings.Join(found.Missing, ", "))
		}
		before := now.DeepCopy()
		now.Status.Parameters, now.Status.LastHandledUpdateParameters = found.Pins, found.Handled
		if equality.Semantic.DeepEqual(before.Status, now.Status) {
			return nil
		}
		err := k.cfg.Live.Status().Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err == nil {
			return nil
		}
		if again := k.cfg.Live.Get(ctx, name, now); again != nil {
			return again
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keeping the parameters of Sync %s: %w", name.Name, err)
	}
	if latest != nil {
		k.record(now, *latest)
	}
	k.announce(now, found)
	return found.Values(), nil
}

// read reads from SSM what Resolve needs, and once an hour for everything. What
// has values already is not worth an error. Where everything was read, that is to
// be kept once the values are in the status.
func (k *Updater) read(ctx context.Context, sync *v1alpha1.Sync) (map[string]ssmversion.Reading, *lastRead, error) {
	names := ssmversion.Names(sync)
	missing := ssmversion.Pinned(sync).Missing
	out := map[string]ssmversion.Reading{}
	if len(missing) > 0 {
		found, err := k.cfg.Read(ctx, missing)
		if err != nil {
			return nil, nil, err
		}
		out = found
	}
	next := lastRead{at: k.cfg.Clock.Now(), who: string(sync.UID) + " " + strings.Join(names, " ")}
	last := k.last(client.ObjectKeyFromObject(sync))
	due := ssmversion.Due(sync) || last.who != next.who || !k.cfg.Clock.Now().Before(last.at.Add(newestEvery))
	if !due || len(names) == 0 {
		return out, nil, nil
	}
	var rest []string
	for _, name := range names {
		if _, known := out[name]; !known {
			rest = append(rest, name)
		}
	}
	if len(rest) > 0 {
		found, err := k.cfg.Read(ctx, rest)
		maps.Copy(out, found)
		if err != nil {
			next.failure = err.Error()
		}
	}
	return out, &next, nil
}

func (k *Updater) last(of client.ObjectKey) lastRead {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[of]
}

// record keeps a read whose values are in the status for the next one, and reports what
// was wrong with it.
func (k *Updater) record(sync *v1alpha1.Sync, a lastRead) {
	name := client.ObjectKeyFromObject(sync)
	last := k.last(name)
	if a.failure != "" && a.failure != last.failure {
		k.cfg.Events.Event(sync, corev1.EventTypeWarning, "ParametersUnreadable", "The values in use stay, and it is not known whether there are newer ones: "+sanitize.Text(a.failure))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[name] = a
}

// announce is what became of parameters: once, for it stands in the status now.
func (k *Updater) announce(sync *v1alpha1.Sync, found ssmversion.Resolution) {
	for _, one := range found.Updated {
		k.cfg.Events.Eventf(sync, corev1.EventTypeNormal, "ParametersUpdated", "SSM parameter %s is %s for ${%s} now, its newest value%s", one.Name, sanitize.Name(sanitize.Redact(one.Value)), one.Variable, unused(sync, one))
	}
	for _, one := range found.Outdated {
		k.cfg.Events.Eventf(sync, corev1.EventTypeNormal, "ParameterOutdated", "SSM parameter %s stays %s for ${%s}; it has the newer value %s: poolwright reconcile %s --update-parameters takes it%s",
			one.Name, sanitize.Name(sanitize.Redact(one.Value)), one.Variable, sanitize.Name(sanitize.Redact(one.Latest)), sync.Name, unused(sync, one))
	}
}

// unused is a note where the Sync itself has another value of a parameter's variable.
func unused(sync *v1alpha1.Sync, one v1alpha1.PinnedParameter) string {
	if _, set := sync.Spec.Substitute[one.Variable]; set {
		return "; nothing uses it: spec.substitute sets ${" + one.Variable + "}"
	}
	return ""
}
