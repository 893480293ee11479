package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// nodeGroup is a managed node group as it is now.
type nodeGroup struct {
	NodeGroup
	taints            []taint // replaces the config's
	uuid              string
	created, modified time.Time
	tags              map[string]string
}

// taint is one as EKS writes it.
type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

func effects() []string { return []string{"NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE"} }

// parseTaint reads "key=value:EFFECT" or "key:EFFECT".
func parseTaint(s string) (taint, error) {
	pair, effect, _ := strings.Cut(s, ":")
	key, value, _ := strings.Cut(pair, "=")
	if key == "" || !slices.Contains(effects(), effect) {
		return taint{}, fmt.Errorf("taint %q is not of the form key=value:NO_SCHEDULE; effects are %q", s, effects())
	}
	return taint{key, value, effect}, nil
}

// validate says what is wrong with the group of a config.
func (g NodeGroup) validate() error {
	if g.Name == "" {
		return fmt.Errorf("reading the emulator's cluster: a node group has no name")
	}
	if err := checkSizes(g.Min, g.Desired, g.Max); err != nil {
		return fmt.Errorf("reading the emulator's node group %q: %w", g.Name, err)
	}
	for _, t := range g.Taints {
		if _, err := parseTaint(t); err != nil {
			return fmt.Errorf("reading the emulator's node group %q: %w", g.Name, err)
		}
	}
	if g.CapacityType != "" && !slices.Contains([]string{"ON_DEMAND", "SPOT", "CAPACITY_BLOCK"}, g.CapacityType) {
		return fmt.Errorf("reading the emulator's node group %q: capacity type %q is not ON_DEMAND, SPOT or CAPACITY_BLOCK", g.Name, g.CapacityType)
	}
	return nil
}

func checkSizes(least, desired, most int) error {
	switch {
	case least < 0 || most < 1:
		return invalid("Minimum capacity %d must be at least 0, and maximum size %d at least 1", least, most)
	case least > desired:
		return invalid("Minimum capacity %d can't be greater than desired size %d", least, desired)
	case desired > most:
		return invalid("desired capacity %d can't be greater than max size %d", desired, most)
	}
	return nil
}

