package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/state"
)

// addons are EKS add-ons:
//
//	version  absent where any will do
type addons struct{ readOnly }

func (addons) want(s scope) []state.Item {
	var out []state.Item
	for _, a := range s.spec.Addons {
		object, words := map[string]any{}, []string{"--cluster-name", s.Cluster, "--addon-name", a.Name}
		if a.Version != "" {
			object["version"] = a.Version
			words = append(words, "--addon-version", a.Version)
		}
		how := "add-ons are changed by the tool that owns the control plane: " + s.command("eks update-addon", words...)
		out = append(out, s.compared(s.regional("eks", "Addon", a.Name), how, object))
	}
	return out
}

func (addons) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	out := make(map[state.Key]liveResource, len(keys))
	for _, k := range keys {
		found, err := c.addon(ctx, k.Name)
		switch {
		case noCluster(err):
			out[k] = liveResource{missing: c.place.missingCluster()}
		case gone(err):
			out[k] = liveResource{missing: "Poolwright installs no add-ons: " +
				c.place.command("eks create-addon", "--cluster-name", c.place.Cluster, "--addon-name", k.Name) +
				", with --addon-version where a version is declared"}
		case err != nil:
			out[k] = liveResource{err: err}
		case found == nil:
			out[k] = liveResource{err: errors.New("EKS answered without an add-on")}
		default:
			out[k] = observedAddon(found)
		}
	}
	return out
}

func observedAddon(a *ekstypes.Addon) liveResource {
	out := liveResource{
		object: map[string]any{"version": sdk.ToString(a.AddonVersion)}, tags: a.Tags,
		uid: fmt.Sprintf("%s#%d", sdk.ToString(a.AddonArn), sdk.ToTime(a.CreatedAt).Unix()),
	}
	if a.Status != ekstypes.AddonStatusActive && a.Status != "" {
		out.notes = append(out.notes, "the add-on is "+string(a.Status))
	}
	if a.Health != nil {
		for _, issue := range a.Health.Issues {
			out.notes = append(out.notes, "the add-on is not well: "+string(issue.Code))
		}
	}
	return out
}

// noCluster distinguishes the absence of a whole cluster from that of one of its parts:
// EKS has one code for both, and only its words differ.
func noCluster(err error) bool {
	missing, ok := errors.AsType[*ekstypes.ResourceNotFoundException](err)
	return ok && missing.AddonName == nil && missing.NodegroupName == nil && strings.Contains(strings.ToLower(missing.ErrorMessage()), "no cluster")
}
