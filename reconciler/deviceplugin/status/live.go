package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
)

// Live returns the DevicePlugin that counts in a cluster, and those that do not:
// of several, the oldest counts that is not being deleted, so that a second
// one changes nothing by coming, and takes over when the first one goes. It is nil
// where there is none.
func Live(ctx context.Context, reader client.Reader) (counts *v1alpha1.DevicePlugin, others []v1alpha1.DevicePlugin, err error) {
	var list v1alpha1.DevicePluginList
	if err := reader.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("listing DevicePlugins: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil, nil
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.DevicePlugin) int {
		return cmp.Or(terminating(a)-terminating(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &list.Items[0], list.Items[1:], nil
}

func terminating(p v1alpha1.DevicePlugin) int {
	if p.DeletionTimestamp.IsZero() {
		return 0
	}
	return 1
}

// LiveSharing is the Sharing of the DevicePlugin that counts; the zero one where
// there is none, or where it is being deleted.
func LiveSharing(reader client.Reader) func(context.Context) (gpu.Sharing, error) {
	return func(ctx context.Context) (gpu.Sharing, error) {
		counts, _, err := Live(ctx, reader)
		if err != nil || counts == nil || counts.DeletionTimestamp != nil {
			return gpu.Sharing{}, err
		}
		return deviceplugin.Sharing(counts), nil
	}
}
