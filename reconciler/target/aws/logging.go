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
type loggings struct{ keeper }

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

func (loggings) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]sighting {
	return eachCluster(ctx, c, keys, func(k *ekstypes.Cluster) sighting {
		out := sighting{object: map[string]any{"types": strs(logTypes(k))}}
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

// eachCluster reads the cluster of each key, once.
func eachCluster(ctx context.Context, c *clients, keys []state.Key, look func(*ekstypes.Cluster) sighting) map[state.Key]sighting {
	out := make(map[state.Key]sighting, len(keys))
	for _, k := range keys {
		found, err := describeCluster(ctx, c, k.Name)
		if err != nil {
			out[k] = sighting{err: err}
			continue
		}
		seen := look(found)
		seen.uid = fmt.Sprintf("%s#%d", sdk.ToString(found.Arn), sdk.ToTime(found.CreatedAt).Unix())
		out[k] = seen
	}
	return out
}

// describeCluster reads a control plane. One that does not exist is an error
// that says so: Poolwright makes none, and nothing can be told of its parts.
func describeCluster(ctx context.Context, c *clients, name string) (*ekstypes.Cluster, error) {
	answer, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &name})
	if gone(err) {
		return nil, errNoCluster(c.place, name)
	}
	if err != nil {
		return nil, err
	}
	if answer.Cluster == nil {
		return nil, errors.New("EKS answered without a cluster")
	}
	return answer.Cluster, nil
}

func errNoCluster(p place, name string) error {
	return fmt.Errorf("%w: EKS has no cluster %q in %s: correct spec.name, spec.region or spec.account", errNoSuch, name, p.Region)
}

func (loggings) write(ctx context.Context, c *clients, wanted state.Item, _ sighting) error {
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
// code would say that what is to be changed exists already.
func updated(err error) error {
	if refused, ok := errors.AsType[*ekstypes.InvalidParameterException](err); ok && strings.Contains(strings.ToLower(refused.ErrorMessage()), "no changes needed") {
		return nil
	}
	if busy, ok := errors.AsType[*ekstypes.ResourceInUseException](err); ok {
		return errors.New("EKS is at another update: " + busy.ErrorMessage())
	}
	return err
}
