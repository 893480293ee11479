// Package kubernetes is the Kubernetes target of one Sync: server-side apply, an
// inventory that is written ahead, pruning with preconditions, readiness, and
// a watch that distinguishes drift from noise without asking the API server.
//
// The package never compares Git with live objects directly: defaults,
// quantities and webhooks would flap. It compares what the API server answered
// to our own apply with what it shows now, and asks it (a dry run) only where
// that differs. See ../internal/fields for the arithmetic, ../internal/inventory for
// what is remembered.
//
// It refuses to conclude anything from a failed List, to delete anything but
// the observed incarnation, and to take fields from Flux or Argo CD. Start
// reading at Target.
package kubernetes

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Name is the Target in the keys of this target's items.
const Name = "cluster"

// Config is which cluster, and for which Sync.
type Config struct {
	// REST reaches the API server. Its rate limits are ignored: the API
	// server's own priority and fairness decides, and Limiter.
	REST *rest.Config
	// Sync is the Sync's name; everything that it owns carries it as a label.
	Sync string
	// Namespace holds the inventory: the controller's own namespace.
	Namespace string
	// Reveal puts the values of variables into a declared Secret, which has marks in
	// their place; nil knows of none. What it fails with for good (state.Fix) is a
	// Problem of that Secret alone.
	Reveal func(object map[string]any) (map[string]any, error)
	// Review is true for who compares revisions that a stranger may have written:
	// values of Secrets are neither filled in, so that Reveal is left aside, nor
	// compared with live ones. See Target.StartReview.
	Review bool
	// OnlyManaged is true for who answers people that may not read the cluster: it
	// observes what is in the Sync's inventory and nothing else, and sends the API
	// server no object but those of the revision that a review starts from. It goes
	// with Review, and never corrects.
	OnlyManaged bool
	// StopsEngine is true for who stops the engine by itself and waits for it before, such as
	// an uninstallation: no deletion or update waits for what the engine has yet to delete.
	StopsEngine bool
	// Limiter slows requests down; nil sends them as they come.
	Limiter flowcontrol.RateLimiter
	// Clock is the time; nil is the real one.
	Clock clock.Clock
	// Log gets one line for each thing worth knowing; the zero value is
	// silent.
	Log logr.Logger
}

// Target is the Kubernetes side of one Sync. Want must have been called before
// its items are observed or corrected. It is safe for concurrent use.
type Target struct {
	cfg   Config
	label string
	api   *api.Client
	kinds *kinds.Catalog
	store *inventory.Store
	flaps *flaps
	watch *tracker
	mask  *masker

	mu sync.Mutex
	// memos holds what the verbs must know of an object beside its Item.
	memos map[state.Key]objectState
	// states holds the readiness that the last answer showed.
	states map[state.Key]readiness
	remembered
}

// remembered is what one verb leaves to the next about more than one object.
type remembered struct {
	review review
	// coverage is what the last observation saw of device plugins.
	coverage pluginCoverage
}

// objectState is what one verb hands to the next about an object.
type objectState struct {
	// scaled is true where an autoscaler aims at it (from Want).
	scaled bool
	// plain is a Secret's unmasked object (from Want).
	plain map[string]any
	// hash is the hash of the wanted Object (from Want).
	hash string
	// observedUID is the incarnation that Observe compared, and what it found there.
	observedUID string
	// clientSide is true where kubectl's client-side apply owns fields.
	clientSide bool
	// rivals are the managers that changed what differs.
	rivals []string
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
	prefix := inventory.Short(cfg.Sync, 200) + "-inventory"
	w := &Target{
		cfg: cfg, label: label, api: client,
		mask:  newMasker(client, cfg.Namespace, prefix),
		kinds: kinds.NewCatalog(client.Discovery()),
		store: inventory.NewStore(client, inventory.Place{
			Target: Name, Namespace: cfg.Namespace, Prefix: prefix, Value: label, ReadOnly: cfg.OnlyManaged,
		}),
		flaps: newFlaps(cfg.Clock),
		memos: map[state.Key]objectState{}, states: map[state.Key]readiness{},
	}
	w.watch = newTracker(w)
	return w, nil
}

// LabelValue is the value of [v1alpha1.SyncLabel] on what a Sync applies: its name
// where that can be a label's value, else a part of it with a hash.
func LabelValue(sync string) string { return inventory.Short(sync, 63) }

// selector selects the objects of this Sync.
func (w *Target) selector() string { return v1alpha1.SyncLabel + "=" + w.label }

func (w *Target) stateOf(k state.Key) objectState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.memos[k]
}

// maskIfNeeded makes sure that Secrets can be masked, where there are any.
func (w *Target) maskIfNeeded(ctx context.Context, wanted []state.Item) error {
	for _, item := range wanted {
		if isSecret(item.Key) {
			return w.mask.load(ctx)
		}
	}
	for _, r := range w.store.Records() {
		if isSecret(r.Key) {
			return w.mask.load(ctx)
		}
	}
	return nil
}

// options are how the object with that key is judged.
func (w *Target) options(k state.Key) fields.Options {
	o := fields.Options{
		Manager: v1alpha1.FieldManager,
		Whole:   kinds.Whole(k.Group, k.Kind),
		Scaled:  w.stateOf(k).scaled,
	}
	if isSecret(k) {
		o.Secret = w.mask.hash
	}
	return o
}

// ref finds the resource of a key. It reports false for a kind that the
// cluster does not serve.
func (w *Target) ref(ctx context.Context, k state.Key, version string) (api.Ref, kinds.Kind, bool, error) {
	gvk := schema.GroupVersionKind{Group: k.Group, Version: version, Kind: k.Kind}
	kind, ok, err := w.kinds.Lookup(ctx, gvk)
	return api.Ref{Resource: kind.GVR(), Namespace: k.Namespace, Name: k.Name}, kind, ok, err
}

// Forget deletes the inventory; the objects that it names stay, with the
// Sync's label, and belong to nobody.
func (w *Target) Forget(ctx context.Context) error {
	if _, err := w.store.Load(ctx); err != nil {
		return err
	}
	if err := w.mask.destroy(ctx); err != nil {
		return err
	}
	return w.store.Destroy(ctx)
}

func isSecret(k state.Key) bool { return k.Group == "" && k.Kind == "Secret" }

// requests bounds the requests that one verb has under way.
const requests = 16
