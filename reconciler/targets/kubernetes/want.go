package kubernetes

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// adopt takes over what Want found out, and keeps what Observe did.
func (w *Target) adopt(memos map[state.Key]objectState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, old := range w.memos {
		if m, still := memos[k]; still && old.observedUID != "" {
			m.observedUID, m.clientSide, m.rivals = old.observedUID, old.clientSide, old.rivals
			memos[k] = m
		}
	}
	w.memos = memos
}

// Trim forgets the unmasked content of Secrets that Want left to Correct, which creates and
// updates no Secret until the next Want. It is safe for concurrent use with all verbs.
func (w *Target) Trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, m := range w.memos {
		m.plain = nil
		w.memos[k] = m
	}
}

// Want implements targets.Target: the declared Kubernetes objects, and those that a
// DevicePlugin stands for, as they will be sent, labelled, in their waves, without
// what only a live object has.
func (w *Target) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	items, mistakes := declared.Items(), []state.Problem(nil)
	if deviceplugin.Concerned(items) {
		var err error
		if declared, mistakes, err = w.expand(ctx, declared); err != nil {
			return state.Set{}, err
		}
		items = declared.Items()
	}
	var mine []state.Item
	for _, item := range items {
		if item.Key.Target == Name {
			mine = append(mine, item)
		}
	}
	if err := w.learn(ctx, mine); err != nil {
		return state.Set{}, err
	}
	if err := w.maskIfNeeded(ctx, mine); err != nil {
		return state.Set{}, err
	}
	b := &itemCollector{target: w, memos: map[state.Key]objectState{}, origins: map[state.Key]state.Origin{}, problems: mistakes}
	for _, item := range mine {
		if err := b.add(item); err != nil {
			return state.Set{}, err
		}
	}
	if err := b.notInstalled(); err != nil {
		return state.Set{}, err
	}
	aims, err := w.autoscaled(ctx, b.items)
	if err != nil {
		return state.Set{}, err
	}
	items = make([]state.Item, 0, len(b.items))
	for _, item := range b.items {
		m := b.memos[item.Key]
		if aims[item.Key] {
			item.Object, m.scaled = withoutReplicas(item.Object), true
		}
		if isSecret(item.Key) {
			m.plain = item.Object
			item.Object = w.mask.secret(item.Object)
		}
		m.hash = state.Hash(item.Object)
		b.memos[item.Key] = m
		items = append(items, item)
	}
	w.adopt(b.memos)
	w.setBase(items)
	if len(b.problems) > 0 {
		return state.NewSet(items...), &targets.ProblemsError{Problems: b.problems}
	}
	return state.NewSet(items...), nil
}

// learn makes sure that every kind of the items is looked up, with at most one
// question to the cluster.
func (w *Target) learn(ctx context.Context, items []state.Item) error {
	var definitions []map[string]any
	for _, item := range items {
		if item.Key.Kind == "CustomResourceDefinition" && item.Key.Group == "apiextensions.k8s.io" {
			definitions = append(definitions, item.Object)
		}
	}
	w.kinds.Promise(definitions)
	if !w.kinds.Loaded() {
		return w.kinds.Refresh(ctx)
	}
	for _, item := range items {
		if _, ok, err := w.kinds.Find(gvkOf(item)); !ok || err != nil {
			return w.kinds.Refresh(ctx)
		}
	}
	return nil
}

func gvkOf(item state.Item) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: item.Key.Group, Version: item.Version, Kind: item.Key.Kind}
}

