package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// Set-up 004: three provisioners of v1alpha5 as they are written, at EKS 1.32,
// that pods choose by label, beside nodes of Cluster Autoscaler. The 30 seconds until
// an empty node goes are made shorter by a commit, when the pods run.
func TestSetupBaseten(t *testing.T) {
	t.Parallel()
	s := newSetupSuite(t, "baseten")
	others := s.autoscales("autoscaled", 2)
	before := others.state()
	all := []struct{ file, pool, kind string }{
		{"memory", "memory", "r5a.xlarge"}, {"cpu", "cpu", "c5a.xlarge"},
		{"gpu", "gpu", "g4dn.xlarge"}, {"gpu-g5", "gpu", "g5.xlarge"},
		// By the memory of its GPU: g4dn.xlarge, which is cheaper, has too little.
		{"gpu-memory", "gpu", "g5.xlarge"},
	}
	var deployments []*unstructured.Unstructured
	for _, one := range all[:3] {
		deployments = append(deployments, s.creates("workloads/"+one.file+".yaml"))
	}
	for i, one := range all {
		if i == len(deployments) {
			// Only now: the pod that takes any GPU would take this one's node, were it
			// ready first, and the scheduler would be right. So would the one that needs
			// memory.
			deployments = append(deployments, s.creates("workloads/"+one.file+".yaml"))
		}
		want := machine{
			Pool: one.pool, Type: one.kind, Capacity: onDemand,
			Labels:   map[string]string{"baseten.co/karpenter-provisioner": one.pool},
			Volume:   volume{Device: "/dev/xvda", Size: "60", Type: "gp3", DeletedWith: "true"},
			Metadata: metadata{Endpoint: "enabled", Tokens: "required", HopLimit: "2", IPv6: "disabled"},
			Image:    "amazon-eks-node-1.32-" + s.latest(),
		}
		if one.pool == "gpu" {
			want.Taints, want.Volume.Size = []string{"nvidia.com/gpu=true:NoSchedule"}, "200"
			want.Image = "amazon-eks-gpu-node-1.32-" + s.latest()
		}
		s.landsOf(deployments[i]).is(want)
	}
	s.runsThePage("Verify", "Monitor")
	pools := []string{"memory", "cpu", "gpu"}
	for _, pool := range pools {
		s.waitsFor(pool, "30s")
		s.git.repo.replace("clusters/dev/provisioner-"+pool+".yaml", "ttlSecondsAfterEmpty: 30", "ttlSecondsAfterEmpty: 5")
	}
	s.git.repo.commit("Let empty nodes go sooner")
	s.requests()
	s.applied()
	s.zero()
	for _, pool := range pools {
		s.lasted(pool, 5*time.Second)
	}
	if diff := cmp.Diff(before, others.state()); diff != "" {
		t.Errorf("Cluster Autoscaler's nodes were touched (-before +after):\n%s", diff)
	}
	others.unnamed()
}

// autoscaled are nodes that Cluster Autoscaler brought.
type autoscaled struct {
	setupSuite
	group     string
	instances []string
}

