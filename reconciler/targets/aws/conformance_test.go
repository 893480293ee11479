package aws

import (
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/interruption"
	"github.com/poolwright/poolwright/reconciler/targets/targettest"
)

// deleting is a part whose things go with it.
var deleting = v1alpha1.ManagementPolicy{DeletionPolicy: v1alpha1.AWSDeletionPolicyDelete}

func TestTheQueueAndItsRulesAreATarget(t *testing.T) {
	targettest.Run(t, func(t *testing.T) targettest.Fixture {
		b := newBench(t, nil)
		queue := func(retention time.Duration) func(*v1alpha1.ClusterSpec) {
			return func(s *v1alpha1.ClusterSpec) {
				s.InterruptionQueue = &v1alpha1.InterruptionQueue{ManagementPolicy: deleting, Retention: &metav1.Duration{Duration: retention}}
			}
		}
		return targettest.Fixture{
			Connect: b.restarted,
			Things:  b.declare(queue(5 * time.Minute)),
			Revised: b.declare(queue(10 * time.Minute)),
			Edit: func(t *testing.T, k state.Key) {
				if _, err := b.hand.Events.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: &k.Name}); err != nil {
					t.Fatal(err)
				}
			},
			Remove: b.removeRule,
			Replace: func(t *testing.T, k state.Key) {
				b.removeRule(t, k)
				_, err := b.hand.Events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: &k.Name, EventPattern: sdk.String(`{"source":["aws.ec2"]}`)})
				if err != nil {
					t.Fatal(err)
				}
			},
			Without: func(state.Key) state.Set { return b.declare(func(*v1alpha1.ClusterSpec) {}) },
		}
	})
}

func TestTheIdentitiesAreATarget(t *testing.T) {
	targettest.Run(t, func(t *testing.T) targettest.Fixture {
		b := newBench(t, nil, bootstrapping)
		identities := func(revised bool) func(*v1alpha1.ClusterSpec) {
			return func(s *v1alpha1.ClusterSpec) {
				everything(revised)(s)
				s.InterruptionQueue, s.ControllerRole = nil, nil // the controller's own identity is never deleted
			}
		}
		entry := func(k state.Key) (cluster, principal *string) {
			c, role, _ := strings.Cut(k.Name, "/")
			return &c, sdk.String(b.hand.Scope.IAMARN("role/" + role))
		}
		remove := func(t *testing.T, k state.Key) {
			cluster, principal := entry(k)
			if _, err := b.hand.EKS.DeleteAccessEntry(t.Context(), &eks.DeleteAccessEntryInput{ClusterName: cluster, PrincipalArn: principal}); err != nil {
				t.Fatal(err)
			}
		}
		return targettest.Fixture{
			Connect: b.restarted,
			Things:  b.declare(identities(false)),
			Revised: b.declare(identities(true)),
			Edit: func(t *testing.T, k state.Key) {
				cluster, principal := entry(k)
				found, err := b.hand.EKS.DescribeAccessEntry(t.Context(), &eks.DescribeAccessEntryInput{ClusterName: cluster, PrincipalArn: principal})
				if err != nil {
					t.Fatal(err)
				}
				_, err = b.hand.EKS.TagResource(t.Context(), &eks.TagResourceInput{ResourceArn: found.AccessEntry.AccessEntryArn, Tags: map[string]string{"team": "nobody"}})
				if err != nil {
					t.Fatal(err)
				}
			},
			Remove: remove,
			Replace: func(t *testing.T, k state.Key) {
				remove(t, k)
				cluster, principal := entry(k)
				_, err := b.hand.EKS.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{ClusterName: cluster, PrincipalArn: principal, Type: sdk.String("EC2_LINUX")})
				if err != nil {
					t.Fatal(err)
				}
			},
			Without: func(state.Key) state.Set { return b.declare(nothing) },
		}
	})
}

func (b *bench) restarted(t *testing.T) targets.Target {
	t.Helper()
	return b.restart()
}

func (b *bench) removeRule(t *testing.T, k state.Key) {
	t.Helper()
	if _, err := b.hand.Events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: &k.Name, Ids: []string{interruption.RuleTarget}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.hand.Events.DeleteRule(t.Context(), &eventbridge.DeleteRuleInput{Name: &k.Name}); err != nil {
		t.Fatal(err)
	}
}
