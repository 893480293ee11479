package aws_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// raw is a request as it is on the wire, without a client that would refuse to
// write it.
type raw struct {
	service, region, target, method, path, body string
}

func (r raw) send(t *testing.T, h http.Handler) (int, string) {
	t.Helper()
	if r.method == "" {
		r.method = http.MethodPost
	}
	if r.region == "" {
		r.region = "us-east-1"
	}
	req := httptest.NewRequest(r.method, "http://x/"+r.path, strings.NewReader(r.body))
	if r.service != "" {
		req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20261120/"+r.region+"/"+r.service+"/aws4_request, SignedHeaders=host, Signature=00")
	}
	if r.target != "" {
		req.Header.Set("X-Amz-Target", r.target)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	body, err := io.ReadAll(w.Result().Body)
	ok(t, err)
	return w.Code, string(body)
}

func TestWhatIsUnknownIsRefusedByName(t *testing.T) {
	types, err := catalog.Load()
	ok(t, err)
	const v2, v3 = "&Version=2016-11-15", "&Version=2010-05-08"
	for _, tt := range []struct {
		name   string
		req    raw
		status int
		want   []string // all must be in the answer
	}{
		{"no signature", raw{body: "Action=DescribeSubnets" + v2}, 403, []string{"MissingAuthenticationToken"}},
		{"an unknown service", raw{service: "s3"}, 400, []string{"UnknownService", "s3"}},
		{"a scope of another region", raw{service: "ec2", region: "eu-west-1", body: "Action=DescribeSubnets" + v2}, 403, []string{"SignatureDoesNotMatch", "eu-west-1", "us-east-1"}},
		{"an unknown EC2 action", raw{service: "ec2", body: "Action=MakeCoffee" + v2}, 400, []string{"<Response><Errors><Error><Code>InvalidAction</Code>", "MakeCoffee"}},
		{"another API version", raw{service: "ec2", body: "Action=DescribeSubnets&Version=2006-01-01"}, 400, []string{"NoSuchVersion", "2006-01-01"}},
		{"an unknown parameter", raw{service: "ec2", body: "Action=DescribeSubnets&SubnetIds.1=x" + v2}, 400, []string{"UnknownParameter", "SubnetIds.1"}},
		{"an unknown part of a list", raw{service: "ec2", body: "Action=DescribeSubnets&Filter.1.Nmae=x" + v2}, 400, []string{"UnknownParameter", "Filter.1.Nmae"}},
		{"an unknown fleet setting", raw{service: "ec2", body: "Action=CreateFleet&Type=instant&SpotOptions.MaxTotalPrice=1" + v2}, 400, []string{"UnknownParameter", "SpotOptions.MaxTotalPrice"}},
		{"an unknown template setting", raw{service: "ec2", body: "Action=CreateLaunchTemplate&LaunchTemplateData.KernelId=1" + v2}, 400, []string{"UnknownParameter", "LaunchTemplateData.KernelId"}},
		{"an unknown disk setting", raw{service: "ec2", body: "Action=CreateLaunchTemplate&LaunchTemplateData.BlockDeviceMapping.1.Ebs.Colour=1" + v2}, 400, []string{"UnknownParameter", "Ebs.Colour"}},
		{"a tag on something unknown", raw{service: "ec2", body: "Action=CreateLaunchTemplate&LaunchTemplateName=abc&LaunchTemplateData.ImageId=ami-1&TagSpecification.1.ResourceType=planet" + v2}, 400, []string{"InvalidParameterValue", "planet"}},
		{"an unknown filter", raw{service: "ec2", body: "Action=DescribeSubnets&Filter.1.Name=mood&Filter.1.Value.1=x" + v2}, 400, []string{"InvalidParameterValue", "mood"}},
		{"an unknown filter where nothing is listed", raw{service: "ec2", body: "Action=DescribePlacementGroups&Filter.1.Name=mood&Filter.1.Value.1=x" + v2}, 400, []string{"InvalidParameterValue", "mood"}},
		{"a tag filter where there are no tags", raw{service: "ec2", body: "Action=DescribeInstanceTypes&Filter.1.Name=tag:a&Filter.1.Value.1=x" + v2}, 400, []string{"InvalidParameterValue", "tag:a"}},
		{"a filter without values", raw{service: "ec2", body: "Action=DescribeSubnets&Filter.1.Name=vpc-id" + v2}, 400, []string{"InvalidParameterValue", "vpc-id"}},
		{"a token of another operation", raw{service: "ec2", body: "Action=DescribeSubnets&NextToken=abc" + v2}, 400, []string{"InvalidNextToken", "abc"}},
		{"too small a page", raw{service: "ec2", body: "Action=DescribeSubnets&MaxResults=1" + v2}, 400, []string{"InvalidParameterValue", "maxResults"}},
		{"a dry run of maybe", raw{service: "ec2", body: "Action=DescribeSubnets&DryRun=maybe" + v2}, 400, []string{"InvalidParameterValue", "DryRun"}},
		{"an unknown fleet type", raw{service: "ec2", body: "Action=CreateFleet&Type=maintain&TargetCapacitySpecification.TotalTargetCapacity=1&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1" + v2}, 400, []string{"UnsupportedOperation", "maintain"}},
		{"an unknown strategy", raw{service: "ec2", body: "Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1&TargetCapacitySpecification.DefaultTargetCapacityType=spot&SpotOptions.AllocationStrategy=luck" + v2}, 400, []string{"InvalidParameterValue", "luck"}},
		{"an unknown IAM action", raw{service: "iam", body: "Action=ListUsers" + v3}, 400, []string{"<ErrorResponse><Error><Type>Sender</Type><Code>InvalidAction</Code>", "ListUsers"}},
		{"an unknown IAM parameter", raw{service: "iam", body: "Action=GetInstanceProfile&Colour=red" + v3}, 400, []string{"UnknownParameter", "Colour"}},
		{"a dry run, which IAM does not have", raw{service: "iam", body: "Action=GetInstanceProfile&DryRun=true" + v3}, 400, []string{"UnknownParameter", "DryRun"}},
		{"an unknown target", raw{service: "sqs", target: "AmazonSNS.Publish"}, 400, []string{"UnknownOperationException", "AmazonSNS.Publish"}},
		{"an unknown JSON operation", raw{service: "sqs", target: "AmazonSQS.PurgeQueue", body: "{}"}, 400, []string{"UnknownOperationException", "PurgeQueue"}},
		{"an unknown JSON field", raw{service: "ssm", target: "AmazonSSM.GetParameter", body: `{"Name":"a","Selector":"b"}`}, 400, []string{"ValidationException", "Selector"}},
		{"two JSON values", raw{service: "ssm", target: "AmazonSSM.GetParameter", body: `{"Name":"a"}{}`}, 400, []string{"ValidationException"}},
		{"a JSON number out of range", raw{service: "sqs", target: "AmazonSQS.ReceiveMessage", body: `{"QueueUrl":"x/000000000000/sandbox","WaitTimeSeconds":21}`}, 400, []string{"WaitTimeSeconds", "21"}},
		{"an unknown path", raw{service: "eks", method: "GET", path: "clusters/sandbox/insights"}, 404, []string{"UnknownOperationException", "/clusters/sandbox/insights"}},
		{"an unknown method", raw{service: "eks", method: "DELETE", path: "clusters/sandbox"}, 404, []string{"UnknownOperationException", "DELETE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := sandboxaws.DefaultConfig()
			cfg.Catalog = types
			cloud, err := sandboxaws.New(cfg)
			ok(t, err)
			status, body := tt.req.send(t, cloud)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			for _, want := range tt.want {
				if !strings.Contains(body, want) {
					t.Errorf("the answer does not name %q: %s", want, body)
				}
			}
			if calls := cloud.Calls(); len(calls) != 1 || calls[0].Code == "" || !calls[0].Done {
				t.Errorf("the journal has %+v", calls)
			}
		})
	}
}

func TestPagesAddUp(t *testing.T) {
	w, zones := ready(t, nil)
	out, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 12, pool{"g4dn.xlarge", zones["us-east-1a"], 0}))
	ok(t, err)
	ctx := t.Context()
	var ids []string
	for p := ec2.NewDescribeInstancesPaginator(w.ec2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(5)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		if len(page.Reservations) > 5 {
			t.Errorf("a page of %d", len(page.Reservations))
		}
		for _, r := range page.Reservations {
			ids = append(ids, *r.Instances[0].InstanceId)
		}
	}
	if diff := cmp.Diff(out.Instances[0].InstanceIds, ids); diff != "" {
		t.Error("instances over pages:", diff)
	}
	page, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(5)})
	ok(t, err)
	wantCode(t, drop(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{NextToken: page.NextToken})), "InvalidNextToken")
	offers := map[string]bool{}
	n := 0
	for p := ec2.NewDescribeInstanceTypeOfferingsPaginator(w.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone", MaxResults: sdk.Int32(1000)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		for _, o := range page.InstanceTypeOfferings {
			n++
			offers[string(o.InstanceType)+*o.Location] = true
		}
	}
	kinds := map[string]bool{}
	m := 0
	for p := ec2.NewDescribeInstanceTypesPaginator(w.ec2, &ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(100)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		for _, k := range page.InstanceTypes {
			m++
			kinds[string(k.InstanceType)] = true
		}
	}
	if m < 100 || len(kinds) != m || n != 3*m || len(offers) != n {
		t.Errorf("%d types (%d different) and %d offerings (%d different): want three of each type", m, len(kinds), n, len(offers))
	}
	priced := 0
	for p := pricing.NewGetProductsPaginator(w.pricing, &pricing.GetProductsInput{ServiceCode: sdk.String("AmazonEC2"), MaxResults: sdk.Int32(100)}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		ok(t, err)
		priced += len(page.PriceList)
	}
	types, err := catalog.Load()
	ok(t, err)
	listed := slices.DeleteFunc(types.Types(), func(it catalog.InstanceType) bool { return it.OnDemandUSD == 0 })
	if priced != len(listed) {
		t.Errorf("%d types have a price, want %d", priced, len(listed))
	}
}

