// Package kubernetes is the Kubernetes target of one Sync: server-side apply, an
// inventory that is written ahead, pruning with preconditions, readiness, and
// a watch that distinguishes drift from noise without a request to the API server.
//
// The package never compares Git with live objects directly: defaults,
// quantities and webhooks would flap. It compares what the API server returned for our
// own apply with what it shows now, and sends a dry run only where that differs.
// ../internal/fields has the arithmetic, ../internal/inventory what is recorded.
//
// It refuses to conclude anything from a failed List, to delete anything but
// the observed incarnation, and to take fields from Flux or Argo CD. Start
// reading at Target; its parts are packages of their own in internal: desired makes
// what is desired, diff compares it with what Observe finds, losses counts what goes
// with a deletion, drift and readiness watch what Apply has applied.
package kubernetes

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/desired"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/diff"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/drift"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/health"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ignore"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/mask"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/offline"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ownership"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/readiness"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/reflector"
)

// Name is the Target in the keys of this target's items.
const Name = kinds.Target

// Installation stands in the place of a Sync's name for what `poolwright bootstrap`
// installs. No Sync can have it: its definition reserves it.
const Installation = ownership.Installation

// OwnerOf is the other GitOps tool that manages a live object, or nobody, as ownership.OwnerOf finds it.
func OwnerOf(live *unstructured.Unstructured, declared map[string]any) owner.Reference {
	return ownership.OwnerOf(live, declared)
}

// Offline is the target of a Sync where there is no cluster, by offline.New. Fields are ignored by its
// rules.
func Offline(sync string, rules []v1alpha1.IgnoreRule) targets.Target {
	return offline.New(LabelValue(sync), ignore.New(rules))
}

// Config is which cluster, and for which Sync.
type Config struct {
	// REST reaches the API server. Its rate limits are ignored: the API
	// server's own priority and fairness decides, and Limiter.
	REST *rest.Config
	// Sync is the Sync's name; everything that it owns carries it as a label.
	Sync string
	// Namespace holds the inventory: the controller's own namespace.
	Namespace string
	// Ignore are the fields that are not corrected, of spec.ignore of the Sync. Where they cannot be
	// parsed, Desired fails.
	Ignore []v1alpha1.IgnoreRule
	// Reveal puts the values of variables into a declared Secret, which has marks in
	// their place; nil has none. What it fails with for good (state.Stalled) is a Problem of
	// that Secret alone.
	Reveal func(object map[string]any) (map[string]any, error)
	// Preview is true for who compares untrusted revisions, such as a pull request's:
	// values of Secrets are neither filled in, so that Reveal is left aside, nor compared
	// with live ones. See Target.StartPreview.
	Preview bool
	// OnlyManaged is true for who serves people that may not read the cluster: it observes
	// what is in the Sync's inventory and nothing else, and sends the API server no object
	// but those of the revision that a preview starts from. It goes with Preview, and never
	// corrects.
	OnlyManaged bool
	// StopsEngine is true for who stops the engine by itself and waits for it before, such as
	// an uninstallation: no deletion or update waits for what the engine has yet to delete.
	StopsEngine bool
	// Limiter slows requests down; nil sends them as they come.
	Limiter flowcontrol.RateLimiter
	// Clock is the time; nil is the real one.
	Clock clock.Clock
	// Log gets one line for each object that is left to another owner; the zero value
	// discards it.
	Log logr.Logger
}

// Target is the Kubernetes side of one Sync. Desired must have been called before
// its items are observed or corrected. It is safe for concurrent use.
type Target struct {
	cfg     Config
	api     *api.Client
	kinds   *kinds.RESTMapper
	store   *inventory.Store
	owner   ownership.Sync
	losses  losses.Counter
	desired *desired.State
	diff    *diff.Differ
	drift   *drift.Tracker
	ready   *readiness.Waiter
	health  *health.Checker
	mask    *mask.Masker

	// coverage is what the last observation found of device plugins.
	coverage atomic.Pointer[losses.Coverage]
}

