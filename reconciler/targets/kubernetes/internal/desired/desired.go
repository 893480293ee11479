// Package desired makes from what Git declares the objects that a cluster should hold: as they
// are sent, those that a DevicePlugin stands for among them.
//
// It refuses what the cluster can never hold, each as a Problem of its place in Git. Start
// reading at State.Build.
package desired

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/mask"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ownership"
)

// Config is what a State needs.
type Config struct {
	// API reaches the cluster, Kinds are those that it serves.
	API   *api.Client
	Kinds *kinds.Catalog
	// Store is the inventory.
	Store *inventory.Store
	// Mask masks the values of Secrets.
	Mask *mask.Masker
	// Owner is the Sync.
	Owner ownership.Sync
	// Reveal puts the values of variables into a declared Secret; nil leaves it as it is.
	Reveal func(object map[string]any) (map[string]any, error)
	// Managed reports whether an object may be observed.
	Managed func(state.Key) bool
}

// State is the desired state of a cluster by one Sync. It is safe for concurrent use.
type State struct {
	cfg Config

	mu      sync.Mutex
	objects map[state.Key]details
}

// details are what the next verbs need of a wanted object beside its Item.
type details struct {
	// scaled is true where an autoscaler aims at it.
	scaled bool
	// plain is a Secret's unmasked object.
	plain map[string]any
	// hash is the hash of the wanted Object.
	hash string
}

// New makes a State without objects. It sends no request.
func New(c Config) *State { return &State{cfg: c, objects: map[state.Key]details{}} }

// Scaled reports whether an autoscaler writes the replicas of a wanted object.
func (w *State) Scaled(k state.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[k].scaled
}

// Unmasked is a wanted Secret as it is sent. It is false where Build has not returned that very
// Object, or Trim has dropped it since.
func (w *State) Unmasked(secret state.Item) (map[string]any, bool) {
	w.mu.Lock()
	m := w.objects[secret.Key]
	w.mu.Unlock()
	return m.plain, m.plain != nil && m.hash == state.Hash(secret.Object)
}

// Trim drops the unmasked content of Secrets until the next Build.
func (w *State) Trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, m := range w.objects {
		m.plain = nil
		w.objects[k] = m
	}
}

// Build returns the declared Kubernetes objects, and those that a
// DevicePlugin stands for, as they will be sent, labelled, in their waves, without
// what only a live object has; and the mistakes in the repository, whose objects are left out.
// The error is the cluster's.
func (w *State) Build(ctx context.Context, declared state.Set) (state.Set, []state.Problem, error) {
	items, mistakes := declared.Items(), []state.Problem(nil)
	if deviceplugin.Concerned(items) {
		var err error
		if declared, mistakes, err = w.expand(ctx, declared); err != nil {
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
	b := &itemCollector{state: w, objects: map[state.Key]details{}, origins: map[state.Key]state.Origin{}, problems: mistakes}
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
		if aims[item.Key] {
			item.Object, m.scaled = manifest.WithoutReplicas(item.Object), true
		}
		if kinds.IsSecret(item.Key) {
			m.plain = item.Object
			item.Object = w.cfg.Mask.Secret(item.Object)
		}
		m.hash = state.Hash(item.Object)
		b.objects[item.Key] = m
		items = append(items, item)
	}
	w.mu.Lock()
	w.objects = b.objects
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
	w.cfg.Kinds.Promise(definitions)
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

// itemCollector collects what is wanted.
type itemCollector struct {
	state    *State
	items    []state.Item
	objects  map[state.Key]details
	origins  map[state.Key]state.Origin
	problems []state.Problem
	// uninstalled are the objects of kinds that come with our installation.
	uninstalled []state.Item
}

func (b *itemCollector) problem(item state.Item, format string, args ...any) {
	b.problems = append(b.problems, state.Problem{Origin: item.Origin, Message: fmt.Sprintf(format, args...)})
}

// add takes one declared object. Its error is the cluster's, not the user's.
func (b *itemCollector) add(item state.Item) error {
	kind, known, err := b.state.cfg.Kinds.Find(kinds.GVK(item.Key, item.Version))
	if err != nil {
		return err
	}
	if !known {
		versions := b.state.cfg.Kinds.Versions(item.Key.Group, item.Key.Kind)
		if len(versions) == 0 && slices.Contains(installedGroups(), item.Key.Group) {
			b.uninstalled = append(b.uninstalled, item)
			return nil
		}
		b.problem(item, "%s", unknownKind(item, versions))
		return nil
	}
	switch {
	case !kind.Manageable:
		b.problem(item, "%s: the cluster does not let objects of this kind be listed, patched and deleted; take it out of the repository", item.Key)
		return nil
	case item.Key.Name == "":
		b.problem(item, "%s has no metadata.name (generateName cannot be reconciled); give it a name", item.Key.Kind)
		return nil
	}
	switch {
	case !kind.Namespaced:
		item.Key.Namespace = ""
	case item.Key.Namespace == "":
		item.Key.Namespace = "default"
	}
	metadata, _ := item.Object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	if inventory.Reserved(b.state.cfg.Owner.Namespace, item.Key, labels) || b.state.cfg.Mask.Owns(item.Key) {
		b.problem(item, "%s is where Poolwright keeps an inventory; choose another name, without the label %s", item.Key, inventory.Label)
		return nil
	}
	if first, twice := b.origins[item.Key]; twice {
		b.problem(item, "%s is declared twice, first at %s", item.Key, first)
		return nil
	}
	b.origins[item.Key] = item.Origin
	if revealed, err := b.state.reveal(item); err == nil {
		item.Object = revealed
	} else if class, _, _ := state.Classify(err); class == state.Stalled {
		b.problem(item, "%s: %v", item.Key, err)
		return nil
	} else {
		return fmt.Errorf("preparing %s: %w", item.Key, err)
	}
	b.items = append(b.items, manifest.Wanted(item, b.state.cfg.Owner.Label))
	return nil
}

func unknownKind(item state.Item, versions []string) string {
	if len(versions) > 0 {
		return fmt.Sprintf("%s: the cluster does not serve version %q of this kind, only %s; write it in one of those",
			item.Key, item.Version, strings.Join(versions, ", "))
	}
	return fmt.Sprintf("%s: the cluster does not serve the kind %s; commit its CustomResourceDefinition too, or install it first",
		item.Key, kinds.GVK(item.Key, item.Version).GroupKind())
}

// reveal is a declared object as it is sent. Only a Secret may hold marks: what is
// revealed is masked before it is shown.
func (w *State) reveal(item state.Item) (map[string]any, error) {
	if w.cfg.Reveal == nil || !kinds.IsSecret(item.Key) {
		return item.Object, nil
	}
	return w.cfg.Reveal(item.Object)
}
