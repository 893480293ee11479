package desired

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// expand adds what a DevicePlugin stands for, unless the cluster has another one, or pods have GPUs that it would offer
// once more.
func (w *State) expand(ctx context.Context, declared state.Set) (state.Set, []state.Problem, error) {
	items := declared.Items()
	why, err := w.otherPlugin(ctx, items)
	if err == nil && why.Code == "" {
		why, err = w.changedDriver(ctx, items)
	}
	if err != nil {
		return state.Set{}, nil, err
	}
	if why.Code != "" {
		declared, problems := deviceplugin.Refuse(declared, why)
		return declared, problems, nil
	}
	declared, problems := deviceplugin.ExpandKeeping(declared, w.overlaid(items))
	return declared, problems, nil
}

// overlaid are the numbers of GPUs for which we have made overlays of pools that configurations
// name and that are not declared, by the inventory, which otherPlugin has loaded: those of a
// pool that leaves, or has left, stay as they are, and no other is made. A pool that was
// never declared here, and has none yet, is not among them.
func (w *State) overlaid(items []state.Item) map[string][]int {
	ours := func(k state.Key) bool { _, known := w.cfg.Store.Get(k); return known }
	out := map[string][]int{}
	for _, name := range deviceplugin.Undeclared(items) {
		counts := deviceplugin.Overlaid(name, ours)
		if len(counts) > 0 || ours(state.Key{Target: kinds.Target, Group: "karpenter.sh", Kind: "NodePool", Name: name}) {
			out[name] = counts
		}
	}
	return out
}

// otherPlugin is why a declared DevicePlugin must not be carried out; empty where
// it may. What is watched over on the nodes is the DevicePlugin that the cluster has
// already: plugins and numbers of another beside it would be taken for broken nodes.
//
// Once the inventory holds the DevicePlugin it is the one, and the cluster is not read
// any more.
func (w *State) otherPlugin(ctx context.Context, items []state.Item) (finding.Finding, error) {
	declared := slices.DeleteFunc(slices.Clone(items), func(item state.Item) bool { return !kinds.IsDevicePlugin(item.Key) })
	if len(declared) != 1 {
		return finding.Finding{}, nil // There is none, or Expand reports that there is one too many.
	}
	mine := declared[0].Key
	mine.Namespace = ""
	if held, err := w.recorded(ctx, mine); held || err != nil {
		return finding.Finding{}, err
	}
	kind, served, err := w.cfg.Kinds.Lookup(ctx, kinds.GVK(declared[0].Key, declared[0].Version))
	if err != nil || !served {
		return finding.Finding{}, err
	}
	var live []*metav1.PartialObjectMetadata
	err = w.cfg.API.Names(ctx, api.Ref{Resource: kind.GVR()}, "", "", func(m *metav1.PartialObjectMetadata) { live = append(live, m.DeepCopy()) })
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		return finding.Finding{}, nil // That this one cannot be made either is reported when it is tried.
	case err != nil:
		return finding.Finding{}, api.Refused("reading the cluster's DevicePlugin", err, false)
	}
	slices.SortFunc(live, func(a, b *metav1.PartialObjectMetadata) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range live {
		if !w.cfg.Managed(state.Key{Target: kinds.Target, Group: mine.Group, Kind: mine.Kind, Name: m.Name}) {
			continue
		}
		if why, err := w.contradicts(ctx, mine.Name, m); why.Code != "" || err != nil {
			return why, err
		}
	}
	return finding.Finding{}, nil
}

// recorded reports whether the inventory has a live object of the key.
func (w *State) recorded(ctx context.Context, k state.Key) (bool, error) {
	rec, known := w.cfg.Store.Get(k)
	if !known {
		if _, err := w.cfg.Store.Load(ctx); err != nil {
			return false, err
		}
		rec, known = w.cfg.Store.Get(k)
	}
	return known && rec.Fingerprint.UID != "", nil
}

// contradicts is why a DevicePlugin of a name cannot be made beside a live one, or
// of it. One of its own name that nobody manages any more is taken over, as anything
// else is.
func (w *State) contradicts(ctx context.Context, name string, live *metav1.PartialObjectMetadata) (finding.Finding, error) {
	label := live.Labels[v1alpha1.SyncLabel]
	foreign := label != "" && label != w.cfg.Owner.Label
	if foreign && live.Name == name {
		lives, err := w.cfg.Owner.Lives(ctx, label)
		if err != nil || !lives {
			return finding.Finding{}, err
		}
		return finding.New(codeDevicePluginOfOther, "the cluster has it from the Sync %s already: declare it in one of the two", finding.NewFact("sync", label)), nil
	}
	const twice = "and with two of them it would be unclear how GPUs are shared"
	switch {
	case live.Name == name:
		return finding.Finding{}, nil
	case foreign:
		return finding.New(codeDevicePluginOfOther, "the cluster has the DevicePlugin %s of the Sync %s, %s: declare the configurations there, or delete it",
			finding.NewFact("devicePlugin", live.Name), finding.NewFact("sync", label), twice), nil
	case label == "":
		return finding.New(codeDevicePluginOfOther, "the cluster has the DevicePlugin %s, which no Sync manages, %s: give this one its name, or delete it",
			finding.NewFact("devicePlugin", live.Name), twice), nil
	}
	return finding.New(codeDevicePluginRenamed, "the cluster has the DevicePlugin %s, which this Sync made, %s: keep that name", finding.NewFact("devicePlugin", live.Name), twice), nil
}
