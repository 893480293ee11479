package eks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
)

// NodeGroups are what EKS changes in place in a managed node group, each only
// where it is declared:
//
//	minSize, desiredSize, maxSize  int64
//	labels                         {key: value}
//	taints                         [{key, value, effect}], sorted, effects as Kubernetes writes them
type NodeGroups struct{ resource.NeverDeleted }

// NodeGroupHardware are what it cannot change, each only where it is declared:
//
//	instanceTypes  sorted list
//	diskSize       int64, in GiB
//	capacityType   "ON_DEMAND", "SPOT", "CAPACITY_BLOCK"
type NodeGroupHardware struct{ resource.ReadOnly }

// Desired implements resource.Kind.
func (NodeGroups) Desired(s resource.Declaration) []state.Item {
	var out []state.Item
	for _, g := range s.Spec.ManagedNodeGroups {
		object := map[string]any{}
		for field, size := range map[string]*int32{"minSize": g.MinSize, "desiredSize": g.DesiredSize, "maxSize": g.MaxSize} {
			if size != nil {
				object[field] = int64(*size)
			}
		}
		if g.Labels != nil {
			object["labels"] = tag.Object(g.Labels)
		}
		if g.Taints != nil {
			object["taints"] = taintObjects(*g.Taints)
		}
		out = append(out, s.Shared(s.Regional("eks", "NodeGroup", g.Name), resource.WaveLast, g.Adopt, object))
	}
	return out
}

// Desired implements resource.Kind.
func (NodeGroupHardware) Desired(s resource.Declaration) []state.Item {
	var out []state.Item
	for _, g := range s.Spec.ManagedNodeGroups {
		object := map[string]any{}
		command := []string{"--cluster-name", s.Cluster, "--nodegroup-name", "NEW-NAME", "--node-role", "ROLE-ARN", "--subnets", "SUBNET-IDS"}
		if len(g.InstanceTypes) > 0 {
			object["instanceTypes"] = resource.Strings(g.InstanceTypes)
			command = append(append(command, "--instance-types"), g.InstanceTypes...)
		}
		if g.DiskSize != nil {
			object["diskSize"] = int64(*g.DiskSize)
			command = append(command, "--disk-size", fmt.Sprint(*g.DiskSize))
		}
		if g.CapacityType != "" {
			object["capacityType"] = g.CapacityType
			command = append(command, "--capacity-type", g.CapacityType)
		}
		if len(object) == 0 {
			continue
		}
		how := fmt.Sprintf("EKS cannot change it in place: make another group (%s), drain the nodes of %s, delete it (%s), and declare the new name",
			s.Command("eks create-nodegroup", command...), g.Name,
			s.Command("eks delete-nodegroup", "--cluster-name", s.Cluster, "--nodegroup-name", g.Name))
		out = append(out, s.CompareOnly(s.Regional("eks", "NodeGroupHardware", g.Name), how, object))
	}
	return out
}

// taintObjects are taints in the order of their keys and effects.
func taintObjects(taints []v1alpha1.NodeGroupTaint) []any {
	sorted := slices.SortedFunc(slices.Values(taints), func(a, b v1alpha1.NodeGroupTaint) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Effect, b.Effect), strings.Compare(a.Value, b.Value))
	})
	out := make([]any, len(sorted))
	for i, t := range sorted {
		object := map[string]any{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			object["value"] = t.Value
		}
		out[i] = object
	}
	return out
}

// effectsOf pairs the effects as EKS writes them with those of Kubernetes.
func effectsOf() map[ekstypes.TaintEffect]string {
	return map[ekstypes.TaintEffect]string{
		ekstypes.TaintEffectNoSchedule:       "NoSchedule",
		ekstypes.TaintEffectPreferNoSchedule: "PreferNoSchedule",
		ekstypes.TaintEffectNoExecute:        "NoExecute",
	}
}

