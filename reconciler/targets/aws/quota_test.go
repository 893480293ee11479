package aws

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const gOnDemand = "Running On-Demand G and VT instances"

// gpuPool is a declared pool of g5.xlarge, on demand, with a limit of so many GPUs.
func gpuPool(name string, gpus int64) state.Item {
	in := func(key, value string) any {
		return map[string]any{"key": key, "operator": "In", "values": []any{value}}
	}
	return state.Item{
		Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: name}, Version: "v1",
		Origin: state.Origin{File: name + ".yaml", Line: 1},
		Object: map[string]any{"spec": map[string]any{
			"limits": map[string]any{"nvidia.com/gpu": gpus},
			"template": map[string]any{"spec": map[string]any{"requirements": []any{
				in("node.kubernetes.io/instance-type", "g5.xlarge"), in("karpenter.sh/capacity-type", "on-demand"),
			}}},
		}},
	}
}

// withPools adds pools to what is declared.
func withPools(declared state.Set, pools ...state.Item) state.Set {
	return state.NewSet(append(declared.Items(), pools...)...)
}

// engineOnly are the policies of a role that runs the engine and has no other.
func (b *bench) engineOnly() []policy.Document {
	b.Helper()
	text, err := iampolicy.Engine(iampolicy.Values{Partition: "aws", Region: b.config.Region, Account: b.config.Account, Cluster: b.config.Cluster.Name, NodeRole: "nodes", InstanceProfile: "nodes", Queue: "queue"})
	if err != nil {
		b.Fatal(err)
	}
	d, err := policy.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	return []policy.Document{d}
}

// warned are the warnings of a plan, and noted its notes.
func warned(p plan.Plan) (warned, noted []string) {
	for _, n := range p.Notes {
		if n.Severity == finding.Warning {
			warned = append(warned, n.Text)
		} else {
			noted = append(noted, n.Text)
		}
	}
	return warned, noted
}

func TestTheEnginesPolicySufficesForTheQuotasOfItsPools(t *testing.T) {
	b := newBench(t, func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gOnDemand: 64} })
	declared := withPools(b.declare(nothing), gpuPool("a", 10), gpuPool("b", 8))
	policies := b.engineOnly()
	b.cloud.Restrict("EMULATED", policies, nil)
	before := len(b.cloud.Calls())
	p := b.plan(declared)
	warnings, notes := warned(p)
	if len(p.Unknown) > 0 || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "NodePools a (a.yaml:1) and b (b.yaml:1) need at least 72 vCPUs together") ||
		!slices.Equal(notes, []string{"of 64 vCPUs, 0 are used"}) {
		t.Errorf("unknown %v, warned of %q, noted %q", p.Unknown, warnings, notes)
	}
	var sent []string
	for _, call := range b.cloud.Calls()[before:] {
		sent = append(sent, call.Operation)
		if denied := call.Denied(policies, nil); len(denied) > 0 {
			t.Errorf("%s is denied: %v", call.Operation, denied)
		}
	}
	slices.Sort(sent)
	if want := []string{"DescribeCapacityReservations", "DescribeInstances", "GetCallerIdentity", "ListServiceQuotas"}; !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
	if got := b.status().Quotas; len(got) != 1 || got[0].LimitVCPUs != 64 {
		t.Errorf("the status has %+v", got)
	}
}

// What the guard of a Sync holds and what the plan warns of is counted alike.
func TestTheWarningsCountPhysicalGPUs(t *testing.T) {
	b := newBench(t, func(c *sandboxaws.Config) { c.Quotas = map[string]float64{gOnDemand: 64} })
	plugin := state.Item{Key: state.Key{Target: "kubernetes", Group: v1alpha1.GroupVersion.Group, Kind: "DevicePlugin", Name: "default"},
		Object: map[string]any{"spec": map[string]any{"configs": []any{map[string]any{"name": "ten", "nodePools": []any{"a", "b"}, "timeSlicing": map[string]any{"replicas": int64(10)}}}}}}
	if warnings, _ := warned(b.plan(withPools(b.declare(nothing), gpuPool("a", 80), gpuPool("b", 80), plugin))); len(warnings) > 0 {
		t.Errorf("warned of %q", warnings)
	}
	if warnings, _ := warned(b.plan(withPools(b.declare(nothing), gpuPool("a", 80), gpuPool("b", 81), plugin))); len(warnings) != 1 || !strings.Contains(warnings[0], "at least 68 vCPUs") {
		t.Errorf("warned of %q", warnings)
	}
}