func TestFiltersAreHonoured(t *testing.T) {
	w, zones := ready(t, nil)
	_, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "spot", 1, pool{"g4dn.xlarge", zones["us-east-1a"], 0}))
	ok(t, err)
	_, err = w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1b"], 0}))
	ok(t, err)
	first := w.cloud.Instances()[0]
	_, err = w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{first.ID}, Tags: tags("Name", "first node", "karpenter.sh/nodepool", "other")})
	ok(t, err)
	for filter, want := range map[[2]string]string{
		{"instance-type", "g4dn.*"}:                    "g4dn.xlarge",
		{"instance-type", "g?.xlarge"}:                 "g5.xlarge",
		{"instance-type", "g5.xlarge,g4dn.xlarge"}:     "g4dn.xlarge g5.xlarge",
		{"instance-lifecycle", "spot"}:                 "g4dn.xlarge",
		{"availability-zone", "us-east-1b"}:            "g5.xlarge",
		{"availability-zone-id", "use1-az1"}:           "g4dn.xlarge",
		{"tag:Name", "first node"}:                     "g4dn.xlarge",
		{"tag-key", "Name"}:                            "g4dn.xlarge",
		{"tag-value", "gpu"}:                           "g5.xlarge",
		{"tag:karpenter.sh/nodepool", "other,gpu"}:     "g4dn.xlarge g5.xlarge",
		{"instance-state-name", "terminated"}:          "",
		{"private-dns-name", first.DNSName}:            "g4dn.xlarge",
		{"subnet-id", zones["us-east-1b"]}:             "g5.xlarge",
		{"instance.group-id", w.group(t)}:              "g4dn.xlarge g5.xlarge",
		{"image-id", w.image(t, "x86_64", "standard")}: "",
	} {
		out, err := w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: filters(filter[:]...)})
		ok(t, err)
		var got []string
		for _, r := range out.Reservations {
			got = append(got, string(r.Instances[0].InstanceType))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", filter, got, want)
		}
	}
}