// autoscales launches nodes as the node group's Auto Scaling group does when
// Cluster Autoscaler raises its size, and waits until they are ready.
func (s setupSuite) autoscales(group string, n int32) autoscaled {
	s.Helper()
	images, err := s.account.ec2.DescribeImages(s.Context(), &ec2.DescribeImagesInput{
		Owners: []string{"amazon"}, Filters: []ec2types.Filter{{Name: sdk.String("name"), Values: []string{"amazon-eks-node-1.32-" + s.latest()}}},
	})
	if err != nil || len(images.Images) != 1 {
		s.Fatalf("got %d images, %v", len(images.Images), err)
	}
	join := fmt.Sprintf("#!/bin/bash\n/etc/eks/bootstrap.sh %s --apiserver-endpoint %s --b64-cluster-ca %s --kubelet-extra-args '--node-labels=eks.amazonaws.com/nodegroup=%s'\n",
		s.of.Cluster, s.REST().Host, base64.StdEncoding.EncodeToString(s.REST().CAData), group)
	if _, err := s.account.ec2.CreateLaunchTemplate(s.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &group,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: images.Images[0].ImageId, UserData: sdk.String(base64.StdEncoding.EncodeToString([]byte(join))),
		},
	}); err != nil {
		s.Fatal(err)
	}
	tags := []ec2types.Tag{
		{Key: sdk.String("eks:cluster-name"), Value: &s.of.Cluster}, {Key: sdk.String("eks:nodegroup-name"), Value: &group},
		{Key: sdk.String("kubernetes.io/cluster/" + s.of.Cluster), Value: sdk.String("owned")},
	}
	out, err := s.account.ec2.CreateFleet(s.Context(), &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand, TotalTargetCapacity: &n,
		},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: tags}},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &group, Version: sdk.String("$Latest")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large", SubnetId: sdk.String("subnet-0a000000000000001")}},
		}},
	})
	if err != nil || len(out.Instances) != 1 {
		s.Fatalf("the group launched nothing: %v, %v", out, err)
	}
	a := autoscaled{s, group, out.Instances[0].InstanceIds}
	s.until("Cluster Autoscaler's nodes are ready", func() error {
		nodes, err := a.nodes()
		if err != nil {
			return err
		}
		for _, node := range nodes {
			if len(node.Spec.Taints) > 0 {
				return fmt.Errorf("node %s has %v", node.Name, node.Spec.Taints)
			}
		}
		if len(nodes) != int(n) {
			return fmt.Errorf("there are %d nodes", len(nodes))
		}
		return nil
	})
	return a
}

func (a autoscaled) nodes() ([]corev1.Node, error) {
	var list corev1.NodeList
	err := a.hand.List(a.Context(), &list, client.MatchingLabels{"eks.amazonaws.com/nodegroup": a.group})
	return list.Items, err
}

// nodeState is what a hand on a node would leave behind.
type nodeState struct {
	Name   string
	UID    types.UID
	Labels map[string]string
	Spec   corev1.NodeSpec
	Leaves bool
}

// groupState is all that AWS and the cluster show of the group, but for heartbeats.
type groupState struct {
	Group     string
	Instances []sandboxaws.Instance
	Nodes     []nodeState
}

func (a autoscaled) state() (state groupState) {
	a.Helper()
	got, err := a.account.eks.DescribeNodegroup(a.Context(), &eks.DescribeNodegroupInput{ClusterName: &a.of.Cluster, NodegroupName: &a.group})
	if err != nil {
		a.Fatal(err)
	}
	text, err := json.MarshalIndent(got.Nodegroup, "", " ")
	if err != nil {
		a.Fatal(err)
	}
	state.Group = string(text)
	for _, i := range a.AWS.Instances() {
		if slices.Contains(a.instances, i.ID) {
			i.UserData = ""
			state.Instances = append(state.Instances, i)
		}
	}
	nodes, err := a.nodes()
	if err != nil {
		a.Fatal(err)
	}
	for _, node := range nodes {
		if _, has := node.Labels[karpv1.NodePoolLabelKey]; has {
			a.Errorf("node %s is said to be Karpenter's", node.Name)
		}
		state.Nodes = append(state.Nodes, nodeState{node.Name, node.UID, node.Labels, node.Spec, node.DeletionTimestamp != nil})
	}
	return state
}

// unnamed: nobody but this test asked AWS for anything to one of the instances, and
// nobody at all to change the group.
func (a autoscaled) unnamed() {
	a.Helper()
	for _, call := range a.AWS.Calls() {
		named := slices.ContainsFunc(a.instances, func(id string) bool { return strings.Contains(call.Params, id) })
		if named && call.Key != personKey {
			a.Errorf("%s named one of Cluster Autoscaler's instances: %s", call.Operation, call.Params)
		}
		if strings.HasSuffix(call.Operation, "NodegroupConfig") || strings.HasSuffix(call.Operation, "NodegroupVersion") || call.Operation == "DeleteNodegroup" {
			a.Errorf("a node group was changed: %s %s", call.Operation, call.Params)
		}
	}
}
