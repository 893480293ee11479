package eks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// mostLabelChars bounds keys and values of labels and taints.
const mostLabelChars = 63

// nodeGroup is a managed node group as it is now.
type nodeGroup struct {
	NodeGroup
	taints            []taint // replaces the config's
	uuid              string
	created, modified time.Time
	tags              map[string]string
}

// newNodeGroups has those of a config that was validated.
func newNodeGroups(account *api.Account, cluster Cluster) map[string]*nodeGroup {
	out := map[string]*nodeGroup{}
	for _, want := range cluster.NodeGroups {
		g := &nodeGroup{NodeGroup: want, uuid: account.NewUUID(), created: account.Clock.Now(), modified: account.Clock.Now(), tags: map[string]string{}}
		g.Labels = maps.Clone(want.Labels)
		if g.Labels == nil {
			g.Labels = map[string]string{}
		}
		if len(g.InstanceTypes) == 0 {
			g.InstanceTypes = []string{"m5.large"}
		}
		if g.DiskSize == 0 {
			g.DiskSize = 20
		}
		if g.CapacityType == "" {
			g.CapacityType = "ON_DEMAND"
		}
		for _, s := range want.Taints {
			if t, err := parseTaint(s); err == nil {
				g.taints = append(g.taints, t)
			}
		}
		out[g.Name] = g
	}
	return out
}

func (svc *Service) nodeGroupARN(g *nodeGroup) string {
	return svc.arn("nodegroup", "/"+g.Name+"/"+g.uuid)
}

func (svc *Service) findNodeGroup(in *api.Call) (*nodeGroup, error) {
	if g := svc.nodeGroups[in.Segment(3)]; g != nil {
		return g, nil
	}
	return nil, noResource("No node group found for name: %s.", in.Segment(3))
}

func (svc *Service) listNodeGroups(in *api.Call) (any, error) {
	var rows []row
	for name := range svc.nodeGroups {
		rows = append(rows, row{name, name})
	}
	return page(in, "nodegroups", rows)
}

func (svc *Service) describeNodeGroup(in *api.Call) (any, error) {
	g, err := svc.findNodeGroup(in)
	if err != nil {
		return nil, err
	}
	status := "ACTIVE"
	if svc.running(g.Name) != nil {
		status = "UPDATING"
	}
	out := map[string]any{
		"nodegroupName": g.Name, "nodegroupArn": svc.nodeGroupARN(g), "clusterName": svc.cluster.Name, "status": status,
		"version": svc.cluster.Version, "releaseVersion": svc.cluster.Version + ".0-" + strings.TrimPrefix(svc.network.Release, "v"),
		"createdAt": g.created.Unix(), "modifiedAt": g.modified.Unix(), "capacityType": g.CapacityType, "amiType": "AL2023_x86_64_STANDARD",
		"scalingConfig": map[string]int{"minSize": g.Min, "maxSize": g.Max, "desiredSize": g.Desired},
		"instanceTypes": g.InstanceTypes, "diskSize": g.DiskSize, "subnets": svc.network.Subnets,
		"nodeRole":     svc.account.GlobalARN("iam", "role/"+svc.cluster.Name+"-nodegroup"),
		"labels":       maps.Clone(g.Labels),
		"taints":       append([]taint{}, g.taints...),
		"updateConfig": map[string]int{"maxUnavailable": 1},
		"resources":    map[string]any{"autoScalingGroups": []map[string]string{{"name": "eks-" + g.Name + "-" + g.uuid}}},
		"health":       map[string]any{"issues": []any{}},
		"tags":         maps.Clone(g.tags),
	}
	return map[string]any{"nodegroup": out}, nil
}

// nodegroupConfigRequest is the body of UpdateNodegroupConfig.
type nodegroupConfigRequest struct {
	ClientRequestToken string
	ScalingConfig      *struct{ MinSize, MaxSize, DesiredSize *int }
	Labels             *struct {
		AddOrUpdateLabels map[string]string
		RemoveLabels      []string
	}
	Taints *struct{ AddOrUpdateTaints, RemoveTaints []taint }
}

