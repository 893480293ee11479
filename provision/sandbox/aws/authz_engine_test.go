package aws_test

import (
	"context"
	"fmt"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

const karpenterProfile = "sandbox_1234567890"

// TestTheEngineMayDoItsWork makes each of the engine's calls by the engine's
// policy alone.
func TestTheEngineMayDoItsWork(t *testing.T) {
	admin, controller := newEstate(t)
	_, err := admin.iam.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: sdk.String(nodeRole), AssumeRolePolicyDocument: sdk.String(trustEC2)})
	ok(t, err)
	engine := written(t, iampolicy.Engine)
	admin.cloud.Restrict("CONTROLLER", engine, nil)
	take(t, controller, engine, engineReads())
	take(t, controller, engine, profileSteps())
	take(t, controller, engine, launchSteps(t, admin))
}

func engineReads() []step {
	s := sdk.String
	return []step{
		{"instance types", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{}))
		}},
		{"offerings", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone"}))
		}},
		{"images", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{}))
		}},
		{"image parameters", func(ctx context.Context, w *fixture) error {
			return drop(w.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: s("/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id")}))
		}},
		{"subnets", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{}))
		}},
		{"security groups", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{}))
		}},
		{"spot prices", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{}))
		}},
		{"prices", func(ctx context.Context, w *fixture) error {
			return drop(w.pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: s("AmazonEC2")}))
		}},
		{"quotas", func(ctx context.Context, w *fixture) error {
			return drop(servicequotas.NewFromConfig(w.cfg).ListServiceQuotas(ctx, &servicequotas.ListServiceQuotasInput{ServiceCode: s("ec2")}))
		}},
		{"AWS's default quotas", func(ctx context.Context, w *fixture) error {
			return drop(servicequotas.NewFromConfig(w.cfg).ListAWSDefaultServiceQuotas(ctx, &servicequotas.ListAWSDefaultServiceQuotasInput{ServiceCode: s("ec2")}))
		}},
		{"instances", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{}))
		}},
		{"their status", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{}))
		}},
		{"reservations", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{}))
		}},
		{"placement groups", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{}))
		}},
		{"the cluster", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: s("sandbox")}))
		}},
		{"zonal shifts", func(ctx context.Context, w *fixture) error {
			return drop(arczonalshift.NewFromConfig(w.cfg).GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: s("arn:aws:eks:us-east-1:000000000000:cluster/sandbox")}))
		}},
		{"the queue", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: s("sandbox")}))
		}},
		{"its messages", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: s(ourQueue)}))
		}},
		{"done with a message", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: s(ourQueue), ReceiptHandle: s("message-1")}))
		}},
	}
}

func profileSteps() []step {
	s := sdk.String
	change := func(ctx context.Context, w *fixture) error {
		return drop(w.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: s(karpenterProfile), RoleName: s(nodeRole)}))
	}
	return []step{
		{"list profiles", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{PathPrefix: s("/karpenter/us-east-1/sandbox/")}))
		}},
		{"create one", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
				InstanceProfileName: s(karpenterProfile), Path: s("/karpenter/us-east-1/sandbox/0e6b1a2c/"),
				Tags: iamTags("kubernetes.io/cluster/sandbox", "owned", "eks:eks-cluster-name", "sandbox", "karpenter.k8s.aws/ec2nodeclass", "gpu", "topology.kubernetes.io/region", "us-east-1", "team", "ml"),
			}))
		}},
		{"read it", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: s(karpenterProfile)}))
		}},
		{"put the role in", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: s(karpenterProfile), RoleName: s(nodeRole)}))
		}},
		{"take it out", change},
		{"delete it", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: s(karpenterProfile)}))
		}},
	}
}

func launchSteps(t *testing.T, admin *fixture) []step {
	t.Helper()
	const name = "karpenter.k8s.aws/1"
	id := ""
	// The administrator puts the node role into the profile of the template.
	profile := sdk.String("p-sandbox")
	_, err := admin.iam.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: profile})
	ok(t, err)
	ok(t, drop(admin.iam.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: profile, RoleName: sdk.String(nodeRole)})))
	return []step{
		{"create a template", func(ctx context.Context, w *fixture) error { return w.templateFor(ctx, t, name, "sandbox") }},
		{"find templates", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: filters("tag:eks:eks-cluster-name", "sandbox")}))
		}},
		{"try a fleet", func(ctx context.Context, w *fixture) error {
			in := w.fleetFor(t, name, "sandbox")
			in.DryRun = sdk.Bool(true)
			return onlyDry(drop(w.ec2.CreateFleet(ctx, in)))
		}},
		{"try an instance", func(ctx context.Context, w *fixture) error {
			return onlyDry(drop(w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
				DryRun: sdk.Bool(true), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), InstanceType: "m5.large",
				LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: sdk.String(name), Version: sdk.String("$Latest")},
				NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: sdk.Int32(0), SubnetId: sdk.String(ourSubnet)}},
				TagSpecifications: tagged("sandbox", types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeNetworkInterface),
			})))
		}},
		{"launch", func(ctx context.Context, w *fixture) error {
			out, err := w.ec2.CreateFleet(ctx, w.fleetFor(t, name, "sandbox"))
			if err == nil {
				id = out.Instances[0].InstanceIds[0]
			}
			return err
		}},
		{"name the instance", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags("Name", "node", "karpenter.sh/nodeclaim", "gpu-1", "eks:eks-cluster-name", "sandbox")}))
		}},
		{"end it", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}))
		}},
		{"delete the template", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: sdk.String(name)}))
		}},
	}
}

// onlyDry makes no error of the refusal that means yes.
func onlyDry(err error) error {
	if code(err) == "DryRunOperation" {
		return nil
	}
	return err
}

// TestADryRunOfCreateFleetNeedsNoRunInstances: the engine checks its permissions one by one, by
// dry runs, and gives the class the reason of the first that lacks.
func TestADryRunOfCreateFleetNeedsNoRunInstances(t *testing.T) {
	w, zones := ready(t, nil)
	ctx := t.Context()
	const statement = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"%s","Resource":"*"}]}`
	run := &ec2.RunInstancesInput{DryRun: sdk.Bool(true), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), InstanceType: "g5.xlarge",
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: sdk.String("gpu"), Version: sdk.String("$Latest")},
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: sdk.Int32(0), SubnetId: sdk.String(zones["us-east-1a"])}}}
	for denied, want := range map[string][3]string{
		"ec2:RunInstances": {"DryRunOperation", "UnauthorizedOperation", "UnauthorizedOperation"},
		"ec2:CreateFleet":  {"UnauthorizedOperation", "DryRunOperation", "UnauthorizedOperation"},
	} {
		t.Run(denied, func(t *testing.T) {
			d, err := policy.Parse(fmt.Sprintf(statement, denied))
			ok(t, err)
			t.Cleanup(w.cloud.Restrict("ENGINE", []policy.Document{d}, nil))
			engine := w.as("ENGINE")
			in := fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0})
			_, launched := engine.ec2.CreateFleet(ctx, in)
			in.DryRun = sdk.Bool(true)
			_, dry := engine.ec2.CreateFleet(ctx, in)
			_, instances := engine.ec2.RunInstances(ctx, run)
			if got := [3]string{code(dry), code(instances), code(launched)}; got != want {
				t.Errorf("a dry fleet, a dry launch and a fleet answer %q, want %q", got, want)
			}
		})
	}
}
