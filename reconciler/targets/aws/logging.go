package aws

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
)

// loggings are what EKS control planes log:
//
//	types  sorted list of the log types that are on
type loggings struct{ neverDeleted }

func (loggings) want(s scope) []state.Item {
	l := s.spec.Logging
	// A part that sets the retention alone says nothing of types. An empty list
	// does: nothing is logged.
	if l == nil || l.Types == nil {
		return nil
	}
	k := s.regional("eks", "Logging", s.Cluster)
	return []state.Item{s.amended(k, waveLast, l.Adopt, map[string]any{"types": strs(l.Types)})}
}

func (loggings) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	return eachCluster(ctx, c, keys, func(k *ekstypes.Cluster) liveResource {
		out := liveResource{object: map[string]any{"types": strs(logTypes(k))}}
		switch k.Status {
		case ekstypes.ClusterStatusUpdating, ekstypes.ClusterStatusPending, ekstypes.ClusterStatusCreating, ekstypes.ClusterStatusDeleting:
			out.pending = "the control plane is " + string(k.Status)
		default:
		}
		return out
	})
}

// logTypes are the log types that are on. EKS answers with one entry for those
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
func eachCluster(ctx context.Context, c *clients, keys []state.Key, look func(*ekstypes.Cluster) liveResource) map[state.Key]liveResource {
	out := make(map[state.Key]liveResource, len(keys))
	for _, k := range keys {
		found, err := c.cluster(ctx)
		switch {
		case gone(err):
			out[k] = liveResource{missing: c.place.missingCluster()}
		case err != nil:
			out[k] = liveResource{err: err}
		case found == nil:
			out[k] = liveResource{err: errors.New("EKS answered without a cluster")}
		default:
			seen := look(found)
			seen.uid = fmt.Sprintf("%s#%d", sdk.ToString(found.Arn), sdk.ToTime(found.CreatedAt).Unix())
			out[k] = seen
		}
	}
	return out
}

// missingCluster is what is missing of all parts of a cluster that does not exist.
func (p place) missingCluster() string {
	return fmt.Sprintf("EKS has no cluster %q in %s of account %s: correct spec.name, spec.region or spec.account", p.Cluster, p.Region, p.Account)
}

func (loggings) write(ctx context.Context, c *clients, wanted state.Item, _ liveResource) error {
	types, _ := wanted.Object["types"].([]any)
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
	_, err := c.eks.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: &wanted.Key.Name, Logging: &ekstypes.Logging{ClusterLogging: setups}})
	return updated(err)
}

// updated reads the answer to an update that EKS carries out by and by. That
// there is nothing to update means that somebody else, or an update whose answer
// was lost, was first. That EKS is at another update has no code of its own: the
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
