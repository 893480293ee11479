package aws_test

import (
	"context"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// nodeGroup reads a node group.
func (w *fixture) nodeGroup(t *testing.T, name string) *ekstypes.Nodegroup {
	t.Helper()
	out, err := w.eks.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: sdk.String("sandbox"), NodegroupName: &name})
	ok(t, err)
	return out.Nodegroup
}

// logs asks for a logging setup.
func (w *fixture) logs(ctx context.Context, on, off []ekstypes.LogType) (*eks.UpdateClusterConfigOutput, error) {
	input := &eks.UpdateClusterConfigInput{Name: sdk.String("sandbox"), Logging: &ekstypes.Logging{}}
	if on != nil {
		input.Logging.ClusterLogging = append(input.Logging.ClusterLogging, ekstypes.LogSetup{Types: on, Enabled: sdk.Bool(true)})
	}
	if off != nil {
		input.Logging.ClusterLogging = append(input.Logging.ClusterLogging, ekstypes.LogSetup{Types: off, Enabled: sdk.Bool(false)})
	}
	return w.eks.UpdateClusterConfig(ctx, input)
}

func slowUpdates(c *sandboxaws.Config) {
	cluster(c)
	c.Delays.Update = time.Minute
}

func TestLoggingChangesWhenItsUpdateIsDone(t *testing.T) {
	w := newFixture(t, slowUpdates)
	ctx := t.Context()
	status := func(id *string) ekstypes.UpdateStatus {
		t.Helper()
		out, err := w.eks.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: sdk.String("sandbox"), UpdateId: id})
		ok(t, err)
		return out.Update.Status
	}
	_, err := w.logs(ctx, []ekstypes.LogType{"api"}, []ekstypes.LogType{"scheduler"})
	wantCode(t, err, "InvalidParameterException")
	out, err := w.logs(ctx, []ekstypes.LogType{"scheduler"}, []ekstypes.LogType{"audit"})
	ok(t, err)
	if out.Update.Status != "InProgress" || out.Update.Type != "LoggingUpdate" || status(out.Update.Id) != "InProgress" {
		t.Errorf("update %+v", out.Update)
	}
	if k := w.describe(t); k.Status != "UPDATING" || len(logTypesOn(k)) != 2 {
		t.Errorf("while it runs: %s %v", k.Status, logTypesOn(k))
	}
	_, err = w.logs(ctx, []ekstypes.LogType{"authenticator"}, nil)
	wantCode(t, err, "ResourceInUseException")
	w.clock.advance(time.Minute)
	k := w.describe(t)
	if diff := cmp.Diff([]ekstypes.LogType{"api", "scheduler"}, logTypesOn(k)); diff != "" || k.Status != "ACTIVE" || status(out.Update.Id) != "Successful" {
		t.Error(diff, k.Status)
	}
	for name, input := range map[string][2][]ekstypes.LogType{
		"nothing":            {},
		"an unknown type":    {{"kubelet"}, nil},
		"a type on and off":  {{"api"}, {"api"}},
		"what is there":      {{"api", "scheduler"}, {"audit", "authenticator", "controllerManager"}},
		"off what is so now": {nil, {"audit"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.logs(ctx, input[0], input[1])
			wantCode(t, err, "InvalidParameterException")
		})
	}
}

func TestARepeatedRequestBeginsNoSecondUpdate(t *testing.T) {
	w := newFixture(t, slowUpdates)
	input := &eks.UpdateClusterConfigInput{Name: sdk.String("sandbox"), ClientRequestToken: sdk.String("once"),
		Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Types: []ekstypes.LogType{"scheduler"}, Enabled: sdk.Bool(true)}}}}
	first, err := w.eks.UpdateClusterConfig(t.Context(), input)
	ok(t, err)
	second, err := w.eks.UpdateClusterConfig(t.Context(), input)
	ok(t, err)
	if *first.Update.Id != *second.Update.Id {
		t.Errorf("updates %s and %s", *first.Update.Id, *second.Update.Id)
	}
}

func TestNodeGroupsShowTheirSettings(t *testing.T) {
	w := newFixture(t, cluster)
	var all []string
	for p := eks.NewListNodegroupsPaginator(w.eks, &eks.ListNodegroupsInput{ClusterName: sdk.String("sandbox"), MaxResults: sdk.Int32(1)}); p.HasMorePages(); {
		page, err := p.NextPage(t.Context())
		ok(t, err)
		all = append(all, page.Nodegroups...)
	}
	if diff := cmp.Diff([]string{"plain", "system"}, all); diff != "" {
		t.Error(diff)
	}
	g := w.nodeGroup(t, "system")
	if *g.ScalingConfig.MinSize != 2 || *g.ScalingConfig.MaxSize != 4 || g.Labels["team"] != "platform" || *g.DiskSize != 80 || g.CapacityType != "SPOT" ||
		len(g.InstanceTypes) != 2 || g.Status != "ACTIVE" || len(g.Subnets) != 3 || len(g.Resources.AutoScalingGroups) != 1 {
		t.Errorf("node group %+v", g)
	}
	if diff := cmp.Diff([]ekstypes.Taint{{Key: sdk.String("CriticalAddonsOnly"), Value: sdk.String("true"), Effect: "NO_SCHEDULE"}, {Key: sdk.String("old"), Effect: "NO_EXECUTE"}},
		g.Taints, cmpopts.IgnoreUnexported(ekstypes.Taint{})); diff != "" {
		t.Error(diff)
	}
	if p := w.nodeGroup(t, "plain"); *p.DiskSize != 20 || p.CapacityType != "ON_DEMAND" || p.InstanceTypes[0] != "m5.large" || len(p.Labels)+len(p.Taints) != 0 {
		t.Errorf("a group of which only sizes were given: %+v", p)
	}
}