// New makes a Target. It sends no request.
func New(cfg Config) (*Target, error) {
	if cfg.REST == nil || cfg.Sync == "" || cfg.Namespace == "" {
		return nil, fmt.Errorf("making the Kubernetes target: REST, Sync and Namespace must be set")
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log.GetSink() == nil {
		cfg.Log = logr.Discard()
	}
	// The API server's warnings are dropped: lint reports deprecated versions with file and line,
	// before the merge.
	client, err := api.New(cfg.REST, v1alpha1.FieldManager, rest.NoWarnings{}, cfg.Limiter)
	if err != nil {
		return nil, err
	}
	label := LabelValue(cfg.Sync)
	prefix := inventory.TruncateName(cfg.Sync, 200) + "-inventory"
	w := &Target{
		cfg: cfg, api: client,
		mask:  mask.New(client, cfg.Namespace, prefix),
		kinds: kinds.NewRESTMapper(client.Discovery()),
		store: inventory.NewStore(client, inventory.Location{
			Target: Name, Namespace: cfg.Namespace, Prefix: prefix, Value: label, ReadOnly: cfg.OnlyManaged,
		}),
		owner: ownership.Sync{API: client, Name: cfg.Sync, Namespace: cfg.Namespace, Label: label},
	}
	w.losses = losses.Counter{API: client, Kinds: w.kinds, Namespace: cfg.Namespace}
	w.diff = diff.New(diff.Config{
		API: client, Kinds: w.kinds, Store: w.store, Mask: w.mask, Owner: w.owner, Losses: w.losses, Clock: cfg.Clock,
		Ignored: func(k state.Key) []string { return w.desired.Ignored(k) },
		Preview: cfg.Preview, OnlyManaged: cfg.OnlyManaged,
	})
	if cfg.Preview {
		cfg.Reveal = nil
	}
	w.desired = desired.New(desired.Config{
		API: client, Kinds: w.kinds, Store: w.store, Mask: w.mask, Owner: w.owner, Reveal: cfg.Reveal, Ignore: ignore.New(cfg.Ignore), Managed: w.diff.Managed,
	})
	objects := reflector.Reflector{API: client, Selector: w.selector()}
	w.health = health.New(health.Config{API: client, Kinds: w.kinds, Sync: cfg.Sync, Namespace: cfg.Namespace, Clock: cfg.Clock})
	w.drift = drift.New(drift.Config{Store: w.store, Kinds: w.kinds, Objects: objects, Clock: cfg.Clock, Options: w.diff.Options, Beside: w.health.Handler})
	w.ready = readiness.New(readiness.Config{Store: w.store, Kinds: w.kinds, Objects: objects, Clock: cfg.Clock})
	return w, nil
}

// LabelValue is the value of [v1alpha1.SyncLabel] on what a Sync applies: its name
// where that can be a label's value, else a part of it with a hash.
func LabelValue(sync string) string { return inventory.TruncateName(sync, 63) }

// selector selects the objects of this Sync.
func (w *Target) selector() string { return v1alpha1.SyncLabel + "=" + w.owner.Label }

// ref finds the resource of a key. It reports false for a kind that the
// cluster does not serve.
func (w *Target) ref(ctx context.Context, k state.Key, version string) (api.Ref, kinds.Kind, bool, error) {
	gvk := kinds.GVK(k, version)
	kind, ok, err := w.kinds.Lookup(ctx, gvk)
	return api.Ref{Resource: kind.GVR(), Namespace: k.Namespace, Name: k.Name}, kind, ok, err
}

// Key is the random key, of 32 bytes, under which the values of this Sync's Secrets
// are masked. It stays the same for the life of the Sync, once something is applied.
func (w *Target) Key(ctx context.Context) ([]byte, error) {
	if err := w.mask.Load(ctx); err != nil {
		return nil, err
	}
	return w.mask.Key(), nil
}

// Watch reports, until ctx ends, the keys of objects that are no longer as we
// left them, as soon as their watch event arrives, by drift.Tracker.Watch.
func (w *Target) Watch(ctx context.Context, drifted func([]state.Key)) error {
	if _, err := w.store.Load(ctx); err != nil {
		return err
	}
	if err := w.mask.LoadFor(ctx, nil, w.store.Records()); err != nil {
		return err
	}
	w.drift.Watch(ctx, drifted)
	return nil
}

// Ready implements targets.Waiter. What the API server returned ready to its apply
// costs nothing; the others are watched, one watch a kind.
func (w *Target) Ready(ctx context.Context, keys []state.Key) (map[state.Key]string, error) {
	return w.ready.Ready(ctx, keys)
}

// CheckHealth is which objects have to be healthy from now on, by health.Checker.Set. Those that
// were applied are checked from the next Observe on.
func (w *Target) CheckHealth(spec v1alpha1.HealthCheckSpec) error { return w.health.Set(spec) }

// Health is what was found of the objects that have to be healthy.
func (w *Target) Health() targets.Health { return w.health.Health() }

// WatchHealth reports, until ctx ends, that Health has changed, by health.Checker.Watch. It needs
// Watch beside it.
func (w *Target) WatchHealth(ctx context.Context, changed func()) { w.health.Watch(ctx, changed) }

// StartPreview starts another comparison of a Target for a preview: the next
// desired state is what live Secrets count as holding. Any other Target ignores it.
func (w *Target) StartPreview() { w.diff.StartPreview() }

// Orphan deletes the inventory; the objects that it names stay, with the
// Sync's label, and belong to nobody.
func (w *Target) Orphan(ctx context.Context) error {
	if _, err := w.store.Load(ctx); err != nil {
		return err
	}
	if err := w.mask.DeleteKey(ctx); err != nil {
		return err
	}
	return w.store.DeleteAll(ctx)
}

// requests bounds the requests that one verb has under way.
const requests = 16
