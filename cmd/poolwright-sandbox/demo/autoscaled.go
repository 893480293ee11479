package demo

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// groupLabel is on the nodes of a managed node group.
const groupLabel = "eks.amazonaws.com/nodegroup"

// autoscale launches a node group's nodes as its Auto Scaling group does when
// Cluster Autoscaler sets its size, and waits until they are ready. It returns the
// instances.
func (s *Run) autoscale(ctx context.Context) ([]string, error) {
	group := s.Setup.Groups[0]
	if err := s.launchGroup(ctx, group.Name, group.Desired); err != nil {
		return nil, fmt.Errorf("launching the nodes of %s: %w", group.Name, err)
	}
	var instances []string
	for _, i := range s.environment.AWS.Instances() {
		if i.Tags["eks:nodegroup-name"] == group.Name {
			instances = append(instances, i.ID)
		}
	}
	if len(instances) != group.Desired {
		return nil, fmt.Errorf("EC2 launched %d of %d nodes of %s", len(instances), group.Desired, group.Name)
	}
	err := s.retry(ctx, "waiting for Cluster Autoscaler's nodes", func() error {
		nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: groupLabel + "=" + group.Name})
		if err != nil {
			return err
		}
		ready := 0
		for _, n := range nodes.Items {
			if len(n.Spec.Taints) == 0 {
				ready++
			}
		}
		if ready != len(instances) {
			return fmt.Errorf("%d of %d are ready", ready, len(instances))
		}
		return nil
	})
	return instances, err
}

// launchGroup launches EC2 instances by hand.
func (s *Run) launchGroup(ctx context.Context, group string, n int) error {
	image, err := s.ssm(ctx, "/aws/service/eks/optimized-ami/"+s.Setup.Version+"/amazon-linux-2/recommended/image_id")
	if err != nil {
		return err
	}
	join := fmt.Sprintf("#!/bin/bash\n/etc/eks/bootstrap.sh %s --apiserver-endpoint %s --b64-cluster-ca %s --kubelet-extra-args '--node-labels=%s=%s'\n",
		s.Setup.Cluster, s.environment.REST().Host, base64.StdEncoding.EncodeToString(s.environment.REST().CAData), groupLabel, group)
	err = s.ec2(ctx, "CreateLaunchTemplate", map[string]string{
		"LaunchTemplateName":          group,
		"LaunchTemplateData.ImageId":  image,
		"LaunchTemplateData.UserData": base64.StdEncoding.EncodeToString([]byte(join)),
	})
	if err != nil {
		return err
	}
	return s.ec2(ctx, "CreateFleet", map[string]string{
		"Type": "instant",
		"TargetCapacitySpecification.DefaultTargetCapacityType":                  "on-demand",
		"TargetCapacitySpecification.TotalTargetCapacity":                        strconv.Itoa(n),
		"LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName": group,
		"LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version":            "$Latest",
		"LaunchTemplateConfigs.1.Overrides.1.InstanceType":                       "m5.large",
		"LaunchTemplateConfigs.1.Overrides.1.SubnetId":                           "subnet-0a000000000000001",
		"TagSpecification.1.ResourceType":                                        "instance",
		"TagSpecification.1.Tag.1.Key":                                           "eks:nodegroup-name",
		"TagSpecification.1.Tag.1.Value":                                         group,
		"TagSpecification.1.Tag.2.Key":                                           "kubernetes.io/cluster/" + s.Setup.Cluster,
		"TagSpecification.1.Tag.2.Value":                                         "owned",
	})
}