func TestANodeGroupChangesWhenItsUpdateIsDone(t *testing.T) {
	w := newFixture(t, slowUpdates)
	ctx, name, group := t.Context(), sdk.String("sandbox"), sdk.String("system")
	out, err := w.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: name, NodegroupName: group,
		ScalingConfig: &ekstypes.NodegroupScalingConfig{MaxSize: sdk.Int32(6), DesiredSize: sdk.Int32(5)},
		Labels:        &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"a": "b"}, RemoveLabels: []string{"team"}},
		Taints: &ekstypes.UpdateTaintsPayload{
			AddOrUpdateTaints: []ekstypes.Taint{{Key: sdk.String("CriticalAddonsOnly"), Value: sdk.String("yes"), Effect: "NO_SCHEDULE"}},
			RemoveTaints:      []ekstypes.Taint{{Key: sdk.String("old"), Effect: "NO_EXECUTE"}},
		}})
	ok(t, err)
	_, err = w.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: name, NodegroupName: group, ScalingConfig: &ekstypes.NodegroupScalingConfig{MaxSize: sdk.Int32(7)}})
	wantCode(t, err, "ResourceInUseException")
	_, err = w.eks.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: name, UpdateId: out.Update.Id})
	wantCode(t, err, "ResourceNotFoundException") // it is the node group's
	if g := w.nodeGroup(t, "system"); g.Status != "UPDATING" || *g.ScalingConfig.MaxSize != 4 || w.describe(t).Status != "ACTIVE" {
		t.Errorf("while it runs: %s %+v", g.Status, g.ScalingConfig)
	}
	_, err = w.eks.TagResource(ctx, &eks.TagResourceInput{ResourceArn: w.nodeGroup(t, "system").NodegroupArn, Tags: map[string]string{"t": "v"}})
	ok(t, err)
	w.clock.advance(time.Minute)
	update, err := w.eks.DescribeUpdate(ctx, &eks.DescribeUpdateInput{Name: name, NodegroupName: group, UpdateId: out.Update.Id})
	ok(t, err)
	g := w.nodeGroup(t, "system")
	if update.Update.Status != "Successful" || g.Status != "ACTIVE" || *g.ScalingConfig.MinSize != 2 || *g.ScalingConfig.DesiredSize != 5 || *g.ScalingConfig.MaxSize != 6 ||
		len(g.Labels) != 1 || g.Labels["a"] != "b" || len(g.Taints) != 1 || *g.Taints[0].Value != "yes" || g.Tags["t"] != "v" {
		t.Errorf("when it is done: %s %+v %v %+v %v", g.Status, g.ScalingConfig, g.Labels, g.Taints, g.Tags)
	}
}

func TestNodeGroupsRefuseWhatCannotBe(t *testing.T) {
	w := newFixture(t, cluster)
	for name, input := range map[string]eks.UpdateNodegroupConfigInput{
		"nothing":                     {},
		"a minimum over the desired":  {ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: sdk.Int32(3)}},
		"a maximum below the desired": {ScalingConfig: &ekstypes.NodegroupScalingConfig{MaxSize: sdk.Int32(1)}},
		"no maximum":                  {ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: sdk.Int32(0), DesiredSize: sdk.Int32(0), MaxSize: sdk.Int32(0)}},
		"a label set and removed":     {Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"a": "b"}, RemoveLabels: []string{"a"}}},
		"a label without a key":       {Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"": "b"}}},
		"a taint of Kubernetes' form": {Taints: &ekstypes.UpdateTaintsPayload{AddOrUpdateTaints: []ekstypes.Taint{{Key: sdk.String("a"), Effect: "NoSchedule"}}}},
		"a taint set and removed": {Taints: &ekstypes.UpdateTaintsPayload{AddOrUpdateTaints: []ekstypes.Taint{{Key: sdk.String("a"), Effect: "NO_EXECUTE"}},
			RemoveTaints: []ekstypes.Taint{{Key: sdk.String("a"), Value: sdk.String("b"), Effect: "NO_EXECUTE"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			input.ClusterName, input.NodegroupName = sdk.String("sandbox"), sdk.String("system")
			_, err := w.eks.UpdateNodegroupConfig(t.Context(), &input)
			wantCode(t, err, "InvalidParameterException")
		})
	}
	if g := w.nodeGroup(t, "system"); *g.ScalingConfig.MinSize != 2 || g.Labels["team"] != "platform" {
		t.Errorf("what was refused was done: %+v", g)
	}
}
