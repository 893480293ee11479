package eks

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Addons are EKS add-ons:
//
//	version  absent where any will do
type Addons struct{ resource.ReadOnly }

// Desired implements resource.Kind.
func (Addons) Desired(s resource.Declaration) []state.Item {
	var out []state.Item
	for _, a := range s.Spec.Addons {
		object, command := map[string]any{}, []string{"--cluster-name", s.Cluster, "--addon-name", a.Name}
		if a.Version != "" {
			object["version"] = a.Version
			command = append(command, "--addon-version", a.Version)
		}
		how := "add-ons are changed by the tool that owns the control plane: " + s.Command("eks update-addon", command...)
		out = append(out, s.CompareOnly(s.Regional("eks", "Addon", a.Name), how, object))
	}
	return out
}

// Read implements resource.Kind.
func (Addons) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	out := make(map[state.Key]resource.Live, len(keys))
	for _, k := range keys {
		found, err := describeAddon(ctx, c, k.Name)
		switch {
		case noCluster(err):
			out[k] = resource.Live{Missing: missingCluster(c.Scope)}
		case awserr.IsNotFound(err):
			out[k] = resource.Live{Missing: "Poolwright installs no add-ons: " +
				c.Scope.Command("eks create-addon", "--cluster-name", c.Scope.Cluster, "--addon-name", k.Name) +
				", with --addon-version where a version is declared"}
		case err != nil:
			out[k] = resource.Live{Err: err}
		case found == nil:
			out[k] = resource.Live{Err: errors.New("EKS responded without an add-on")}
		default:
			out[k] = observedAddon(found)
		}
	}
	return out
}

func observedAddon(a *ekstypes.Addon) resource.Live {
	out := resource.Live{
		Object: map[string]any{"version": sdk.ToString(a.AddonVersion)}, Tags: a.Tags,
		UID: fmt.Sprintf("%s#%d", sdk.ToString(a.AddonArn), sdk.ToTime(a.CreatedAt).Unix()),
	}
	if a.Status != ekstypes.AddonStatusActive && a.Status != "" {
		out.Notes = append(out.Notes, finding.New(codeStatusNotActive, "the add-on is %s", finding.NewFact("status", a.Status)))
	}
	if a.Health != nil {
		for _, issue := range a.Health.Issues {
			out.Notes = append(out.Notes, finding.New(codeHealthIssue, "the add-on is not well: %s", finding.NewFact("issue", issue.Code)))
		}
	}
	return out
}

// noCluster distinguishes the absence of a whole cluster from that of something in it:
// EKS has one code for both and no field for the cluster, so that only its message differs.
func noCluster(err error) bool {
	missing, ok := errors.AsType[*ekstypes.ResourceNotFoundException](err)
	return ok && missing.AddonName == nil && missing.NodegroupName == nil && strings.Contains(strings.ToLower(missing.ErrorMessage()), "no cluster")
}