// Read implements resource.Kind.
func (NodeGroups) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return eachNodeGroup(ctx, c, keys, func(g *ekstypes.Nodegroup) resource.Live {
		out := resource.Live{Object: nodeGroupObject(g)}
		switch g.Status {
		case ekstypes.NodegroupStatusUpdating, ekstypes.NodegroupStatusCreating, ekstypes.NodegroupStatusDeleting:
			out.Pending = "the node group is " + string(g.Status)
		case ekstypes.NodegroupStatusActive, "":
		default:
			out.Notes = append(out.Notes, finding.New(codeStatusNotActive, "the node group is %s", finding.NewFact("status", g.Status)))
		}
		if g.Health != nil {
			for _, issue := range g.Health.Issues {
				out.Notes = append(out.Notes, finding.New(codeHealthIssue, "the node group is not well: %s", finding.NewFact("issue", issue.Code)))
			}
		}
		return out
	})
}

func nodeGroupObject(g *ekstypes.Nodegroup) map[string]any {
	out := map[string]any{"labels": tag.Object(g.Labels)}
	if size := g.ScalingConfig; size != nil {
		for field, n := range map[string]*int32{"minSize": size.MinSize, "desiredSize": size.DesiredSize, "maxSize": size.MaxSize} {
			if n != nil {
				out[field] = int64(*n)
			}
		}
	}
	effects, taints := effectsOf(), make([]v1alpha1.NodeGroupTaint, len(g.Taints))
	for i, t := range g.Taints {
		effect, ok := effects[t.Effect]
		if !ok {
			effect = string(t.Effect)
		}
		taints[i] = v1alpha1.NodeGroupTaint{Key: sdk.ToString(t.Key), Value: sdk.ToString(t.Value), Effect: effect}
	}
	out["taints"] = taintObjects(taints)
	return out
}

// Read implements resource.Kind.
func (NodeGroupHardware) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	out := eachNodeGroup(ctx, c, keys, func(g *ekstypes.Nodegroup) resource.Live {
		object := map[string]any{"instanceTypes": resource.Strings(g.InstanceTypes), "capacityType": string(g.CapacityType)}
		if g.DiskSize != nil {
			object["diskSize"] = int64(*g.DiskSize)
		}
		out := resource.Live{Object: object}
		if g.LaunchTemplate != nil && (len(g.InstanceTypes) == 0 || g.DiskSize == nil) {
			out.Notes = []finding.Finding{finding.New(codeLaunchTemplateUnknown, "what EKS does not report of the node group is in its launch template %s",
				finding.NewFact("launchTemplate", sdk.ToString(g.LaunchTemplate.Id)))}
		}
		return out
	})
	for k, observed := range out {
		if observed.Missing != "" { // which the node group itself reports
			out[k] = resource.Live{Superseded: true}
		}
	}
	return out
}

// eachNodeGroup reads the node group of each key.
func eachNodeGroup(ctx context.Context, c *resource.Clients, keys []state.Key, read func(*ekstypes.Nodegroup) resource.Live) map[state.Key]resource.Live {
	out := make(map[state.Key]resource.Live, len(keys))
	for _, k := range keys {
		found, err := describeNodeGroup(ctx, c, k.Name)
		switch {
		case noCluster(err):
			out[k] = resource.Live{Missing: missingCluster(c.Scope)}
		case awserr.IsNotFound(err):
			out[k] = resource.Live{Missing: "Poolwright makes no node groups: " +
				c.Scope.Command("eks create-nodegroup", "--cluster-name", c.Scope.Cluster, "--nodegroup-name", k.Name, "…") +
				", or take it out of spec.managedNodeGroups"}
		case err != nil:
			out[k] = resource.Live{Err: err}
		case found == nil:
			out[k] = resource.Live{Err: errors.New("EKS responded without a node group")}
		default:
			observed := read(found)
			observed.UID = fmt.Sprintf("%s#%d", sdk.ToString(found.NodegroupArn), sdk.ToTime(found.CreatedAt).Unix())
			observed.Tags = found.Tags
			out[k] = observed
		}
	}
	return out
}

