package eks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Logging are what EKS control planes log:
//
//	types  sorted list of the log types that are on
type Logging struct{ resource.NeverDeleted }

// Desired implements resource.Kind.
func (Logging) Desired(s resource.Declaration) []state.Item {
	l := s.Spec.Logging
	// A spec.logging that sets the retention alone declares no types. An empty list
	// does: nothing is logged.
	if l == nil || l.Types == nil {
		return nil
	}
	k := s.Regional("eks", "Logging", s.Cluster)
	return []state.Item{s.Shared(k, resource.WaveLast, l.Adopt, map[string]any{"types": resource.Strings(l.Types)})}
}

// Read implements resource.Kind.
func (Logging) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return eachCluster(ctx, c, keys, func(k *ekstypes.Cluster) resource.Live {
		out := resource.Live{Object: map[string]any{"types": resource.Strings(logTypes(k))}}
		switch k.Status {
		case ekstypes.ClusterStatusUpdating, ekstypes.ClusterStatusPending, ekstypes.ClusterStatusCreating, ekstypes.ClusterStatusDeleting:
			out.Pending = "the control plane is " + string(k.Status)
		default:
		}
		return out
	})
}

// logTypes are the log types that are on. EKS responds with one entry for those
// that are on and one for the others, or with fewer.
func logTypes(k *ekstypes.Cluster) []ekstypes.LogType {
	var on []ekstypes.LogType
	if k.Logging == nil {
		return nil
	}
	for _, setup := range k.Logging.ClusterLogging {
		if sdk.ToBool(setup.Enabled) {
			on = append(on, setup.Types...)
		}
	}
	slices.Sort(on)
	return slices.Compact(on)
}

// eachCluster reads the cluster for each key: there is one of each kind.
func eachCluster(ctx context.Context, c *resource.Clients, keys []state.Key, read func(*ekstypes.Cluster) resource.Live) map[state.Key]resource.Live {
	out := make(map[state.Key]resource.Live, len(keys))
	for _, k := range keys {
		found, err := describeCluster(ctx, c)
		switch {
		case awserr.IsNotFound(err):
			out[k] = resource.Live{Missing: missingCluster(c.Scope)}
		case err != nil:
			out[k] = resource.Live{Err: err}
		case found == nil:
			out[k] = resource.Live{Err: errors.New("EKS responded without a cluster")}
		default:
			observed := read(found)
			observed.UID = fmt.Sprintf("%s#%d", sdk.ToString(found.Arn), sdk.ToTime(found.CreatedAt).Unix())
			out[k] = observed
		}
	}
	return out
}

// missingCluster is what is missing of everything in a cluster that does not exist.
func missingCluster(p resource.Scope) string {
	return fmt.Sprintf("EKS has no cluster %q in %s of account %s: correct spec.name, spec.region or spec.account", p.Cluster, p.Region, p.Account)
}

// Write implements resource.Kind.
func (Logging) Write(ctx context.Context, c *resource.Clients, desired state.Item, _ resource.Live) error {
	types, _ := desired.Object["types"].([]any)
	var on, off []ekstypes.LogType
	for _, t := range ekstypes.LogType("").Values() {
		if slices.Contains(types, any(string(t))) {
			on = append(on, t)
		} else {
			off = append(off, t)
		}
	}
	var setups []ekstypes.LogSetup
	if len(on) > 0 {
		setups = append(setups, ekstypes.LogSetup{Types: on, Enabled: sdk.Bool(true)})
	}
	if len(off) > 0 {
		setups = append(setups, ekstypes.LogSetup{Types: off, Enabled: sdk.Bool(false)})
	}
	_, err := c.EKS.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: &desired.Key.Name, Logging: &ekstypes.Logging{ClusterLogging: setups}})
	return updated(err)
}

// updated reads the response to an update that EKS carries out by and by. That
// there is nothing to update means that somebody else, or an update whose response
// was lost, was first; its code, InvalidParameterException, is that of every parameter, so that the message decides. That
// EKS is at another update has no code of its own: the
// code would report that what is to be changed exists already.
func updated(err error) error {
	if refused, ok := errors.AsType[*ekstypes.InvalidParameterException](err); ok && strings.Contains(strings.ToLower(refused.ErrorMessage()), "no changes needed") {
		return nil
	}
	if busy, ok := errors.AsType[*ekstypes.ResourceInUseException](err); ok {
		return errors.New("EKS is at another update: " + busy.ErrorMessage())
	}
	return err
}