func TestImagesOfEveryFamily(t *testing.T) {
	w := newFixture(t, nil)
	const root = "/aws/service/eks/optimized-ami/"
	observed := map[string]string{}
	for path, arch := range map[string]string{
		root + "1.33/amazon-linux-2023/x86_64/standard/recommended/image_id":                                       "x86_64",
		root + "1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id":                                         "x86_64",
		root + "1.33/amazon-linux-2023/x86_64/neuron/recommended/image_id":                                         "x86_64",
		root + "1.33/amazon-linux-2023/arm64/standard/recommended/image_id":                                        "arm64",
		root + "1.33/amazon-linux-2023/arm64/nvidia/recommended/image_id":                                          "arm64",
		root + "1.33/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.33-v20250904/image_id": "x86_64",
		root + "1.32/amazon-linux-2/recommended/image_id":                                                          "x86_64",
		root + "1.32/amazon-linux-2-arm64/recommended/image_id":                                                    "arm64",
		root + "1.32/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20250505/image_id":                               "x86_64",
		"/aws/service/bottlerocket/aws-k8s-1.33/x86_64/latest/image_id":                                            "x86_64",
		"/aws/service/bottlerocket/aws-k8s-1.33-nvidia/x86_64/1.46.0/image_id":                                     "x86_64",
		"/aws/service/bottlerocket/aws-k8s-1.33-nvidia/arm64/latest/image_id":                                      "arm64",
	} {
		id := w.parameter(t, path)
		if other, twice := observed[id]; twice {
			t.Errorf("%s and %s give the same image", path, other)
		}
		observed[id] = path
		out, err := w.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: filters("image-id", id, "state", "available"), IncludeDeprecated: sdk.Bool(true), MaxResults: sdk.Int32(1000)})
		ok(t, err)
		if len(out.Images) != 1 || string(out.Images[0].Architecture) != arch || out.Images[0].CreationDate == nil {
			t.Errorf("%s: %+v", path, out.Images)
		}
	}
	out, err := w.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"self", "amazon"}, Filters: filters("name", "amazon-eks-node-al2023-x86_64-nvidia-1.33-v2026*")})
	ok(t, err)
	var names []string
	for _, i := range out.Images {
		names = append(names, *i.Name)
	}
	slices.Sort(names)
	want := []string{"amazon-eks-node-al2023-x86_64-nvidia-1.33-v20260115", "amazon-eks-node-al2023-x86_64-nvidia-1.33-v20260611", "amazon-eks-node-al2023-x86_64-nvidia-1.33-v20261102"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, owner := range []string{"self", "123456789012"} {
		out, err := w.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{owner}})
		ok(t, err)
		if len(out.Images) != 0 {
			t.Errorf("%s owns %d images", owner, len(out.Images))
		}
	}
}

