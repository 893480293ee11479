package aws_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// refusal is one operation that must fail, and how.
type refusal struct {
	name string
	call func(context.Context, *fixture) error
	code string
}

// drop keeps only a call's error.
func drop[T any](_ T, err error) error { return err }

func refusals() []refusal {
	s := sdk.String
	return []refusal{
		{"a type that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"z9.nano"}}))
		}, "InvalidInstanceType"},
		{"a location type that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: "planet"}))
		}, "InvalidParameterValue"},
		{"a filter that spot prices do not have", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{Filters: filters("mood", "good")}))
		}, "InvalidParameterValue"},
		{"a subnet that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-1"}}))
		}, "InvalidSubnetID.NotFound"},
		{"a security group that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-0123456789abcdef0"}}))
		}, "InvalidGroup.NotFound"},
		{"a security group id that is none", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-1"}}))
		}, "InvalidGroupId.Malformed"},
		{"tagging a security group whose id is none", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{"sg-1"}, Tags: tags("a", "b")}))
		}, "InvalidGroupId.Malformed"},
		{"an image that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{"ami-0123456789abcdef0"}}))
		}, "InvalidAMIID.NotFound"},
		{"an image id that is none", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{"ami-1"}}))
		}, "InvalidAMIID.Malformed"},
		{"a launch template name that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"none"}}))
		}, "InvalidLaunchTemplateName.NotFoundException"},
		{"a launch template id that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{"lt-1"}}))
		}, "InvalidLaunchTemplateId.NotFound"},
		{"deleting a launch template that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: s("none")}))
		}, "InvalidLaunchTemplateName.NotFoundException"},
		{"a launch template name with blanks", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: s("a b c"), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: s("ami-1")}}))
		}, "InvalidLaunchTemplateName.MalformedException"},
		{"user data that is not base64", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: s("abc"), LaunchTemplateData: &types.RequestLaunchTemplateData{UserData: s("!")}}))
		}, "InvalidUserData.Malformed"},
		{"a fleet of no template that exists", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateFleet(ctx, fleet("none", "spot", 1, pool{"m5.large", "subnet-1", 1})))
		}, "InvalidLaunchTemplateName.NotFoundException"},
		{"running instances for real", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1)}))
		}, "MissingParameter"},
		{"an instance that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"i-00000000000000000"}}))
		}, "InvalidInstanceID.NotFound"},
		{"an instance id that is none", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"node-1"}}))
		}, "InvalidInstanceID.Malformed"},
		{"a status of an instance that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{InstanceIds: []string{"i-00000000000000000"}}))
		}, "InvalidInstanceID.NotFound"},
		{"terminating an instance that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{"i-00000000000000000"}}))
		}, "InvalidInstanceID.NotFound"},
		{"tagging an instance that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{"i-00000000000000000"}, Tags: tags("a", "b")}))
		}, "InvalidInstanceID.NotFound"},
		{"a tag key of AWS's own", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{w.cloudGroup}, Tags: tags("aws:x", "b")}))
		}, "InvalidParameterValue"},
		{"a reservation that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{"cr-1"}}))
		}, "InvalidCapacityReservationId.NotFound"},
		{"a placement group that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{GroupNames: []string{"none"}}))
		}, "InvalidPlacementGroup.Unknown"},
		{"an instance profile that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: s("none")}))
		}, "NoSuchEntity"},
		{"a parameter that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: s("/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.33/image_id")}))
		}, "ParameterNotFound"},
		{"a cluster that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: s("none")}))
		}, "ResourceNotFoundException"},
		{"a queue that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: s("none")}))
		}, "AWS.SimpleQueueService.NonExistentQueue"},
		{"a queue of another account", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: s("https://sqs.us-east-1.amazonaws.com/111111111111/sandbox")}))
		}, "AWS.SimpleQueueService.NonExistentQueue"},
		{"a queue's URL without its account", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: s("https://sqs.us-east-1.amazonaws.com/sandbox")}))
		}, "InvalidAddress"},
		{"a receipt handle that is none", func(ctx context.Context, w *fixture) error {
			return drop(w.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: s("http://x/000000000000/sandbox"), ReceiptHandle: s("x")}))
		}, "ReceiptHandleIsInvalid"},
		{"prices of another service", func(ctx context.Context, w *fixture) error {
			return drop(w.pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: s("AmazonS3")}))
		}, "InvalidParameterException"},
		{"a price filter that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(w.pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: s("AmazonEC2"), Filters: []pricingtypes.Filter{
				{Type: pricingtypes.FilterTypeTermMatch, Field: s("mood"), Value: s("good")}}}))
		}, "InvalidParameterException"},
		{"a managed resource that does not exist", func(ctx context.Context, w *fixture) error {
			return drop(arczonalshift.NewFromConfig(w.cfg).GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: s("arn:x/y")}))
		}, "ResourceNotFoundException"},
	}
}