// Write implements resource.Kind.
func (NodeGroups) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	if live.Object == nil {
		return fmt.Errorf("changing node group %q: it does not exist, and Poolwright makes none", desired.Key.Name)
	}
	in := &eks.UpdateNodegroupConfigInput{
		ClusterName: &c.Scope.Cluster, NodegroupName: &desired.Key.Name,
		ScalingConfig: scalingConfigUpdate(desired.Object, live.Object),
		Labels:        newLabels(desired.Object, live.Object),
		Taints:        newTaints(desired.Object, live.Object),
	}
	if in.ScalingConfig == nil && in.Labels == nil && in.Taints == nil {
		return nil
	}
	_, err := c.EKS.UpdateNodegroupConfig(ctx, in)
	return updated(err)
}

// scalingConfigUpdate are the sizes to set; nil where none differs. EKS refuses a minimum
// above, or a maximum below, the number of nodes, so that this one goes along
// where it must; elsewhere it is left to whoever scales the group.
func scalingConfigUpdate(desired, live map[string]any) *ekstypes.NodegroupScalingConfig {
	differs := false
	size := func(field string) (n int64, declared bool) {
		w, declared := fields.Int64(desired[field])
		l, _ := fields.Int64(live[field])
		differs = differs || declared && w != l
		if declared {
			return w, true
		}
		return l, false
	}
	least, setLeast := size("minSize")
	most, setMost := size("maxSize")
	now, setNow := size("desiredSize")
	if !differs {
		return nil
	}
	out := &ekstypes.NodegroupScalingConfig{}
	if setLeast {
		out.MinSize = sdk.Int32(int32(least))
	}
	if setMost {
		out.MaxSize = sdk.Int32(int32(most))
	}
	if between := max(least, min(now, most)); setNow {
		out.DesiredSize = sdk.Int32(int32(now))
	} else if between != now {
		out.DesiredSize = sdk.Int32(int32(between))
	}
	return out
}

func newLabels(desired, live map[string]any) *ekstypes.UpdateLabelsPayload {
	want, declared := desired["labels"].(map[string]any)
	have, _ := live["labels"].(map[string]any)
	if !declared || state.Equal(want, have) {
		return nil
	}
	out := &ekstypes.UpdateLabelsPayload{}
	for _, k := range slices.Sorted(maps.Keys(have)) {
		if _, keep := want[k]; !keep {
			out.RemoveLabels = append(out.RemoveLabels, k)
		}
	}
	for k, v := range want {
		if !state.Equal(have[k], v) {
			if out.AddOrUpdateLabels == nil {
				out.AddOrUpdateLabels = map[string]string{}
			}
			out.AddOrUpdateLabels[k], _ = v.(string)
		}
	}
	return out
}

// newTaints are the taints to set and to remove. EKS identifies a taint by its key
// and effect: one that only gets another value must not be removed as well.
func newTaints(desired, live map[string]any) *ekstypes.UpdateTaintsPayload {
	want, declared := desired["taints"].([]any)
	have, _ := live["taints"].([]any)
	if !declared || state.Equal(want, have) {
		return nil
	}
	kept := map[[2]string]bool{}
	out := &ekstypes.UpdateTaintsPayload{}
	for _, w := range want {
		taint := eksTaint(w)
		kept[[2]string{*taint.Key, string(taint.Effect)}] = true
		if !slices.ContainsFunc(have, func(h any) bool { return state.Equal(h, w) }) {
			out.AddOrUpdateTaints = append(out.AddOrUpdateTaints, taint)
		}
	}
	for _, h := range have {
		if taint := eksTaint(h); !kept[[2]string{*taint.Key, string(taint.Effect)}] {
			out.RemoveTaints = append(out.RemoveTaints, taint)
		}
	}
	return out
}

func eksTaint(object any) ekstypes.Taint {
	m, _ := object.(map[string]any)
	text := func(field string) string { s, _ := m[field].(string); return s }
	out := ekstypes.Taint{Key: sdk.String(text("key")), Effect: ekstypes.TaintEffect(text("effect"))}
	if v := text("value"); v != "" {
		out.Value = &v
	}
	for eksEffect, effect := range effectsOf() {
		if effect == text("effect") {
			out.Effect = eksEffect
		}
	}
	return out
}
