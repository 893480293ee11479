package desired

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

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
		b.problem(b.uninstalled[0], "%s: the cluster has NodePools and no NodeOverlays, by which Karpenter learns how many pods share a GPU. The embedded engine brings them; beside a Karpenter of your own, install the CustomResourceDefinition nodeoverlays.karpenter.sh of its version and turn on its feature gate NodeOverlay", b.uninstalled[0].Key)
	case ours:
		b.problem(b.uninstalled[0], "kinds of Poolwright's installation are missing in this cluster: the controller installs them when it starts, and so does `poolwright bootstrap DIR`: %s", list)
	default:
		b.problem(b.uninstalled[0], "Poolwright is not installed in this cluster: run `poolwright bootstrap DIR`, which brings these kinds: %s", list)
	}
	return nil
}