func TestRefusals(t *testing.T) {
	w := newFixture(t, nil)
	w.cloudGroup = w.group(t)
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) { wantCode(t, r.call(t.Context(), w), r.code) })
	}
	for _, c := range w.cloud.Calls() {
		if !c.Done {
			t.Errorf("call %s %s has no end", c.Service, c.Operation)
		}
	}
}

func TestInstanceTypesAreTrue(t *testing.T) {
	w := newFixture(t, nil)
	out, err := w.ec2.DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{
		Filters: filters("supported-virtualization-type", "hvm", "processor-info.supported-architecture", "x86_64,arm64", "instance-type", "g4dn.12xlarge")})
	ok(t, err)
	if len(out.InstanceTypes) != 1 {
		t.Fatalf("%d types", len(out.InstanceTypes))
	}
	i := out.InstanceTypes[0]
	gpu := i.GpuInfo.Gpus[0]
	if *i.VCpuInfo.DefaultVCpus != 48 || *i.MemoryInfo.SizeInMiB != 196608 || *gpu.Name != "T4" || *gpu.Count != 4 || *gpu.Manufacturer != "NVIDIA" ||
		*gpu.MemoryInfo.SizeInMiB != 16384 || *i.InstanceStorageInfo.TotalSizeInGB != 900 || *i.NetworkInfo.NetworkCards[0].MaximumNetworkInterfaces != 8 ||
		*i.NetworkInfo.Ipv4AddressesPerInterface != 30 || i.Hypervisor != "nitro" || !slices.Contains(i.SupportedUsageClasses, "spot") ||
		i.ProcessorInfo.SupportedArchitectures[0] != "x86_64" || *i.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps == 0 {
		t.Errorf("g4dn.12xlarge is described as %+v", i)
	}
}

func TestPricesAgree(t *testing.T) {
	w := newFixture(t, nil)
	out, err := w.pricing.GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: sdk.String("AmazonEC2"), Filters: []pricingtypes.Filter{
		{Type: pricingtypes.FilterTypeTermMatch, Field: sdk.String("instanceType"), Value: sdk.String("g5.xlarge")},
		{Type: pricingtypes.FilterTypeTermMatch, Field: sdk.String("regionCode"), Value: sdk.String("us-east-1")}}})
	ok(t, err)
	var product struct {
		Product struct{ Attributes struct{ InstanceType string } }
		Terms   struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct{ PricePerUnit map[string]string }
			}
		}
	}
	if len(out.PriceList) != 1 {
		t.Fatalf("%d products", len(out.PriceList))
	}
	ok(t, json.Unmarshal([]byte(out.PriceList[0]), &product))
	for _, term := range product.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			if d.PricePerUnit["USD"] != "1.0060000000" || product.Product.Attributes.InstanceType != "g5.xlarge" {
				t.Errorf("product %+v", product)
			}
		}
	}
	spots, err := w.ec2.DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{InstanceTypes: []types.InstanceType{"g5.xlarge"},
		ProductDescriptions: []string{"Linux/UNIX"}, StartTime: sdk.Time(w.clock.Now()), MaxResults: sdk.Int32(2000)})
	ok(t, err)
	if len(spots.SpotPriceHistory) != 3 || spots.SpotPriceHistory[0].Timestamp == nil || *spots.SpotPriceHistory[0].SpotPrice >= "0.6" {
		t.Errorf("spot prices %+v", spots.SpotPriceHistory)
	}
}

