package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// provisionerLabel is what Karpenter before 0.32 has on its nodes.
const provisionerLabel = "karpenter.sh/provisioner-name"

// provisionerKind is a kind of Karpenter before 0.32.
var provisionerKind = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1alpha5", Kind: "Provisioner"}

// crdsOfV1alpha5 have the kinds of Karpenter before 0.32, with any fields.
func crdsOfV1alpha5() string {
	templates := schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1alpha1", Kind: "AWSNodeTemplate"}
	return crdOf(provisionerKind, "provisioners", "Cluster", anyFields) + "---\n" + crdOf(templates, "awsnodetemplates", "Cluster", anyFields)
}

// otherNode is a node that somebody else than the engine launches.
type otherNode struct {
	// name is that of the launch template.
	name string
	// image and kind are the names of image and instance type.
	image, kind string
	// kubelet are the kubelet's arguments.
	kubelet string
	tags    map[string]string
}

// otherTemplate creates the launch template by which such nodes join the cluster.
func (s engineSuite) otherTemplate(by account, n otherNode) {
	s.Helper()
	images, err := by.ec2.DescribeImages(s.Context(), &ec2.DescribeImagesInput{
		Owners: []string{"amazon"}, Filters: []ec2types.Filter{{Name: sdk.String("name"), Values: []string{n.image}}},
	})
	if err != nil || len(images.Images) != 1 {
		s.Fatalf("got %d images, %v", len(images.Images), err)
	}
	join := fmt.Sprintf("#!/bin/bash\n/etc/eks/bootstrap.sh %s --apiserver-endpoint %s --b64-cluster-ca %s --kubelet-extra-args '%s'\n",
		s.aws.Cluster.Name, s.REST().Host, base64.StdEncoding.EncodeToString(s.REST().CAData), n.kubelet)
	if _, err := by.ec2.CreateLaunchTemplate(s.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &n.name,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: images.Images[0].ImageId, UserData: sdk.String(base64.StdEncoding.EncodeToString([]byte(join))),
		},
	}); err != nil {
		s.Fatal(err)
	}
}

// launchesOther launches so many of them, and returns their instances.
func (s engineSuite) launchesOther(by account, n otherNode, count int32) []string {
	s.Helper()
	var tags []ec2types.Tag
	for key, value := range n.tags {
		tags = append(tags, ec2types.Tag{Key: sdk.String(key), Value: sdk.String(value)})
	}
	out, err := by.ec2.CreateFleet(s.Context(), &ec2.CreateFleetInput{
		Type: ec2types.FleetTypeInstant,
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeOnDemand, TotalTargetCapacity: &count,
		},
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeInstance, Tags: tags}},
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &n.name, Version: sdk.String("$Latest")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{{InstanceType: ec2types.InstanceType(n.kind), SubnetId: sdk.String("subnet-0a000000000000001")}},
		}},
	})
	if err != nil || len(out.Instances) != 1 {
		s.Fatalf("launching %s: %v, %v", n.name, out, err)
	}
	return out.Instances[0].InstanceIds
}

// provisioned has a node of each Provisioner, as Karpenter 0.19.3 launches them, and returns their instances.
func (p *past) provisioned() (instances []string) {
	p.Helper()
	by := newAccount(p.Endpoint(), p.of.Region)
	release := p.aws.Releases[len(p.aws.Releases)-1]
	for _, n := range []otherNode{{name: "memory", kind: "r5a.xlarge"}, {name: "cpu", kind: "c5a.xlarge"}, {name: "gpu", kind: "g4dn.xlarge"}} {
		n.image, n.kubelet = "amazon-eks-node-1.32-"+release, "--node-labels="+provisionerLabel+"="+n.name+",baseten.co/karpenter-provisioner="+n.name
		if n.name == "gpu" {
			n.image, n.kubelet = "amazon-eks-gpu-node-1.32-"+release, n.kubelet+" --register-with-taints=nvidia.com/gpu=true:NoSchedule"
		}
		n.tags = map[string]string{provisionerLabel: n.name, "kubernetes.io/cluster/" + p.of.Cluster: "owned"}
		p.otherTemplate(by, n)
		instances = append(instances, p.launchesOther(by, n, 1)...)
	}
	return instances
}

// karpenter019 plays Karpenter 0.19.3: what it does to its nodes.
type karpenter019 struct {
	*past
	by account
	// instances are those of its nodes.
	instances []string
	// passes counts how often it has searched for empty nodes.
	passes atomic.Int64
}

