package desired

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// changedDriver is why a declared DevicePlugin must not be carried out where it gives pools with GPU nodes to the DRA
// driver, or takes them from it, or partitions their GPUs by MIG otherwise; empty where it may. Pods on these nodes have GPUs, and
// what comes after does not have which.
//
// A DevicePlugin that has no draDriver and never had one here, and no mig after the first observation, takes no request.
func (w *State) changedDriver(ctx context.Context, items []state.Item) (finding.Finding, error) {
	declared, valid := deviceplugin.DeclaredSharing(items)
	if !valid {
		return finding.Finding{}, nil // There is none, or Expand reports what is wrong with it.
	}
	plugin := items[slices.IndexFunc(items, func(item state.Item) bool { return kinds.IsDevicePlugin(item.Key) })]
	plugin.Key.Namespace = ""
	held, err := w.recorded(ctx, plugin.Key)
	if err != nil {
		return finding.Finding{}, err
	}
	none := !deviceplugin.HasDRADriver(declared) && !deviceplugin.HasMIG(declared)
	if _, had := w.cfg.Store.Get(deviceplugin.DRAAccount()); held && !had && none && w.withoutMIG.Load() {
		return finding.Finding{}, nil
	}
	live, err := w.liveSharing(ctx, plugin)
	if err != nil {
		return finding.Finding{}, err
	}
	w.withoutMIG.Store(!deviceplugin.HasMIG(declared) && !deviceplugin.HasMIG(live))
	if none && !deviceplugin.HasDRADriver(live) && !deviceplugin.HasMIG(live) {
		return finding.Finding{}, nil
	}
	pools, err := karpenter.ClaimedPools(ctx, w.cfg.API, deviceplugin.NVIDIASelector)
	if err != nil {
		return finding.Finding{}, err
	}
	return poolsHaveNodes(live, declared, slices.Sorted(maps.Keys(pools))), nil
}

// poolsHaveNodes is why pools with NodeClaims that have GPUs must not be changed from what is live to what is declared; empty where
// they may.
func poolsHaveNodes(live, declared gpu.Sharing, claimed []string) finding.Finding {
	if changed := deviceplugin.MIGChanges(live, declared, claimed); len(changed) > 0 {
		return finding.New(codeMIGPoolHasNodes, "compared with the cluster's DevicePlugin it partitions otherwise, by MIG, the GPUs of NodePool %s, which has NodeClaims with GPUs, and GPUs are partitioned once, when their node starts: make a new NodePool with a configuration of its own, or delete those NodeClaims first",
			finding.As("nodePools", changed, strings.Join(changed, ", ")))
	}
	changed := deviceplugin.DRAChanges(live, declared, claimed)
	if len(changed) == 0 {
		return finding.Finding{}
	}
	return finding.New(codeDRADriverPoolHasNodes, "compared with the cluster's DevicePlugin it begins or ends to have draDriver for NodePool %s, which has NodeClaims with GPUs, and what pods have of these would be advertised a second time: make a new NodePool with a configuration of its own, or delete those NodeClaims first",
		finding.As("nodePools", changed, strings.Join(changed, ", ")))
}

// liveSharing is what the live DevicePlugin of the declared one's name declares of GPUs; nothing where there is none.
func (w *State) liveSharing(ctx context.Context, plugin state.Item) (gpu.Sharing, error) {
	kind, served, err := w.cfg.Kinds.Lookup(ctx, kinds.GVK(plugin.Key, plugin.Version))
	if err != nil || !served {
		return gpu.Sharing{}, err
	}
	live, err := w.cfg.API.Get(ctx, api.Ref{Resource: kind.GVR(), Name: plugin.Key.Name})
	switch {
	case apierrors.IsNotFound(err):
		return gpu.Sharing{}, nil
	case err != nil:
		return gpu.Sharing{}, api.Refused("reading the cluster's DevicePlugin", err, false)
	}
	decoded := &v1alpha1.DevicePlugin{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, decoded); err != nil {
		return gpu.Sharing{}, fmt.Errorf("decoding the cluster's DevicePlugin %s: %w", plugin.Key.Name, err)
	}
	return deviceplugin.Sharing(decoded), nil
}