func TestAClusterOfAVersionToComeHasImages(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) { c.Cluster.Version = "1.37" })
	if id := w.parameter(t, "/aws/service/bottlerocket/aws-k8s-1.37/arm64/latest/image_id"); id == "" {
		t.Error("no image")
	}
}

func TestImagesOfOnesOwn(t *testing.T) {
	w := newFixture(t, nil)
	from := w.image(t, "x86_64", "nvidia")
	id, err := w.cloud.CopyImage(from, "golden-gpu", map[string]string{"team": "ml"})
	ok(t, err)
	for _, in := range []*ec2.DescribeImagesInput{
		{Owners: []string{"self"}}, {Filters: filters("tag:team", "ml")}, {Filters: filters("name", "golden-*")}, {ImageIds: []string{id}},
		{Filters: filters("is-public", "false")},
	} {
		out, err := w.ec2.DescribeImages(t.Context(), in)
		ok(t, err)
		if len(out.Images) != 1 || *out.Images[0].ImageId != id || out.Images[0].Architecture != "x86_64" || *out.Images[0].OwnerId != "000000000000" {
			t.Errorf("%+v", out.Images)
		}
	}
	for _, bad := range [][2]string{{from, "golden-gpu"}, {"ami-1", "x"}, {from, ""}} {
		if _, err := w.cloud.CopyImage(bad[0], bad[1], nil); err == nil {
			t.Errorf("copying %q was accepted", bad)
		}
	}
}

func TestDryRuns(t *testing.T) {
	w, zones := ready(t, nil)
	ctx, yes, s := t.Context(), sdk.Bool(true), sdk.String
	dryFleet := fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0})
	dryFleet.DryRun = yes
	dryRun := &ec2.RunInstancesInput{DryRun: yes, MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), InstanceType: "g5.xlarge",
		LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: s("gpu"), Version: s("$Latest")},
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: sdk.Int32(0), SubnetId: s(zones["us-east-1a"])}}}
	calls := map[string]func() error{
		"DescribeInstanceTypes": func() error {
			return drop(w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: yes}))
		},
		"CreateFleet":  func() error { return drop(w.ec2.CreateFleet(ctx, dryFleet)) },
		"RunInstances": func() error { return drop(w.ec2.RunInstances(ctx, dryRun)) },
		"DeleteLaunchTemplate": func() error {
			return drop(w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{DryRun: yes, LaunchTemplateName: s("gpu")}))
		},
	}
	for name, call := range calls {
		err := call()
		wantCode(t, err, "DryRunOperation")
		var status interface{ HTTPStatusCode() int }
		if !errors.As(err, &status) || status.HTTPStatusCode() != http.StatusPreconditionFailed {
			t.Errorf("%s: a dry run must answer 412: %v", name, err)
		}
		remove, err := w.cloud.Inject(sandboxaws.Fault{Service: "ec2", Operation: name, Code: "UnauthorizedOperation", Status: 403, Message: "You are not authorized."})
		ok(t, err)
		wantCode(t, call(), "UnauthorizedOperation")
		remove()
		wantCode(t, call(), "DryRunOperation")
	}
	if n := len(w.cloud.Instances()); n != 0 {
		t.Errorf("dry runs launched %d instances", n)
	}
	_, err := w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: s("ghost"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: s(w.image(t, "x86_64", "nvidia")), IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: s("ghost")}}})
	ok(t, err)
	dryRun.LaunchTemplate.LaunchTemplateName = s("ghost")
	_, err = w.ec2.RunInstances(ctx, dryRun)
	wantCode(t, err, "InvalidParameterValue")
	if err == nil || !strings.Contains(err.Error(), "Invalid IAM Instance Profile name") {
		t.Errorf("a missing instance profile is worded %v", err)
	}
}