// itemCollector collects what is wanted.
type itemCollector struct {
	target   *Target
	items    []state.Item
	memos    map[state.Key]objectState
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
	kind, known, err := b.target.kinds.Find(gvkOf(item))
	if err != nil {
		return err
	}
	if !known {
		versions := b.target.kinds.Versions(item.Key.Group, item.Key.Kind)
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
	if inventory.Reserved(b.target.cfg.Namespace, item.Key, labels) || b.target.mask.owns(item.Key) {
		b.problem(item, "%s is where Poolwright keeps an inventory; choose another name, without the label %s", item.Key, inventory.Label)
		return nil
	}
	if first, twice := b.origins[item.Key]; twice {
		b.problem(item, "%s is declared twice, first at %s", item.Key, first)
		return nil
	}
	b.origins[item.Key] = item.Origin
	if revealed, err := b.target.reveal(item); err == nil {
		item.Object = revealed
	} else if class, _, _ := state.Classify(err); class == state.Fix {
		b.problem(item, "%s: %v", item.Key, err)
		return nil
	} else {
		return fmt.Errorf("preparing %s: %w", item.Key, err)
	}
	item.Object = b.target.clean(item)
	item.Wave, item.Shrink = wave(item.Key, item.Object), kinds.Shrink(item.Key.Group, item.Key.Kind)
	item.Removal, item.Live, item.Owner, item.Applied = loss.Removal{}, state.Identity{}, owner.Reference{}, ""
	b.items = append(b.items, item)
	return nil
}

func unknownKind(item state.Item, versions []string) string {
	if len(versions) > 0 {
		return fmt.Sprintf("%s: the cluster does not serve version %q of this kind, only %s; write it in one of those",
			item.Key, item.Version, strings.Join(versions, ", "))
	}
	return fmt.Sprintf("%s: the cluster does not know the kind %s; commit its CustomResourceDefinition too, or install it first",
		item.Key, gvkOf(item).GroupKind())
}

// stripped are the annotations that exported copies carry and that belong to
// controllers: sent back, they would fight them, and drift every node.
func stripped(annotation string) bool {
	switch annotation {
	case "kubectl.kubernetes.io/last-applied-configuration",
		"deployment.kubernetes.io/revision",
		"karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version",
		"karpenter.k8s.aws/ec2nodeclass-hash", "karpenter.k8s.aws/ec2nodeclass-hash-version",
		"karpenter.sh/stored-version-migrated":
		return true
	}
	return strings.HasPrefix(annotation, "compatibility.karpenter.")
}

// clean copies an object without what only a live one has, and labels it.
func (w *Target) clean(item state.Item) map[string]any {
	out := maps.Clone(item.Object)
	delete(out, "status")
	metadata, _ := out["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	// Owners are named by their UIDs, which mean nothing in another cluster:
	// the garbage collector would delete the object as soon as it is made.
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink", "ownerReferences"} {
		delete(metadata, field)
	}
	metadata["name"] = item.Key.Name
	delete(metadata, "namespace")
	if item.Key.Namespace != "" {
		metadata["namespace"] = item.Key.Namespace
	}
	if old, ok := metadata["annotations"].(map[string]any); ok {
		kept := maps.Clone(old)
		maps.DeleteFunc(kept, func(k string, _ any) bool { return stripped(k) })
		metadata["annotations"] = kept
		if len(kept) == 0 {
			delete(metadata, "annotations")
		}
	}
	labels := map[string]any{}
	if old, ok := metadata["labels"].(map[string]any); ok {
		maps.Copy(labels, old)
	}
	labels[v1alpha1.SyncLabel] = w.label
	metadata["labels"] = labels
	out["metadata"] = metadata
	if isSecret(item.Key) {
		binary(out)
	}
	return out
}

// reveal is a declared object as it is sent. Only a Secret may hold marks: what is
// revealed is masked before anybody sees it.
func (w *Target) reveal(item state.Item) (map[string]any, error) {
	if w.cfg.Reveal == nil || w.cfg.Review || !isSecret(item.Key) {
		return item.Object, nil
	}
	return w.cfg.Reveal(item.Object)
}

// binary moves a Secret's stringData into data, as the API server would, so
// that both sides of a comparison have one form.
func binary(secret map[string]any) {
	plain, ok := secret["stringData"].(map[string]any)
	if !ok {
		return
	}
	data := map[string]any{}
	if old, ok := secret["data"].(map[string]any); ok {
		maps.Copy(data, old)
	}
	for k, v := range plain {
		if s, ok := v.(string); ok {
			data[k] = base64.StdEncoding.EncodeToString([]byte(s))
		} else {
			data[k] = v
		}
	}
	delete(secret, "stringData")
	secret["data"] = data
}