// newNodeGroups has those of a config that was validated.
func newNodeGroups(st *state, cfg Config) map[string]*nodeGroup {
	out := map[string]*nodeGroup{}
	for _, want := range cfg.Cluster.NodeGroups {
		g := &nodeGroup{NodeGroup: want, uuid: st.account.NewUUID(), created: cfg.Clock.Now(), modified: cfg.Clock.Now(), tags: map[string]string{}}
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

func (c *Cloud) nodeGroupARN(g *nodeGroup) string {
	return c.eksARN("nodegroup", "/"+g.Name+"/"+g.uuid)
}

func (in *call) findNodeGroup() (*nodeGroup, error) {
	if g := in.st.eks.nodeGroups[in.Segment(3)]; g != nil {
		return g, nil
	}
	return nil, noResource("No node group found for name: %s.", in.Segment(3))
}

func listNodeGroups(in *call) (any, error) {
	var rows []row
	for name := range in.st.eks.nodeGroups {
		rows = append(rows, row{name, name})
	}
	return in.eksPage("nodegroups", rows)
}

func describeNodeGroup(in *call) (any, error) {
	g, err := in.findNodeGroup()
	if err != nil {
		return nil, err
	}
	status := "ACTIVE"
	if in.st.eks.running(g.Name) != nil {
		status = "UPDATING"
	}
	var subnets []string
	for _, s := range in.st.network.subnets {
		if !s.public {
			subnets = append(subnets, s.id)
		}
	}
	shown := map[string]any{
		"nodegroupName": g.Name, "nodegroupArn": in.cloud.nodeGroupARN(g), "clusterName": in.st.cluster.Name, "status": status,
		"version": in.st.cluster.Version, "releaseVersion": in.st.cluster.Version + ".0-" + strings.TrimPrefix(in.cloud.cfg.Releases[0], "v"),
		"createdAt": g.created.Unix(), "modifiedAt": g.modified.Unix(), "capacityType": g.CapacityType, "amiType": "AL2023_x86_64_STANDARD",
		"scalingConfig": map[string]int{"minSize": g.Min, "maxSize": g.Max, "desiredSize": g.Desired},
		"instanceTypes": g.InstanceTypes, "diskSize": g.DiskSize, "subnets": subnets,
		"nodeRole":     in.cloud.iamARN("role", "/", in.st.cluster.Name+"-nodegroup"),
		"labels":       maps.Clone(g.Labels),
		"taints":       append([]taint{}, g.taints...),
		"updateConfig": map[string]int{"maxUnavailable": 1},
		"resources":    map[string]any{"autoScalingGroups": []map[string]string{{"name": "eks-" + g.Name + "-" + g.uuid}}},
		"health":       map[string]any{"issues": []any{}},
		"tags":         maps.Clone(g.tags),
	}
	return map[string]any{"nodegroup": shown}, nil
}

// groupAsk is what UpdateNodegroupConfig is asked.
type groupAsk struct {
	ClientRequestToken string
	ScalingConfig      *struct{ MinSize, MaxSize, DesiredSize *int }
	Labels             *struct {
		AddOrUpdateLabels map[string]string
		RemoveLabels      []string
	}
	Taints *struct{ AddOrUpdateTaints, RemoveTaints []taint }
}

func updateNodeGroup(in *call) (any, error) {
	var ask groupAsk
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	g, err := in.findNodeGroup()
	if err != nil {
		return nil, err
	}
	if u := in.repeated(ask.ClientRequestToken); u != nil {
		return map[string]any{"update": u.response()}, nil
	}
	if u := in.st.eks.running(g.Name); u != nil {
		return nil, inUse("Nodegroup %s cannot be updated as it currently has update %s in progress", g.Name, u.id)
	}
	if ask.ScalingConfig == nil && ask.Labels == nil && ask.Taints == nil {
		return nil, invalid("No update was requested: give a scalingConfig, labels or taints.")
	}
	next, u := *g, &update{kind: "ConfigUpdate", group: g.Name, token: ask.ClientRequestToken}
	for _, change := range []func(*nodeGroup, *update) error{ask.scale, ask.label, ask.taint} {
		if err := change(&next, u); err != nil {
			return nil, err
		}
	}
	return in.begin(u, func(st *state) {
		// Tags may have changed since; nothing else can while an update runs.
		if live := st.eks.nodeGroups[next.Name]; live != nil {
			next.tags, next.modified = live.tags, in.cloud.account.Clock.Now()
			*live = next
		}
	}), nil
}

func (ask groupAsk) scale(g *nodeGroup, u *update) error {
	if ask.ScalingConfig == nil {
		return nil
	}
	for _, size := range []struct {
		name string
		ask  *int
		have *int
	}{{"MinSize", ask.ScalingConfig.MinSize, &g.Min}, {"MaxSize", ask.ScalingConfig.MaxSize, &g.Max}, {"DesiredSize", ask.ScalingConfig.DesiredSize, &g.Desired}} {
		if size.ask != nil {
			*size.have = *size.ask
			u.params = append(u.params, updateParam{size.name, fmt.Sprint(*size.ask)})
		}
	}
	return checkSizes(g.Min, g.Desired, g.Max)
}

func (ask groupAsk) label(g *nodeGroup, u *update) error {
	if ask.Labels == nil {
		return nil
	}
	g.Labels = maps.Clone(g.Labels)
	for _, k := range ask.Labels.RemoveLabels {
		if _, both := ask.Labels.AddOrUpdateLabels[k]; both {
			return invalid("The label '%s' is both added and removed.", k)
		}
		delete(g.Labels, k)
	}
	for k, v := range ask.Labels.AddOrUpdateLabels {
		if k == "" || len(v) > 63 {
			return invalid("The label '%s' is empty, or its value over 63 characters.", k)
		}
		g.Labels[k] = v
	}
	u.params = append(u.params, updateParam{"LabelsToAdd", asJSON(ask.Labels.AddOrUpdateLabels)}, updateParam{"LabelsToRemove", asJSON(ask.Labels.RemoveLabels)})
	return nil
}

func (t taint) same(o taint) bool { return t.Key == o.Key && t.Effect == o.Effect }

func (ask groupAsk) taint(g *nodeGroup, u *update) error {
	if ask.Taints == nil {
		return nil
	}
	g.taints = slices.Clone(g.taints)
	for _, t := range ask.Taints.RemoveTaints {
		if slices.ContainsFunc(ask.Taints.AddOrUpdateTaints, t.same) {
			return invalid("The taint '%s' is both added and removed.", t.Key)
		}
		g.taints = slices.DeleteFunc(g.taints, t.same)
	}
	for _, t := range ask.Taints.AddOrUpdateTaints {
		if t.Key == "" || !slices.Contains(effects(), t.Effect) {
			return invalid("The taint '%s' has no key, or an effect ('%s') that is none of %q.", t.Key, t.Effect, effects())
		}
		g.taints = append(slices.DeleteFunc(g.taints, t.same), t)
	}
	u.params = append(u.params, updateParam{"TaintsToAdd", asJSON(ask.Taints.AddOrUpdateTaints)}, updateParam{"TaintsToRemove", asJSON(ask.Taints.RemoveTaints)})
	return nil
}
