package aws_test

import (
	"fmt"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

const (
	gpuOnDemand = "Running On-Demand G and VT instances"
	gpuSpot     = "All G and VT Spot Instance Requests"
)

// quotas lists EC2's by name, in pages of seven.
func (w *fixture) quotas(t *testing.T) map[string]types.ServiceQuota {
	t.Helper()
	out := map[string]types.ServiceQuota{}
	pages := servicequotas.NewListServiceQuotasPaginator(servicequotas.NewFromConfig(w.cfg), &servicequotas.ListServiceQuotasInput{ServiceCode: sdk.String("ec2"), MaxResults: sdk.Int32(7)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		ok(t, err)
		for _, q := range page.Quotas {
			out[*q.QuotaName] = q
		}
	}
	return out
}

func TestQuotasHaveTheirRealNamesAndCodes(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gpuOnDemand: 96} })
	got := w.quotas(t)
	for name, code := range map[string]string{
		gpuOnDemand: "L-DB2E81BA", "Running On-Demand P instances": "L-417A185B",
		"Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": "L-1216C47A",
		gpuSpot: "L-3819A6DF", "All P4, P3 and P2 Spot Instance Requests": "L-7212CCBC", "All P5 Spot Instance Requests": "L-C4BD4855",
		"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests": "L-34B43A08",
	} {
		q := got[name]
		if q.QuotaCode == nil || *q.QuotaCode != code || *q.QuotaArn != "arn:aws:servicequotas:us-east-1:000000000000:ec2/"+code || q.UsageMetric == nil {
			t.Errorf("%s is %+v", name, q)
		}
	}
	if len(got) != 21 || *got[gpuOnDemand].Value != 96 || *got[gpuSpot].Value < 10000 || *got["EC2-VPC Elastic IPs"].Value != 5 {
		t.Errorf("%d quotas", len(got))
	}
	api := servicequotas.NewFromConfig(w.cfg)
	one, err := api.GetServiceQuota(t.Context(), &servicequotas.GetServiceQuotaInput{ServiceCode: sdk.String("ec2"), QuotaCode: sdk.String("L-DB2E81BA")})
	ok(t, err)
	if *one.Quota.QuotaName != gpuOnDemand || *one.Quota.Value != 96 || one.Quota.UsageMetric.MetricDimensions["Class"] != "G/OnDemand" {
		t.Errorf("quota %+v", one.Quota)
	}
	list := func(in servicequotas.ListServiceQuotasInput) error {
		return drop(api.ListServiceQuotas(t.Context(), &in))
	}
	wantCode(t, list(servicequotas.ListServiceQuotasInput{ServiceCode: sdk.String("s3")}), "NoSuchResourceException")
	wantCode(t, list(servicequotas.ListServiceQuotasInput{ServiceCode: sdk.String("ec2"), NextToken: sdk.String("x")}), "InvalidPaginationTokenException")
	wantCode(t, list(servicequotas.ListServiceQuotasInput{ServiceCode: sdk.String("ec2"), MaxResults: sdk.Int32(101)}), "IllegalArgumentException")
	wantCode(t, drop(api.GetServiceQuota(t.Context(), &servicequotas.GetServiceQuotaInput{ServiceCode: sdk.String("ec2"), QuotaCode: sdk.String("L-0")})), "NoSuchResourceException")
	_, err = w.cloud.Inject(sandboxaws.Fault{Service: "servicequotas", Throttle: true, Times: 1})
	ok(t, err)
	wantCode(t, list(servicequotas.ListServiceQuotasInput{ServiceCode: sdk.String("ec2")}), "TooManyRequestsException")
	if _, err := sandboxaws.New(sandboxaws.Config{Quotas: map[string]float64{"GPUs": 1}, Region: "us-east-1", Account: "000000000000", Releases: []string{"v20250505"}}); err == nil {
		t.Error("a quota that does not exist was accepted")
	}
}

func TestALaunchStaysWithinItsQuota(t *testing.T) {
	for name, tt := range map[string]struct {
		quotas   map[string]float64
		kind     string
		capacity string
		n        int32
		want     []string // sets and errors of the fleet
	}{
		"all within": {map[string]float64{gpuOnDemand: 8}, "g5.xlarge", "on-demand", 2, []string{"2 g5.xlarge a on-demand"}},
		"a part": {map[string]float64{gpuOnDemand: 8}, "g5.xlarge", "on-demand", 3,
			[]string{"2 g5.xlarge a on-demand", "VcpuLimitExceeded g5.xlarge a"}},
		"spot has a quota and a code of its own": {map[string]float64{gpuSpot: 4}, "g5.xlarge", "spot", 2,
			[]string{"1 g5.xlarge a spot", "MaxSpotInstanceCountExceeded g5.xlarge a"}},
		"the other purchase option's quota does not bind": {map[string]float64{gpuSpot: 0}, "g5.xlarge", "on-demand", 1, []string{"1 g5.xlarge a on-demand"}},
		"none at all": {map[string]float64{"Running On-Demand P instances": 0}, "p5.48xlarge", "on-demand", 1, []string{"VcpuLimitExceeded p5.48xlarge a"}},
		"a p5 does not count as the older ones": {map[string]float64{"All P4, P3 and P2 Spot Instance Requests": 0}, "p5.48xlarge", "spot", 1,
			[]string{"1 p5.48xlarge a spot"}},
		"a capacity block is paid for and counts against nothing": {map[string]float64{"Running On-Demand P instances": 0}, "p5.48xlarge", "capacity-block", 1,
			[]string{"1 p5.48xlarge a on-demand"}},
		"a p5 counts as one": {map[string]float64{"All P5 Spot Instance Requests": 0}, "p5.48xlarge", "spot", 1,
			[]string{"MaxSpotInstanceCountExceeded p5.48xlarge a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, zones := ready(t, func(c *sandboxaws.Config) { c.Quotas = tt.quotas })
			out, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", tt.capacity, tt.n, pool{tt.kind, zones["us-east-1a"], 0}))
			ok(t, err)
			if diff := cmp.Diff(tt.want, w.sets(t, out)); diff != "" {
				t.Errorf("fleet (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEndGivesTheQuotaBackAndAQuotaCanGrow(t *testing.T) {
	w, zones := ready(t, func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gpuOnDemand: 4} })
	launch := func(want string) {
		t.Helper()
		out, err := w.ec2.CreateFleet(t.Context(), fleet("gpu", "on-demand", 1, pool{"g5.xlarge", zones["us-east-1a"], 0}))
		ok(t, err)
		got := "started"
		if len(out.Errors) > 0 {
			got = *out.Errors[0].ErrorCode
		}
		if got != want {
			t.Errorf("a launch: %s, want %s", got, want)
		}
	}
	launch("started")
	launch("VcpuLimitExceeded")
	ok(t, w.cloud.Terminate(w.cloud.Instances()[0].ID))
	launch("started")
	launch("VcpuLimitExceeded")
	ok(t, w.cloud.SetQuota(gpuOnDemand, 8))
	if q := w.quotas(t)[gpuOnDemand]; *q.Value != 8 {
		t.Errorf("the quota is shown as %g", *q.Value)
	}
	launch("started")
	launch("VcpuLimitExceeded")
	w.clock.advance(time.Minute)
	for name, value := range map[string]float64{"GPUs": 1, gpuSpot: -1} {
		if err := w.cloud.SetQuota(name, value); err == nil {
			t.Error(fmt.Sprint(name, value, " was accepted"))
		}
	}
}