func (svc *Service) updateNodeGroup(in *api.Call) (any, error) {
	var input nodegroupConfigRequest
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	g, err := svc.findNodeGroup(in)
	if err != nil {
		return nil, err
	}
	if u := svc.repeated(input.ClientRequestToken); u != nil {
		return map[string]any{"update": u.response()}, nil
	}
	if u := svc.running(g.Name); u != nil {
		return nil, inUse("Nodegroup %s cannot be updated as it currently has update %s in progress", g.Name, u.id)
	}
	if input.ScalingConfig == nil && input.Labels == nil && input.Taints == nil {
		return nil, invalid("No update was requested: give a scalingConfig, labels or taints.")
	}
	next, u := *g, &update{kind: "ConfigUpdate", group: g.Name, token: input.ClientRequestToken}
	for _, change := range []func(*nodeGroup, *update) error{input.scale, input.label, input.taint} {
		if err := change(&next, u); err != nil {
			return nil, err
		}
	}
	return svc.begin(in, u, func() {
		// Tags may have changed since; nothing else can while an update runs.
		if live := svc.nodeGroups[next.Name]; live != nil {
			next.tags, next.modified = live.tags, svc.account.Clock.Now()
			*live = next
		}
	}), nil
}

func (input nodegroupConfigRequest) scale(g *nodeGroup, u *update) error {
	if input.ScalingConfig == nil {
		return nil
	}
	for _, size := range []struct {
		name  string
		input *int
		have  *int
	}{{"MinSize", input.ScalingConfig.MinSize, &g.Min}, {"MaxSize", input.ScalingConfig.MaxSize, &g.Max}, {"DesiredSize", input.ScalingConfig.DesiredSize, &g.Desired}} {
		if size.input != nil {
			*size.have = *size.input
			u.params = append(u.params, updateParam{size.name, fmt.Sprint(*size.input)})
		}
	}
	return checkSizes(g.Min, g.Desired, g.Max)
}

func (input nodegroupConfigRequest) label(g *nodeGroup, u *update) error {
	if input.Labels == nil {
		return nil
	}
	g.Labels = maps.Clone(g.Labels)
	for _, k := range input.Labels.RemoveLabels {
		if _, both := input.Labels.AddOrUpdateLabels[k]; both {
			return invalid("The label '%s' is both added and removed.", k)
		}
		delete(g.Labels, k)
	}
	for k, v := range input.Labels.AddOrUpdateLabels {
		if k == "" || v == "" || len(k) > mostLabelChars || len(v) > mostLabelChars {
			return invalid("The label '%s' or its value is empty, or over %d characters.", k, mostLabelChars)
		}
		g.Labels[k] = v
	}
	u.params = append(u.params, updateParam{"LabelsToAdd", asJSON(input.Labels.AddOrUpdateLabels)}, updateParam{"LabelsToRemove", asJSON(input.Labels.RemoveLabels)})
	return nil
}

func (input nodegroupConfigRequest) taint(g *nodeGroup, u *update) error {
	if input.Taints == nil {
		return nil
	}
	g.taints = slices.Clone(g.taints)
	for _, t := range input.Taints.RemoveTaints {
		if slices.ContainsFunc(input.Taints.AddOrUpdateTaints, t.same) {
			return invalid("The taint '%s' is both added and removed.", t.Key)
		}
		g.taints = slices.DeleteFunc(g.taints, t.same)
	}
	for _, t := range input.Taints.AddOrUpdateTaints {
		if t.Key == "" || len(t.Key) > mostLabelChars || len(t.Value) > mostLabelChars || !slices.Contains(effects(), t.Effect) {
			return invalid("The taint '%s' has no key, a key or a value over %d characters, or an effect ('%s') that is none of %q.", t.Key, mostLabelChars, t.Effect, effects())
		}
		g.taints = append(slices.DeleteFunc(g.taints, t.same), t)
	}
	u.params = append(u.params, updateParam{"TaintsToAdd", asJSON(input.Taints.AddOrUpdateTaints)}, updateParam{"TaintsToRemove", asJSON(input.Taints.RemoveTaints)})
	return nil
}