func TestLaunchTemplatesAreFoundByTag(t *testing.T) {
	w, _ := ready(t, nil)
	out, err := w.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{Filters: filters("tag:karpenter.k8s.aws/cluster", "sandbox"), MaxResults: sdk.Int32(200)})
	ok(t, err)
	if len(out.LaunchTemplates) != 1 || *out.LaunchTemplates[0].LaunchTemplateName != "gpu" || out.LaunchTemplates[0].CreateTime == nil {
		t.Errorf("%+v", out.LaunchTemplates)
	}
	_, err = w.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("gpu"), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: sdk.String("ami-1")}})
	wantCode(t, err, "InvalidLaunchTemplateName.AlreadyExistsException")
	again := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("twice"), ClientToken: sdk.String("once"), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: sdk.String("ami-1")}}
	first, err := w.ec2.CreateLaunchTemplate(t.Context(), again)
	ok(t, err)
	second, err := w.ec2.CreateLaunchTemplate(t.Context(), again)
	ok(t, err)
	if *first.LaunchTemplate.LaunchTemplateId != *second.LaunchTemplate.LaunchTemplateId {
		t.Error("a repeated request made a second template")
	}
	_, err = w.ec2.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: out.LaunchTemplates[0].LaunchTemplateId})
	ok(t, err)
	_, err = w.ec2.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"gpu"}})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
}

func TestUserDataStaysOutOfTheJournal(t *testing.T) {
	w, _ := ready(t, nil)
	for _, c := range w.cloud.Calls() {
		if c.Operation == "CreateLaunchTemplate" && (strings.Contains(c.Params, "aGVsbG8") || !strings.Contains(c.Params, "LaunchTemplateData.UserData=(16 bytes)")) {
			t.Errorf("the journal has %s", c.Params)
		}
	}
}

// FuzzRequest sends anything to every service: it must answer, with a status
// that AWS uses, and never crash.
func FuzzRequest(f *testing.F) {
	f.Add("ec2", "", "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag:a&Filter.1.Value.1=*?\\")
	f.Add("ec2", "", "Action=CreateFleet&Version=2016-11-15&Type=instant&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=gpu&"+url.Values{}.Encode())
	f.Add("iam", "", "Action=ListInstanceProfiles&Version=2010-05-08&Marker=eA")
	f.Add("sqs", "AmazonSQS.DeleteMessage", `{"QueueUrl":"x/000000000000/sandbox","ReceiptHandle":"message-1"}`)
	f.Add("pricing", "AWSPriceListService.GetProducts", `{"ServiceCode":"AmazonEC2","Filters":[{"Type":"TERM_MATCH","Field":"instanceType","Value":"t3.micro"}]}`)
	cfg := sandboxaws.DefaultConfig()
	cfg.Delays = sandboxaws.Delays{}
	cloud, err := sandboxaws.New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, service, target, body string) {
		if strings.Contains(body, "WaitTimeSeconds") || strings.ContainsAny(target, "\r\n\x00") {
			t.Skip("a long poll takes its time, and no client sends such a header")
		}
		req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://x/", strings.NewReader(body))
		req.Header.Set("Authorization", fmt.Sprintf("Credential=A/20261120/us-east-1/%s/aws4_request", service))
		req.Header.Set("X-Amz-Target", target)
		w := httptest.NewRecorder()
		cloud.ServeHTTP(w, req)
		if w.Code == http.StatusInternalServerError || w.Body.Len() == 0 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	})
}
