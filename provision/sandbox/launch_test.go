package sandbox_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// account is the real SDK, set up by the environment alone.
type account struct {
	ec2 *ec2.Client
	eks *eks.Client
	ssm *ssm.Client
}

func connect(t *testing.T, target *sandbox.Environment) account {
	t.Helper()
	for name, value := range target.Env() {
		t.Setenv(name, value)
	}
	loaded, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return account{ec2: ec2.NewFromConfig(loaded), eks: eks.NewFromConfig(loaded), ssm: ssm.NewFromConfig(loaded)}
}

func TestAnInstanceThatTheSDKLaunchesBecomesANodeAndGoes(t *testing.T) {
	settings := sandbox.DefaultConfig()
	settings.WithoutGit = true
	settings.AWS.Delays.Fleet, settings.AWS.Delays.Running, settings.AWS.Delays.Shutdown = 0, 50*time.Millisecond, 50*time.Millisecond
	settings.Nodes.Join, settings.Nodes.NodeGone = 50*time.Millisecond, 50*time.Millisecond
	settings.SystemTaints = []corev1.Taint{{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	target := start(t, settings)
	cloud := connect(t, target)
	api, err := kubernetes.NewForConfig(target.REST())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the system node has its taint and no other", func() bool {
		list, err := api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "sandbox.poolwright.dev/system=true"})
		return err == nil && len(list.Items) == 1 && slices.Equal(list.Items[0].Spec.Taints, settings.SystemTaints)
	})
	id := cloud.launch(t, settings.AWS.Cluster.Name)
	instances := target.AWS.Instances()
	if len(instances) != 1 || instances[0].ID != id {
		t.Fatalf("AWS shows %v", instances)
	}
	name := instances[0].DNSName
	var node *corev1.Node
	eventually(t, "the instance's node is ready", func() bool {
		var err error
		node, err = api.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && ready(node)
	})
	if want := fmt.Sprintf("aws:///%s/%s", instances[0].Zone, id); node.Spec.ProviderID != want {
		t.Errorf("the node's provider id is %q, want %q", node.Spec.ProviderID, want)
	}
	if got := node.Labels["workload"]; got != "inference" {
		t.Errorf("the user data's label is %q", got)
	}
	if got := node.Status.Capacity.Cpu().Value(); got != 4 {
		t.Errorf("a g4dn.xlarge has %d CPUs", got)
	}
	if gpus := node.Status.Capacity["nvidia.com/gpu"]; !gpus.IsZero() {
		t.Errorf("there are %s GPUs without a device plugin", gpus.String())
	}
	if _, err := cloud.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the terminated instance's node is gone", func() bool {
		_, err := api.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if spent := target.AWS.Spend(time.Now()); spent <= 0 {
		t.Errorf("it cost %v dollars", spent)
	}
}

func ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return len(node.Spec.Taints) == 0 // node-lifecycle has seen it too
		}
	}
	return false
}

// launch asks for one instance as the engine does: a launch template with the
// cluster's own endpoint and authority, and an instant fleet.
func (a account) launch(t *testing.T, cluster string) string {
	t.Helper()
	ctx := t.Context()
	image, err := a.ssm.GetParameter(ctx, &ssm.GetParameterInput{
		Name: sdk.String("/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"),
	})
	if err != nil {
		t.Fatal(err)
	}
	subnets, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: []types.Filter{
		{Name: sdk.String("tag:karpenter.sh/discovery"), Values: []string{cluster}},
	}})
	if err != nil || len(subnets.Subnets) == 0 {
		t.Fatalf("finding subnets: %v", err)
	}
	_, err = a.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: sdk.String("gpu"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId:  image.Parameter.Value,
			UserData: sdk.String(base64.StdEncoding.EncodeToString([]byte(a.userData(ctx, t, cluster)))),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := a.ec2.CreateFleet(ctx, &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand, TotalTargetCapacity: sdk.Int32(1),
		},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: sdk.String("gpu"), Version: sdk.String("$Latest"),
			},
			Overrides: []types.FleetLaunchTemplateOverridesRequest{
				{InstanceType: types.InstanceTypeG4dnXlarge, SubnetId: subnets.Subnets[0].SubnetId},
			},
		}},
	})
	if err != nil || len(fleet.Instances) != 1 {
		t.Fatalf("launching: %v", err)
	}
	return fleet.Instances[0].InstanceIds[0]
}

func (a account) userData(ctx context.Context, t *testing.T, name string) string {
	t.Helper()
	found, err := a.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(name)})
	if err != nil {
		t.Fatal(err)
	}
	c := found.Cluster
	return fmt.Sprintf(`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: %s, apiServerEndpoint: %s, certificateAuthority: %s, cidr: %s}
  kubelet:
    flags: ['--node-labels="workload=inference"']
--//--
`, *c.Name, *c.Endpoint, *c.CertificateAuthority.Data, *c.KubernetesNetworkConfig.ServiceIpv4Cidr)
}
