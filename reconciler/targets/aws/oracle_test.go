package aws

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/interruption"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

// comment is what the comment on a pull request reports of a change, by a target that New or NewPreview makes.
func (b *bench) comment(create func(Config) (*Target, error), before, after state.Set) string {
	b.Helper()
	got := b.proposeIn(create, before, after)
	var out strings.Builder
	if err := report.NewProposal(got, got.Problems, nil).Markdown(&out, report.Options{}); err != nil {
		b.Fatal(err)
	}
	return out.String()
}

// proposeIn is a change as a target that New or NewPreview makes answers it.
func (b *bench) proposeIn(create func(Config) (*Target, error), before, after state.Set) plan.Proposal {
	b.Helper()
	var cfg Config
	b.mod = func(c *Config) { cfg = *c }
	b.restart()
	target, err := create(cfg)
	if err != nil {
		b.Fatal(err)
	}
	got, err := reconciler.Propose(b.Context(), declared.Declared{Set: before}, declared.Declared{Set: after}, false,
		[]reconciler.NamedTarget{{Name: Name, Target: target}}, plan.Guard(50, ""))
	if err != nil {
		b.Fatal(err)
	}
	return got
}

// taken are things of others with the names that a stranger may ask for.
func taken() map[string]func(ctx context.Context, b *bench) error {
	return map[string]func(ctx context.Context, b *bench) error{
		"a role of that name": func(ctx context.Context, b *bench) error {
			_, err := b.hand.IAM.CreateRole(ctx, &iam.CreateRoleInput{RoleName: sdk.String("payroll"), AssumeRolePolicyDocument: sdk.String(
				`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"ec2.amazonaws.com"}}]}`)})
			return err
		},
		"a queue of that name": func(ctx context.Context, b *bench) error {
			_, err := b.hand.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: sdk.String("payroll")})
			return err
		},
		"a rule of the name that it would have": func(ctx context.Context, b *bench) error {
			_, err := b.hand.Events.PutRule(ctx, &eventbridge.PutRuleInput{
				Name: sdk.String(interruption.RuleNames(b.config.Cluster.Name)[0]), EventPattern: sdk.String(`{"source":["aws.health"]}`),
			})
			return err
		},
	}
}

// oracle asks the same of an account twice: before there is a thing of others, and after.
func oracle(t *testing.T, take func(context.Context, *bench) error, create func(Config) (*Target, error)) (before, after string) {
	t.Helper()
	b := newBench(t, nil)
	base := b.declare(func(s *v1alpha1.ClusterSpec) { s.Tags = map[string]string{"team": "infra"} })
	head := b.declare(func(s *v1alpha1.ClusterSpec) {
		s.Tags = map[string]string{"team": "infra"}
		s.NodeRole = &v1alpha1.NodeRole{Name: "payroll"}
		s.InterruptionQueue = &v1alpha1.InterruptionQueue{Name: "payroll", ManagementPolicy: deleting}
	})
	b.reconcile(base)
	before = b.comment(create, base, head)
	if err := take(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return before, b.comment(create, base, head)
}

func TestAPullRequestDoesNotRevealWhatTheAccountHolds(t *testing.T) {
	for name, take := range taken() {
		t.Run(name, func(t *testing.T) {
			before, after := oracle(t, take, NewPreview)
			if d := cmp.Diff(before, after); d != "" {
				t.Error(d)
			}
			if !strings.Contains(after, "payroll") {
				t.Errorf("the change itself is not reported:\n%s", after)
			}
		})
	}
}

// The guard switched off: the same questions are answered.
func TestAReviewerWhoMayReadTheAccountGetsWhatItHolds(t *testing.T) {
	for name, take := range taken() {
		t.Run(name, func(t *testing.T) {
			if before, after := oracle(t, take, New); before == after {
				t.Error("nothing of it is told, so that this case proves nothing")
			}
		})
	}
}

func TestAPullRequestHasTheDriftOfWhatIsManaged(t *testing.T) {
	b := newBench(t, nil)
	base := b.declare(kept(deleting, 5*time.Minute))
	b.reconcile(base)
	b.disableRule(0)
	got := b.comment(NewPreview, base, b.declare(kept(deleting, 10*time.Minute)))
	for _, want := range []string{"300", "600", "DISABLED"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not told:\n%s", want, got)
		}
	}
}

// withSystemGroup declares the cluster's own node group with that many nodes, not to be adopted.
func withSystemGroup(desired int32) func(*v1alpha1.ClusterSpec) {
	return func(s *v1alpha1.ClusterSpec) {
		s.ManagedNodeGroups = []v1alpha1.ManagedNodeGroup{{Name: "system", DesiredSize: &desired}}
	}
}

// groupDrift are the changes that a preview, and a plan of who may read the account, take for
// drift of a node group that is as main declares it.
func groupDrift(t *testing.T, create func(Config) (*Target, error)) (proposed plan.Proposal) {
	t.Helper()
	b := newBench(t, kindtest.SystemGroup)
	base := b.declare(withSystemGroup(2))
	b.reconcile(base)
	return b.proposeIn(create, base, b.declare(withSystemGroup(3)))
}

func TestAPullRequestHasNoDriftOfWhatIsNotRead(t *testing.T) {
	got := groupDrift(t, NewPreview)
	if d := cmp.Diff([]string(nil), noteTexts(got.Drift)); d != "" {
		t.Errorf("drift of a node group that is as main says: %s", d)
	}
	step := noteTexts(got.Proposed)
	if len(step) != 1 || !strings.HasPrefix(step[0], "update NodeGroup desiredSize: 2 > 3") {
		t.Errorf("the change: %v", step)
	}
	if got.Proposed.Notes[0].Key.Kind != "NodeGroup" || len(got.Proposed.Notes) != 1 {
		t.Errorf("notes %v", got.Proposed.Notes)
	}
}

func TestAProposalOfWhoMayReadTheAccountComparesWhatOthersMade(t *testing.T) {
	got := groupDrift(t, New)
	if d := cmp.Diff([]string(nil), noteTexts(got.Drift)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"update NodeGroup desiredSize: 2 > 3 never"}, noteTexts(got.Proposed)); d != "" {
		t.Error(d)
	}
}