func TestClusterAndCaller(t *testing.T) {
	w := newFixture(t, nil)
	show := func() *eks.DescribeClusterOutput {
		t.Helper()
		out, err := w.eks.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: sdk.String("sandbox")})
		ok(t, err)
		return out
	}
	if k := show().Cluster; k.Status != "CREATING" || k.Endpoint != nil || *k.Version != "1.33" || *k.KubernetesNetworkConfig.ServiceIpv4Cidr != "172.20.0.0/16" {
		t.Errorf("before its endpoint is known: %+v", k)
	}
	ok(t, w.cloud.SetCluster(sandboxaws.Cluster{Name: "sandbox", Version: "1.34", Endpoint: "https://127.0.0.1:6443", CA: []byte("pem"), ServiceCIDR: "10.1.0.0/16", AutoMode: true}))
	k := show().Cluster
	if k.Status != "ACTIVE" || *k.Endpoint != "https://127.0.0.1:6443" || *k.CertificateAuthority.Data != "cGVt" || !*k.ComputeConfig.Enabled || *k.Version != "1.34" ||
		*k.Arn != "arn:aws:eks:us-east-1:000000000000:cluster/sandbox" || len(k.ResourcesVpcConfig.SubnetIds) != 3 {
		t.Errorf("the cluster: %+v", k)
	}
	if err := w.cloud.SetCluster(sandboxaws.Cluster{Name: "other", Version: "1.34", ServiceCIDR: "10.1.0.0/16"}); err == nil {
		t.Error("the cluster's name could be changed")
	}
	me, err := w.sts.GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	ok(t, err)
	if *me.Account != "000000000000" || *me.Arn != "arn:aws:sts::000000000000:assumed-role/sandbox/emulated" {
		t.Errorf("caller %+v", me)
	}
	arc := arczonalshift.NewFromConfig(w.cfg)
	ok(t, w.cloud.ShiftAway("us-east-1b", time.Hour))
	res, err := arc.GetManagedResource(t.Context(), &arczonalshift.GetManagedResourceInput{ResourceIdentifier: k.Arn})
	ok(t, err)
	if len(res.ZonalShifts) != 1 || *res.ZonalShifts[0].AwayFrom != "use1-az2" || !res.ZonalShifts[0].ExpiryTime.After(w.clock.Now()) {
		t.Errorf("zonal shifts %+v", res.ZonalShifts)
	}
	w.clock.advance(time.Hour)
	res, err = arc.GetManagedResource(t.Context(), &arczonalshift.GetManagedResourceInput{ResourceIdentifier: k.Arn})
	ok(t, err)
	if len(res.ZonalShifts) != 0 {
		t.Errorf("an hour later: %+v", res.ZonalShifts)
	}
	if w.cloud.ShiftAway("mars", time.Hour) == nil {
		t.Error("a zone that does not exist was accepted")
	}
}

func TestInstanceProfiles(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) { c.Roles = []string{"node"}; c.Profiles = map[string]string{"made": "node"} })
	ctx, s := t.Context(), sdk.String
	name, path := s("sandbox_1"), s("/karpenter/us-east-1/sandbox/uid/")
	made, err := w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: name, Path: path})
	ok(t, err)
	if *made.InstanceProfile.Arn != "arn:aws:iam::000000000000:instance-profile/karpenter/us-east-1/sandbox/uid/sandbox_1" {
		t.Error(*made.InstanceProfile.Arn)
	}
	_, err = w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "EntityAlreadyExists")
	_, err = w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: s("ghost")})
	wantCode(t, err, "NoSuchEntity")
	_, err = w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: s("node")})
	ok(t, err)
	_, err = w.iam.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: s("node")})
	wantCode(t, err, "LimitExceeded")
	got, err := w.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
	ok(t, err)
	if len(got.InstanceProfile.Roles) != 1 || *got.InstanceProfile.Roles[0].RoleName != "node" || *got.InstanceProfile.Path != *path {
		t.Errorf("%+v", got.InstanceProfile)
	}
	_, err = w.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "DeleteConflict")

	for _, n := range []string{"sandbox_2", "sandbox_3"} {
		_, err := w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: s(n), Path: path})
		ok(t, err)
	}
	var names []string
	pages := iam.NewListInstanceProfilesPaginator(w.iam, &iam.ListInstanceProfilesInput{PathPrefix: s("/karpenter/us-east-1/"), MaxItems: sdk.Int32(2)})
	turns := 0
	for ; pages.HasMorePages(); turns++ {
		page, err := pages.NextPage(ctx)
		ok(t, err)
		for _, p := range page.InstanceProfiles {
			names = append(names, *p.InstanceProfileName)
		}
	}
	if turns != 2 || !slices.Equal(names, []string{"sandbox_1", "sandbox_2", "sandbox_3"}) {
		t.Errorf("%d pages with %q: the path prefix must hold", turns, names)
	}
	_, err = w.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: s("node")})
	ok(t, err)
	_, err = w.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	ok(t, err)
	_, err = w.iam.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "NoSuchEntity")
}
