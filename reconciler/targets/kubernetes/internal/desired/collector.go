package desired

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ignore"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// itemCollector collects what is desired.
type itemCollector struct {
	state    *State
	items    []state.Item
	objects  map[state.Key]details
	origins  map[state.Key]state.Origin
	problems []state.Problem
	// declared is what the repository itself declares, without what a DevicePlugin stands for.
	declared state.Set
	ignored  *ignore.Matching
	// uninstalled are the objects of kinds that come with our installation.
	uninstalled []state.Item
}

func (b *itemCollector) problem(item state.Item, code finding.Code, format string, args ...any) {
	b.problems = append(b.problems, state.NewProblem(item.Origin, finding.New(code, format, args...)))
}

// refuse reports what is wrong with an object because of a field.
func (b *itemCollector) refuse(item state.Item, field string, f finding.Finding) {
	refused := state.NewProblem(item.Origin, f)
	refused.Object, refused.Field, refused.Message, refused.Detail = item.Key, field, item.Key.String()+": "+f.Text, f.Text
	b.problems = append(b.problems, refused)
}

// add takes one declared object. Its error is the cluster's, not the user's.
func (b *itemCollector) add(item state.Item) error {
	written := item.Key
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
		b.refuse(item, "apiVersion", unknownKind(item, versions))
		return nil
	}
	switch {
	case !kind.Manageable:
		b.refuse(item, "kind", finding.New(codeKindNotManageable, "the cluster does not let objects of this kind be listed, patched and deleted; take it out of the repository"))
		return nil
	case item.Key.Name == "":
		b.problem(item, finding.NameMissing, "%s has no metadata.name (generateName cannot be reconciled); give it a name", finding.NewFact("kind", item.Key.Kind))
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
		b.problem(item, codeInventoryReserved, "%s is where Poolwright keeps an inventory; choose another name, without the label %s",
			finding.NewFact("object", item.Key), finding.NewFact("label", inventory.Label))
		return nil
	}
	if first, twice := b.origins[item.Key]; twice {
		b.problem(item, finding.DuplicateObject, "%s is declared twice, first at %s", finding.NewFact("object", item.Key), finding.NewFact("declaredAt", first))
		return nil
	}
	b.origins[item.Key] = item.Origin
	if revealed, err := b.state.reveal(item); err == nil {
		item.Object = revealed
	} else if class, _, _ := state.Classify(err); class == state.Stalled {
		b.refuse(item, "data", finding.New(codeSecretDataInvalid, "%v", finding.NewFact("reason", err)))
		return nil
	} else {
		return fmt.Errorf("preparing %s: %w", item.Key, err)
	}
	item = manifest.Desired(item, b.state.cfg.Owner.Label)
	b.collect(item, written)
	return nil
}

// collect takes an object that is desired, and finds what is ignored of it where the repository itself
// declares it, under the key that is written there.
func (b *itemCollector) collect(item state.Item, written state.Key) {
	if refused, found := ignore.Declared(item); found {
		b.problems = append(b.problems, refused)
		return
	}
	if _, ok := b.declared.Get(written); ok {
		var refused []state.Problem
		item, refused = b.ignored.Apply(item)
		b.problems = append(b.problems, refused...)
	}
	b.items = append(b.items, item)
}

func unknownKind(item state.Item, versions []string) finding.Finding {
	if len(versions) > 0 {
		return finding.New(codeKindVersionNotServed, "the cluster does not serve version %q of this kind, only %s; write it in one of those",
			finding.NewFact("version", item.Version), finding.As("served", versions, strings.Join(versions, ", ")))
	}
	return finding.New(codeKindNotServed, "the cluster does not serve the kind %s; commit its CustomResourceDefinition too, or install it first",
		finding.NewFact("kind", kinds.GVK(item.Key, item.Version).GroupKind().String()))
}

// reveal is a declared object as it is sent. Only a Secret may hold marks: what is
// revealed is masked before it is shown.
func (w *State) reveal(item state.Item) (map[string]any, error) {
	if w.cfg.Reveal == nil || !kinds.IsSecret(item.Key) {
		return item.Object, nil
	}
	return w.cfg.Reveal(item.Object)
}

// installedGroups are the groups whose kinds our installation brings.
func installedGroups() []string {
	return []string{v1alpha1.GroupVersion.Group, "karpenter.sh", "karpenter.k8s.aws"}
}

// notInstalled reports once, for all objects of such kinds, that the installation is
// missing: a new user's first plan should not repeat it for every object.
func (b *itemCollector) notInstalled() error {
	if len(b.uninstalled) == 0 {
		return nil
	}
	var missing []string
	for _, item := range b.uninstalled {
		missing = append(missing, kinds.GVK(item.Key, item.Version).GroupKind().String())
	}
	slices.Sort(missing)
	list := strings.Join(slices.Compact(missing), ", ")
	_, ours, err := b.state.cfg.Kinds.Find(v1alpha1.GroupVersion.WithKind("Sync"))
	if err != nil {
		return err
	}
	_, pools, err := b.state.cfg.Kinds.Find(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"})
	if err != nil {
		return err
	}
	switch {
	case pools && list == "NodeOverlay.karpenter.sh":
		b.refuse(b.uninstalled[0], "kind", finding.New(codeNodeOverlaysNotInstalled, "the cluster has NodePools and no NodeOverlays, by which Karpenter learns how many pods share a GPU. The embedded engine brings them; beside a Karpenter of your own, install the CustomResourceDefinition nodeoverlays.karpenter.sh of its version and turn on its feature gate NodeOverlay"))
	case ours:
		b.problem(b.uninstalled[0], codePoolwrightNotInstalled, "kinds of Poolwright's installation are missing in this cluster: the controller installs them when it starts, and so does `poolwright bootstrap DIR`: %s", finding.NewFact("kinds", list))
	default:
		b.problem(b.uninstalled[0], codePoolwrightNotInstalled, "Poolwright is not installed in this cluster: run `poolwright bootstrap DIR`, which brings these kinds: %s", finding.NewFact("kinds", list))
	}
	return nil
}
