// Package desired makes from what Git declares the objects that a cluster should hold: as they
// are sent, those that a DevicePlugin stands for among them.
//
// It refuses what the cluster can never hold, each as a Problem of its place in Git. Start
// reading at State.Build.
package desired

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/pointer"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ignore"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/mask"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ownership"
)

// Config is what a State needs.
type Config struct {
	// API reaches the cluster, Kinds are those that it serves.
	API   *api.Client
	Kinds *kinds.RESTMapper
	// Store is the inventory.
	Store *inventory.Store
	// Mask masks the values of Secrets.
	Mask *mask.Masker
	// Owner is the Sync.
	Owner ownership.Sync
	// Reveal puts the values of variables into a declared Secret; nil leaves it as it is.
	Reveal func(object map[string]any) (map[string]any, error)
	// Ignore are the fields that are not corrected.
	Ignore ignore.Rules
	// Managed reports whether an object may be observed.
	Managed func(state.Key) bool
}

// State is the desired state of a cluster by one Sync. It is safe for concurrent use.
type State struct {
	cfg Config
	// withoutMIG is true when neither the declared DevicePlugin nor the cluster's partitioned GPUs by MIG when both were last
	// compared.
	withoutMIG atomic.Bool

	mu      sync.Mutex
	objects map[state.Key]details
	// unused are the rules of Ignore that matched no object.
	unused []int
}

// details are what the next verbs need of a desired object beside its Item.
type details struct {
	// ignored are JSON pointers to the fields of which the live value stays, those that an autoscaler
	// writes included.
	ignored []string
	// unmasked is a Secret's unmasked object.
	unmasked map[string]any
	// object is the desired Object, and hash the hash of it.
	object map[string]any
	hash   string
}

// New makes a State without objects. It sends no request.
func New(c Config) *State { return &State{cfg: c, objects: map[state.Key]details{}} }

// Ignored are JSON pointers to the fields of a desired object of which the live value stays: what the
// Sync ignores, and the replicas where an autoscaler writes them.
func (w *State) Ignored(k state.Key) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[k].ignored
}

// UnusedRules are the indices in spec.ignore of the rules that match no object.
func (w *State) UnusedRules() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unused
}

// Unmasked is a desired Secret as it is sent. It is false where Build has not returned that very
// Object, or Trim has dropped it since.
func (w *State) Unmasked(secret state.Item) (map[string]any, bool) {
	w.mu.Lock()
	m := w.objects[secret.Key]
	w.mu.Unlock()
	return m.unmasked, m.unmasked != nil && m.hash == secret.Hash()
}

// Hash is the hash of a desired Object, which was taken already where Build has returned that very
// Object.
func (w *State) Hash(desired state.Item) string {
	w.mu.Lock()
	m := w.objects[desired.Key]
	w.mu.Unlock()
	if m.object != nil && reflect.ValueOf(m.object).Pointer() == reflect.ValueOf(desired.Object).Pointer() {
		return m.hash
	}
	return desired.Hash()
}

// Trim drops the unmasked content of Secrets, and all other objects, until the next Build.
func (w *State) Trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, m := range w.objects {
		m.unmasked, m.object = nil, nil
		w.objects[k] = m
	}
}

// Build returns the declared Kubernetes objects, and those that a
// DevicePlugin stands for, as they will be sent, labelled, in their waves, without
// what only a live object has; and the problems in the repository, whose objects are left out.
// The error is the cluster's.
func (w *State) Build(ctx context.Context, declared state.Set) (state.Set, []state.Problem, error) {
	if err := w.cfg.Ignore.Err(); err != nil {
		return state.Set{}, nil, err
	}
	items, problems, written := declared.Items(), []state.Problem(nil), declared
	if deviceplugin.NeedsExpansion(items) {
		var err error
		if declared, problems, err = w.expand(ctx, declared); err != nil {
			return state.Set{}, nil, err
		}
		items = declared.Items()
	}
	var mine []state.Item
	for _, item := range items {
		if item.Key.Target == kinds.Target {
			mine = append(mine, item)
		}
	}
	if err := w.discover(ctx, mine); err != nil {
		return state.Set{}, nil, err
	}
	if err := w.cfg.Mask.LoadFor(ctx, mine, w.cfg.Store.Records()); err != nil {
		return state.Set{}, nil, err
	}
	b := &itemCollector{state: w, declared: written, ignored: w.cfg.Ignore.Begin(), objects: map[state.Key]details{}, origins: map[state.Key]state.Origin{}, problems: problems}
	for _, item := range mine {
		if err := b.add(item); err != nil {
			return state.Set{}, nil, err
		}
	}
	if err := b.notInstalled(); err != nil {
		return state.Set{}, nil, err
	}
	aims, err := w.autoscaled(ctx, b.items)
	if err != nil {
		return state.Set{}, nil, err
	}
	items = make([]state.Item, 0, len(b.items))
	for _, item := range b.items {
		m := b.objects[item.Key]
		m.ignored = item.Ignore
		if aims[item.Key] {
			item.Object = manifest.WithoutReplicas(item.Object)
			m.ignored = ignore.Add(m.ignored, pointer.Pointer{"spec", "replicas"})
		}
		if kinds.IsSecret(item.Key) {
			m.unmasked = item.Object
			item.Object = w.cfg.Mask.Secret(item.Object)
		}
		item.HoldUntil, item.HoldReason = manifest.DeclaredHold(item.Object)
		m.object, m.hash = item.Object, item.Hash()
		b.objects[item.Key] = m
		items = append(items, item)
	}
	w.mu.Lock()
	w.objects, w.unused = b.objects, b.ignored.Unused()
	w.mu.Unlock()
	return state.NewSet(items...), b.problems, nil
}

// discover makes sure that every kind of the items is found, with at most one request to
// the cluster.
func (w *State) discover(ctx context.Context, items []state.Item) error {
	var definitions []map[string]any
	for _, item := range items {
		if item.Key.Kind == "CustomResourceDefinition" && item.Key.Group == "apiextensions.k8s.io" {
			definitions = append(definitions, item.Object)
		}
	}
	w.cfg.Kinds.SetDeclared(definitions)
	if !w.cfg.Kinds.Loaded() {
		return w.cfg.Kinds.Refresh(ctx)
	}
	for _, item := range items {
		if _, ok, err := w.cfg.Kinds.Find(kinds.GVK(item.Key, item.Version)); !ok || err != nil {
			return w.cfg.Kinds.Refresh(ctx)
		}
	}
	return nil
}
