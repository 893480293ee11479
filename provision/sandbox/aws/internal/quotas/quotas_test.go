package quotas

import (
	"fmt"
	"slices"
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api/apitest"
)

const (
	gpus, gpusCode = "Running On-Demand G and VT instances", "L-DB2E81BA"
	addresses      = "EC2-VPC Elastic IPs"
)

func newService(given map[string]float64) *Service {
	return New(&api.Account{ID: "111122223333", Region: "eu-west-1"}, given)
}

// displayed is a quota as Service Quotas shows it.
type displayed struct {
	QuotaName, QuotaCode, QuotaArn string
	Value                          float64
	UsageMetric                    *struct{ MetricDimensions map[string]string }
}

// do runs an operation and decodes what it returns; code is that of the error, "" without.
func do(t *testing.T, svc *Service, op, body string) (list []displayed, next, code string) {
	t.Helper()
	var response struct {
		Quotas    []displayed
		Quota     *displayed
		NextToken string
	}
	if code := apitest.Do(t, svc.Table(), &api.Call{Op: op, Body: []byte(body)}, &response); code != "" {
		return nil, "", code
	}
	if response.Quota != nil {
		response.Quotas = []displayed{*response.Quota}
	}
	return response.Quotas, response.NextToken, ""
}

func TestAnInstanceCountsAgainstTheQuotaOfItsFamily(t *testing.T) {
	for instance, want := range map[string][2]string{ // of on-demand and of spot
		"g5.xlarge": {"G/OnDemand", "G/Spot"}, "g5g.metal": {"G/OnDemand", "G/Spot"}, "gr6.4xlarge": {"G/OnDemand", "G/Spot"}, "vt1.3xlarge": {"G/OnDemand", "G/Spot"},
		"p2.xlarge": {"P/OnDemand", "P/Spot"}, "p3dn.24xlarge": {"P/OnDemand", "P/Spot"}, "p4de.24xlarge": {"P/OnDemand", "P/Spot"}, "p5en.48xlarge": {"P/OnDemand", "P5/Spot"},
		"inf2.xlarge": {"Inf/OnDemand", "Inf/Spot"}, "trn1n.32xlarge": {"Trn/OnDemand", "Trn/Spot"}, "dl1.24xlarge": {"DL/OnDemand", "DL/Spot"},
		"f1.2xlarge": {"F/OnDemand", "F/Spot"}, "x2iedn.xlarge": {"X/OnDemand", "X/Spot"}, "hpc7a.96xlarge": {"HPC/OnDemand", "HPC/Spot"}, "u-6tb1.metal": {"HighMem/OnDemand", "HighMem/Spot"},
		"m5.large": {"Standard/OnDemand", "Standard/Spot"}, "a1.large": {"Standard/OnDemand", "Standard/Spot"}, "c7gn.large": {"Standard/OnDemand", "Standard/Spot"},
		"d3en.xlarge": {"Standard/OnDemand", "Standard/Spot"}, "h1.2xlarge": {"Standard/OnDemand", "Standard/Spot"}, "im4gn.large": {"Standard/OnDemand", "Standard/Spot"},
		"is4gen.large": {"Standard/OnDemand", "Standard/Spot"}, "r6id.large": {"Standard/OnDemand", "Standard/Spot"}, "t4g.nano": {"Standard/OnDemand", "Standard/Spot"}, "z1d.large": {"Standard/OnDemand", "Standard/Spot"},
		"mac1.metal": {"", ""}, "": {"", ""}, "5.large": {"", ""}, "k9.large": {"", ""}, "p": {"P/OnDemand", "P5/Spot"},
	} {
		if got := [2]string{Class(instance, "on-demand"), Class(instance, "spot")}; got != want {
			t.Errorf("%q: %q, want %q", instance, got, want)
		}
		if got := Class(instance, "capacity-block"); got != "" {
			t.Errorf("%q of a capacity block: %q", instance, got)
		}
	}
}