// A permission that is missing is a warning with its name, whatever else the Cluster declares.
func TestAMissingRightToReadQuotasIsAWarningWithTheAction(t *testing.T) {
	for _, tt := range []struct {
		name               string
		cluster            func(*v1alpha1.ClusterSpec)
		service, operation string
		// unset is true where the account has no value of its own.
		unset  bool
		action string
	}{
		{"the quotas, and nothing else of AWS is declared", nothing, "servicequotas", "ListServiceQuotas", false, "servicequotas:ListServiceQuotas"},
		{"the quotas, and a queue is declared", queued(deleting), "servicequotas", "ListServiceQuotas", false, "servicequotas:ListServiceQuotas"},
		{"the defaults that are needed", nothing, "servicequotas", "ListAWSDefaultServiceQuotas", true, "servicequotas:ListAWSDefaultServiceQuotas"},
		{"the instances that use them", nothing, "ec2", "DescribeInstances", false, "ec2:DescribeInstances"},
		{"the capacity reservations that use them", nothing, "ec2", "DescribeCapacityReservations", false, "ec2:DescribeCapacityReservations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			if tt.unset {
				if err := b.cloud.UnsetQuota(gOnDemand); err != nil {
					t.Fatal(err)
				}
			}
			declared := withPools(b.declare(tt.cluster), gpuPool("a", 1))
			b.reconcile(declared)
			end := b.fault(sandboxaws.Fault{Service: tt.service, Operation: tt.operation, Code: "AccessDeniedException", Status: 403,
				Message: "User: arn:aws:sts::000000000000:assumed-role/poolwright/i-0123 is not authorized to perform: " + tt.action + " on resource: arn"})
			p := b.plan(declared)
			warnings, _ := warned(p)
			if len(warnings) != 1 || !strings.Contains(warnings[0], "the vCPU quotas cannot be compared with the NodePools: denied: give ") || !strings.HasSuffix(warnings[0], "the action "+tt.action) {
				t.Errorf("warned of %q", warnings)
			}
			if len(p.Unknown) > 0 || len(p.Changes) > 0 {
				t.Errorf("got %s", show(p))
			}
			if len(p.Quotas) != 1 || p.Quotas[0].Unknown == "" {
				t.Errorf("the plan has %+v", p.Quotas)
			}
			if got := b.status().Unknown; len(got) != 1 || !strings.HasSuffix(got[0].Reason, tt.action) {
				t.Errorf("the status has %+v", got)
			}
			end()
			if p = b.plan(declared); len(b.status().Unknown) > 0 || len(p.Quotas) != 1 || p.Quotas[0].Unknown != "" {
				t.Errorf("afterwards: %+v, %+v", b.status().Unknown, p.Quotas)
			}
		})
	}
}

// Nothing that such a Cluster declares depends on AWS, so that its Sync must not either.
func TestWithoutAnotherAWSPartNoFailureOfAWSMakesAnythingUnknown(t *testing.T) {
	for _, tt := range []struct {
		name string
		// fails makes the requests fail, spoil the configuration.
		fails sandboxaws.Fault
		spoil func(*Config)
		want  string
	}{
		{"throttling", sandboxaws.Fault{Throttle: true}, nil, "throttled"},
		{"no credentials", sandboxaws.Fault{}, func(c *Config) {
			inner := c.AWS
			c.AWS = func(ctx context.Context, region string) (sdk.Config, error) {
				cfg, err := inner(ctx, region)
				cfg.Credentials = sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
					return sdk.Credentials{}, errors.New("there are none")
				})
				return cfg, err
			}
		}, "no AWS credentials were found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			if tt.spoil != nil {
				b.mod = tt.spoil
				b.restart()
			} else {
				defer b.fault(tt.fails)()
			}
			p := b.plan(withPools(b.declare(nothing), gpuPool("a", 1)))
			if warnings, _ := warned(p); len(p.Unknown) > 0 || len(warnings) != 1 || !strings.Contains(warnings[0], tt.want) {
				t.Errorf("unknown %v, warned of %q", p.Unknown, warnings)
			}
			p = b.plan(withPools(b.declare(queued(deleting)), gpuPool("a", 1)))
			if !slices.ContainsFunc(p.Unknown, func(u plan.Unknown) bool { return isQuota(u.Key) }) {
				t.Errorf("with a queue: unknown %v", p.Unknown)
			}
		})
	}
}