// deprovisions plays it until the test ends. Its nodes have their first pods already.
func (p *past) deprovisions(instances []string) *karpenter019 {
	p.Helper()
	k := &karpenter019{past: p, by: newAccount(p.Endpoint(), p.of.Region), instances: instances}
	ctx, stop := context.WithCancel(context.WithoutCancel(p.Context()))
	p.Cleanup(func() {
		stop()
		p.simulating.Wait()
	})
	p.simulating.Go(func() {
		for ctx.Err() == nil {
			if err := k.pass(ctx); err != nil && ctx.Err() == nil {
				p.Errorf("playing Karpenter 0.19.3: %v", err)
				return
			}
			k.passes.Add(1)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return k
}

// pass ends the instances of nodes that are empty, of Provisioners with ttlSecondsAfterEmpty, while Karpenter's Deployment has
// replicas. It does not wait for so long.
func (k *karpenter019) pass(ctx context.Context) error {
	var deployment appsv1.Deployment
	err := k.hand.Get(ctx, client.ObjectKey{Namespace: stockNamespace, Name: stockName}, &deployment)
	if err != nil || *deployment.Spec.Replicas == 0 {
		return client.IgnoreNotFound(err)
	}
	var nodes corev1.NodeList
	var pods corev1.PodList
	if err := errors.Join(k.hand.List(ctx, &nodes, client.HasLabels{provisionerLabel}), k.hand.List(ctx, &pods)); err != nil {
		return err
	}
	used := map[string]bool{}
	for i := range pods.Items {
		owner := metav1.GetControllerOf(&pods.Items[i])
		used[pods.Items[i].Spec.NodeName] = used[pods.Items[i].Spec.NodeName] || owner == nil || owner.Kind != "DaemonSet"
	}
	var empty []string
	for _, node := range nodes.Items {
		id := node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
		if used[node.Name] || !slices.Contains(k.instances, id) {
			continue
		}
		ends, err := k.endsEmpty(ctx, node.Labels[provisionerLabel])
		if err != nil {
			return err
		}
		if ends {
			empty = append(empty, id)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	k.instances = slices.DeleteFunc(k.instances, func(id string) bool { return slices.Contains(empty, id) })
	_, err = k.by.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: empty})
	return err
}

// endsEmpty is whether a Provisioner has ttlSecondsAfterEmpty.
func (k *karpenter019) endsEmpty(ctx context.Context, provisioner string) (found bool, err error) {
	of := &unstructured.Unstructured{}
	of.SetGroupVersionKind(provisionerKind)
	if err := k.hand.Get(ctx, client.ObjectKey{Name: provisioner}, of); err != nil {
		return false, err
	}
	_, found, err = unstructured.NestedInt64(of.Object, "spec", "ttlSecondsAfterEmpty")
	return found, err
}

// endsNothingWithoutItsChart removes the chart first, and has the pods taken away by a block of the guide: the empty nodes stay.
// Both come back then.
func (k *karpenter019) endsNothingWithoutItsChart(u *shell, block string) {
	k.Helper()
	before, calls := k.nodesWith(provisionerLabel), len(k.AWS.Calls())
	k.kubectl("", "-n", stockNamespace, "delete", "deployment", stockName)
	u.block(block, exitCode{0})
	k.allRun(0)
	begin := k.passes.Load()
	// The first of them may have begun before.
	k.eventually("it has searched for empty nodes twice", func() error {
		if n := k.passes.Load() - begin; n < 2 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	if made := k.launchesAndEnds(calls); len(made) > 0 {
		k.Errorf("instances came or went without Karpenter: %q", made)
	}
	if after := k.nodesWith(provisionerLabel); !slices.Equal(before, after) {
		k.Errorf("nodes were %v and are %v", before, after)
	}
	k.kubectl("", "apply", "-f", "workloads")
	k.allRun(k.pods)
	k.installStock()
}

// leftNode is a node of Karpenter 0.19.3 that still has a pod when Poolwright starts.
type leftNode struct {
	*past
	instance  string
	node, pod client.ObjectKey
	nodeSpec  corev1.NodeSpec
	podUID    string
}

// leavesNode launches it when nobody runs any more who would end it.
func (p *past) leavesNode() *leftNode {
	p.Helper()
	by := newAccount(p.Endpoint(), p.of.Region)
	n := otherNode{
		name: "left", kind: "c5a.xlarge", image: "amazon-eks-node-1.32-" + p.aws.Releases[len(p.aws.Releases)-1],
		kubelet: "--node-labels=" + provisionerLabel + "=cpu,left=true",
		tags:    map[string]string{provisionerLabel: "cpu", "kubernetes.io/cluster/" + p.of.Cluster: "owned"},
	}
	p.otherTemplate(by, n)
	l := &leftNode{past: p, instance: p.launchesOther(by, n, 1)[0], pod: client.ObjectKey{Namespace: "kube-system", Name: "left"}}
	grace := int64(1)
	if err := p.hand.Create(p.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.pod.Namespace, Name: l.pod.Name},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"left": "true"}, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/left:1"}},
		},
	}); err != nil {
		p.Fatal(err)
	}
	p.eventually("the pod runs on the node that is left", func() error {
		pod, err := l.running()
		if err != nil {
			return err
		}
		var node corev1.Node
		l.node, l.podUID = client.ObjectKey{Name: pod.Spec.NodeName}, string(pod.UID)
		if err := p.hand.Get(p.Context(), l.node, &node); err != nil {
			return err
		}
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s has %v", node.Name, node.Spec.Taints)
		}
		l.nodeSpec = node.Spec
		return nil
	})
	return l
}

func (l *leftNode) running() (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := l.hand.Get(l.Context(), l.pod, &pod); err != nil {
		return nil, err
	}
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return nil, fmt.Errorf("pod %s is %s, deleted %v", pod.Name, pod.Status.Phase, pod.DeletionTimestamp)
	}
	return &pod, nil
}