func TestAQuotaIsExceededAboveItsValue(t *testing.T) {
	svc := newService(map[string]float64{gpus: 96, "Running On-Demand P instances": 0})
	for name, tt := range map[string]struct {
		class string
		vcpus int
		want  bool
	}{
		"its value":                   {"G/OnDemand", 96, false},
		"one more":                    {"G/OnDemand", 97, true},
		"one of a quota of 0":         {"P/OnDemand", 1, true},
		"none of a quota of 0":        {"P/OnDemand", 0, false},
		"one that AWS's value allows": {"G/Spot", 1000, false},
		"more than AWS's value":       {"G/Spot", plenty + 1, true},
		"a class without a quota":     {"HPC/Spot", plenty + 1, false},
		"no class":                    {"", plenty + 1, false},
	} {
		if got := svc.Exceeds(tt.class, tt.vcpus); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if err := svc.Unset(gpus); err != nil {
		t.Fatal(err)
	}
	if svc.Exceeds("G/OnDemand", 97) || !svc.Exceeds("G/OnDemand", plenty+1) {
		t.Error("without a value of the account AWS's own does not count")
	}
}

func TestQuotasAreListedByCodeInPages(t *testing.T) {
	svc := newService(nil)
	for _, op := range []string{"ListServiceQuotas", "ListAWSDefaultServiceQuotas"} {
		all, next, code := do(t, svc, op, `{"ServiceCode":"ec2"}`)
		if code != "" || next != "" || len(all) != len(ec2Quotas()) {
			t.Fatalf("%s: %d quotas, token %q (%s)", op, len(all), next, code)
		}
		var got []displayed
		for token, pages := "", 0; pages == 0 || token != ""; pages++ {
			body := `{"ServiceCode":"ec2","MaxResults":4}`
			if token != "" {
				body = fmt.Sprintf(`{"ServiceCode":"ec2","MaxResults":4,"NextToken":%q}`, token)
			}
			page, next, code := do(t, svc, op, body)
			if code != "" || len(page) > 4 || pages > 9 {
				t.Fatalf("%s: page %d has %d (%s)", op, pages, len(page), code)
			}
			got, token = append(got, page...), next
		}
		codes := func(list []displayed) (out []string) {
			for _, q := range list {
				out = append(out, q.QuotaCode)
			}
			return out
		}
		if !slices.Equal(codes(got), codes(all)) || !slices.IsSorted(codes(all)) || len(slices.Compact(codes(all))) != len(all) {
			t.Errorf("%s: %q in pages, %q at once", op, codes(got), codes(all))
		}
		for body, want := range map[string]string{
			`{"ServiceCode":"s3"}`: "NoSuchResourceException", `{"ServiceCode":"EC2"}`: "NoSuchResourceException", `{}`: "NoSuchResourceException",
			`{"ServiceCode":"ec2","MaxResults":0}`: "IllegalArgumentException", `{"ServiceCode":"ec2","MaxResults":101}`: "IllegalArgumentException", `{"ServiceCode":"ec2","MaxResults":100}`: "",
			`{"ServiceCode":"ec2","NextToken":"x"}`: "InvalidPaginationTokenException", `{"ServiceCode":"ec2","Colour":"red"}`: "ValidationException",
			`{"ServiceCode":"ec2","QuotaAppliedAtLevel":"RESOURCE"}`: "ValidationException", // not emulated
		} {
			if _, _, code := do(t, svc, op, body); code != want {
				t.Errorf("%s %s: %q, want %q", op, body, code, want)
			}
		}
	}
	if _, _, code := do(t, svc, "ListAWSDefaultServiceQuotas", `{"ServiceCode":"ec2","QuotaCode":"`+gpusCode+`"}`); code != "ValidationException" {
		t.Errorf("AWS's defaults have no parameter QuotaCode: %q", code)
	}
}

func TestTheAccountsValueAndAWSsAreTwo(t *testing.T) {
	svc := newService(map[string]float64{gpus: 96})
	read := func() (own, standard []float64, one string) {
		t.Helper()
		list, _, _ := do(t, svc, "ListServiceQuotas", `{"ServiceCode":"ec2","QuotaCode":"`+gpusCode+`"}`)
		defaults, _, _ := do(t, svc, "ListAWSDefaultServiceQuotas", `{"ServiceCode":"ec2"}`)
		for _, q := range list {
			own = append(own, q.Value)
			if q.QuotaName != gpus || q.QuotaArn != "arn:aws:servicequotas:eu-west-1:111122223333:ec2/"+gpusCode || q.UsageMetric.MetricDimensions["Class"] != "G/OnDemand" {
				t.Errorf("quota %+v", q)
			}
		}
		for _, q := range defaults {
			if q.QuotaCode == gpusCode {
				standard = append(standard, q.Value)
			}
			if q.QuotaName == addresses && q.UsageMetric != nil {
				t.Errorf("%s counts the use of instances", q.QuotaName)
			}
		}
		_, _, one = do(t, svc, "GetServiceQuota", `{"ServiceCode":"ec2","QuotaCode":"`+gpusCode+`"}`)
		return own, standard, one
	}
	for _, step := range []struct {
		name   string
		change func() error
		own    []float64
		one    string
	}{
		{"as it was given", func() error { return nil }, []float64{96}, ""},
		{"as it was set", func() error { return svc.Set(gpus, 0) }, []float64{0}, ""},
		{"taken away", func() error { return svc.Unset(gpus) }, nil, "NoSuchResourceException"},
		{"set again", func() error { return svc.Set(gpus, 8) }, []float64{8}, ""},
	} {
		before := svc.Clone()
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		own, standard, one := read()
		if !slices.Equal(own, step.own) || !slices.Equal(standard, []float64{plenty}) || one != step.one {
			t.Errorf("%s: %v of the account, %v of AWS, and one by its code: %q", step.name, own, standard, one)
		}
		if step.name == "as it was set" && before.Exceeds("G/OnDemand", 96) {
			t.Error("a copy from before has the later value")
		}
	}
	for name, refused := range map[string]error{
		"a name that there is not":      svc.Set("GPUs", 1),
		"a name in capitals":            svc.Set("EC2-VPC ELASTIC IPS", 1),
		"a code for a name":             svc.Set(gpusCode, 1),
		"a value below zero":            svc.Set(gpus, -1),
		"taking away what there is not": svc.Unset("GPUs"),
	} {
		if refused == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for body, want := range map[string]string{
		`{"ServiceCode":"ec2","QuotaCode":"l-db2e81ba"}`: "NoSuchResourceException", `{"ServiceCode":"vpc","QuotaCode":"` + gpusCode + `"}`: "NoSuchResourceException",
		`{"ServiceCode":"ec2"}`: "NoSuchResourceException", `{"ServiceCode":"ec2","QuotaCode":"` + gpusCode + `","ContextId":"x"}`: "ValidationException",
	} {
		if _, _, code := do(t, svc, "GetServiceQuota", body); code != want {
			t.Errorf("%s: %q, want %q", body, code, want)
		}
	}
}
