package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Names in the account of the test.
const (
	awsCluster  = "altanova-dev-euw1-eks"
	awsNodeRole = "altanova-dev-euw1-eks-karpenter-node"
	awsRule     = "poolwright-altanova-dev-euw1-eks-"
)

// wound is one thing that somebody does to AWS by hand.
type wound struct {
	what string
	// resource is how reports name what is hit, word what they must say of it.
	resource, text string
	by             func(ctx context.Context, a account) error
}

// wounds hit each part that is corrected.
func wounds(queueURL string) []wound {
	name := sdk.String
	return []wound{
		{"a rule is disabled", "Rule.events/eu-west-1/" + awsRule + "SpotInterruption", "state is DISABLED", func(ctx context.Context, a account) error {
			_, err := a.events.DisableRule(ctx, &eventbridge.DisableRuleInput{Name: name(awsRule + "SpotInterruption")})
			return err
		}},
		{"a rule loses its target", "Rule.events/eu-west-1/" + awsRule + "Rebalance", "target", func(ctx context.Context, a account) error {
			targets, err := a.events.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: name(awsRule + "Rebalance")})
			if err != nil {
				return err
			}
			_, err = a.events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: name(awsRule + "Rebalance"), Ids: []string{*targets.Targets[0].Id}})
			return err
		}},
		{"the queue keeps messages for a day", "Queue.sqs/eu-west-1/" + awsCluster, "retentionSeconds is 86400", func(ctx context.Context, a account) error {
			_, err := a.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: &queueURL, Attributes: map[string]string{"MessageRetentionPeriod": "86400"}})
			return err
		}},
		{"the node role may do everything", "Role.iam/" + awsNodeRole, "policies", func(ctx context.Context, a account) error {
			_, err := a.iam.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: name(awsNodeRole), PolicyArn: name("arn:aws:iam::aws:policy/AdministratorAccess")})
			return err
		}},
		{"the instance profile loses its role", "InstanceProfile.iam/" + awsNodeRole, "role", func(ctx context.Context, a account) error {
			_, err := a.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{RoleName: name(awsNodeRole), InstanceProfileName: name(awsNodeRole)})
			return err
		}},
		{"nodes may not join any more", "AccessEntry.eks/eu-west-1/" + awsCluster + "/" + awsNodeRole, "does not exist", func(ctx context.Context, a account) error {
			_, err := a.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: name(awsCluster), PrincipalArn: name("arn:aws:iam::111122223333:role/" + awsNodeRole)})
			return err
		}},
		{"a subnet loses its tag", "SubnetTag.ec2/eu-west-1/subnet-0a000000000000002", "does not exist", func(ctx context.Context, a account) error {
			_, err := a.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{"subnet-0a000000000000002"}, Tags: []ec2types.Tag{{Key: name("karpenter.sh/discovery")}}})
			return err
		}},
		{"a security group loses its tag", "SecurityGroupTag.ec2/eu-west-1/sg-0000000000000ccc3", "does not exist", func(ctx context.Context, a account) error {
			_, err := a.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{"sg-0000000000000ccc3"}, Tags: []ec2types.Tag{{Key: name("karpenter.sh/discovery")}}})
			return err
		}},
		{"auditing is switched off", "Logging.eks/eu-west-1/" + awsCluster, "types", func(ctx context.Context, a account) error {
			_, err := a.eks.UpdateClusterConfig(ctx, &eks.UpdateClusterConfigInput{Name: name(awsCluster), Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{
				{Enabled: sdk.Bool(false), Types: []ekstypes.LogType{ekstypes.LogTypeAudit}},
			}}})
			return err
		}},
		{"logs are kept for ever", "LogGroup.logs/eu-west-1//aws/eks/" + awsCluster + "/cluster", "retentionDays", func(ctx context.Context, a account) error {
			_, err := a.logs.DeleteRetentionPolicy(ctx, &cloudwatchlogs.DeleteRetentionPolicyInput{LogGroupName: name("/aws/eks/" + awsCluster + "/cluster")})
			return err
		}},
		{"the system nodes may go to one", "NodeGroup.eks/eu-west-1/system", "minSize is 1", func(ctx context.Context, a account) error {
			_, err := a.eks.UpdateNodegroupConfig(ctx, &eks.UpdateNodegroupConfigInput{ClusterName: name(awsCluster), NodegroupName: name("system"),
				ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: sdk.Int32(1), DesiredSize: sdk.Int32(2), MaxSize: sdk.Int32(3)}})
			return err
		}},
	}
}

// The AWS half from nothing: made by bootstrap and the loop, hurt by hand in
// every part, reported, put right, denied, throttled, and given up.
func TestTheAWSHalfIsMadeReportedAndCorrected(t *testing.T) {
	t.Parallel()
	s := newAWSFixture(t)
	s.declare(everyPart, "Declare all that the nodes need from AWS")
	for _, act := range []struct {
		name string
		run  func()
	}{
		{"is made", s.isMade}, {"is reported, then corrected", s.isReportedThenCorrected}, {"is read-only", s.isOnlyCompared},
		{"is unknown", s.isUnknown}, {"brings nodes", s.bringsNodes}, {"is given up", s.isGivenUp}, {"stays within its permissions", s.staysWithinItsPermissions},
	} {
		begin := time.Now()
		act.run()
		t.Logf("the AWS half %s: %s", act.name, time.Since(begin).Round(time.Second))
	}
}

// isMade is a user's first day.
func (s *awsFixture) isMade() {
	s.Helper()
	u := newShell(s.fixture, s.repo)
	u.prints(u.block(newPage(s.T, "howto/take-over-aws.md").take("poolwright plan"), exitCode{2}), "Role.iam/"+awsNodeRole, "Queue.sqs/eu-west-1/"+awsCluster, "run `poolwright bootstrap`")
	s.expect(s.bootstrap("--dry-run", "--branch=live"), 1, "Role.iam/poolwright-"+awsCluster+"-", "Policy.iam/poolwright-boundary-"+awsCluster+"-")
	s.expect(s.bootstrap("--yes", "--branch=live"), 0)
	s.secret()
	s.expect(s.bootstrap("--yes", "--branch=live"), 0, "nothing to change")
	if err := s.hand.Patch(s.Context(), s.sync(), mergePatch(`{"spec":{"interval":"5s"}}`)); err != nil {
		s.Fatal(err)
	}
	s.controls()
	s.applied()
	s.eventually("AWS is in sync", s.inSync)
	s.expect(s.types("plan", "clusters/dev", "--sync=dev"), 0)
}

// isReportedThenCorrected hurts each part twice: while drift is reported, and
// while it is corrected.
func (s *awsFixture) isReportedThenCorrected() {
	s.Helper()
	url, err := s.account.sqs.GetQueueUrl(s.Context(), &sqs.GetQueueUrlInput{QueueName: sdk.String(awsCluster)})
	if err != nil {
		s.Fatal(err)
	}
	s.syncSet(`{"drift":"Report"}`)
	before := len(s.writes())
	all := wounds(*url.QueueUrl)
	for _, w := range all {
		if err := w.by(s.Context(), s.account); err != nil {
			s.Fatalf("%s: %v", w.what, err)
		}
	}
	s.reconcile()
	for _, w := range all {
		s.eventually(w.what+" is reported", func() error {
			if got := s.difference(w.resource); !strings.Contains(got, w.text) {
				return fmt.Errorf("the status says %q of %s", got, w.resource)
			}
			return nil
		})
	}
	if c := meta.FindStatusCondition(s.sync().Status.Conditions, "Drifted"); c == nil || c.Status != "True" || len(s.sync().Status.Pending) < len(all) {
		s.Errorf("the Sync tells %+v and lists %v", c, s.sync().Status.Pending)
	}
	if wrote := s.writes()[before:]; len(wrote) > 0 {
		s.Errorf("drift is only reported, and yet it wrote %v", wrote)
	}
	if s.Failed() {
		s.FailNow()
	}
	s.syncSet(`{"drift":"Correct"}`)
	s.eventually("everything is corrected", s.inSync)
	s.reconcile()
	s.eventually("everything is still in sync", s.inSync)
	for _, w := range all {
		if got := s.difference(w.resource); got != "" {
			s.Errorf("%s: it is not put right: %s", w.what, got)
		}
	}
	s.expect(s.types("plan", "clusters/dev", "--sync=dev"), 0)
}

// isOnlyCompared declares what Poolwright never changes.
func (s *awsFixture) isOnlyCompared() {
	s.Helper()
	other := strings.NewReplacer(`version: "1.33"`, `version: "1.34"`, "v1.19.0-eksbuild.1", "v1.20.0-eksbuild.1", "t3.small", "m7g.large").Replace(everyPart)
	before := len(s.writes())
	s.declare(other, "Ask for what is not Poolwright's to change")
	s.applied()
	for resource, text := range map[string]string{
		"Version.eks/eu-west-1/" + awsCluster:    "aws eks update-cluster-version",
		"Addon.eks/eu-west-1/vpc-cni":            "aws eks update-addon",
		"NodeGroupHardware.eks/eu-west-1/system": "aws eks create-nodegroup",
	} {
		s.eventually(resource+" is reported", func() error {
			if got := s.difference(resource); !strings.Contains(got, text) {
				return fmt.Errorf("the status says %q", got)
			}
			return nil
		})
	}
	if wrote := s.writes()[before:]; len(wrote) > 0 {
		s.Errorf("it wrote %v", wrote)
	}
	s.declare(everyPart, "Declare what is there")
	s.applied()
	s.eventually("AWS is in sync again", s.inSync)
}

// isUnknown takes one API away, then all.
func (s *awsFixture) isUnknown() {
	s.Helper()
	lift := s.inject(sandboxaws.Fault{Service: "sqs", Operation: "GetQueueAttributes", Code: "AccessDenied"})
	if _, err := s.account.events.DisableRule(s.Context(), &eventbridge.DisableRuleInput{Name: sdk.String(awsRule + "StateChange")}); err != nil {
		s.Fatal(err)
	}
	s.requested()
	s.eventually("the queue is unknown, the rule is corrected", func() error {
		c, err := s.cluster()
		if err != nil {
			return err
		}
		if c.Status.AWS == nil || len(c.Status.AWS.Unknown) != 1 || !strings.Contains(c.Status.AWS.Unknown[0].Reason, "sqs:GetQueueAttributes") {
			return fmt.Errorf("the status tells %+v", c.Status.AWS)
		}
		rule, err := s.account.events.DescribeRule(s.Context(), &eventbridge.DescribeRuleInput{Name: sdk.String(awsRule + "StateChange")})
		if err != nil || rule.State != "ENABLED" {
			return errors.Join(err, fmt.Errorf("the rule is %s", rule.State))
		}
		ready := meta.FindStatusCondition(s.sync().Status.Conditions, "Ready")
		if ready.Reason != "PartlyUnknown" {
			return fmt.Errorf("the Sync is %s: %s", ready.Reason, ready.Message)
		}
		return nil
	})
	s.awaitSeries(s.eventually, s.metrics, "PoolwrightObjectsUnknown")
	lift()
	s.eventually("the queue is known again", s.inSync)
	s.applied()

	for _, service := range []string{"ec2", "iam", "eks", "events", "logs", "servicequotas", "sts"} {
		defer s.inject(sandboxaws.Fault{Service: service, Throttle: true})()
	}
	lift = s.inject(sandboxaws.Fault{Service: "sqs", Throttle: true})
	s.requested()
	s.eventually("nothing is called in sync", func() error {
		c, err := s.cluster()
		if err != nil {
			return err
		}
		condition := meta.FindStatusCondition(c.Status.Conditions, "AWSInSync")
		if condition.Status != "Unknown" || len(c.Status.AWS.Differences) > 0 {
			return fmt.Errorf("AWSInSync is %s, %d differences", condition.Status, len(c.Status.AWS.Differences))
		}
		return nil
	})
	lift()
}

// bringsNodes proves the whole on a GPU pod, and on a warning that travels through
// the declared rule and queue.
func (s *awsFixture) bringsNodes() {
	s.Helper()
	s.eventually("AWS is in sync after its trouble", s.inSync)
	s.engineRuns()
	s.addDeployment(gpuPool, 1)
	s.eventually("a node is there", s.nodes(1))
	var first string
	for _, i := range s.AWS.Instances() {
		if !over(i.State) {
			first = i.ID
		}
	}
	if err := s.AWS.Interrupt(first); err != nil {
		s.Fatal(err)
	}
	s.eventually("the pod moves to another node", func() error {
		for _, i := range s.AWS.Instances() {
			if i.ID == first && !over(i.State) {
				return fmt.Errorf("instance %s is %s", first, i.State)
			}
		}
		return s.nodes(1)()
	})
}

// isGivenUp takes two parts out of the repository: one that is deleted with it,
// one that stays.
func (s *awsFixture) isGivenUp() {
	s.Helper()
	if err := s.hand.Delete(s.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: gpuPool, Namespace: "default"}}); err != nil {
		s.Fatal(err)
	}
	s.eventually("no node is left", s.nodes(0))
	without := strings.Replace(everyPart, "  interruptionQueue: {deletionPolicy: Delete}\n", "", 1)
	s.declare(strings.Replace(without, "    instanceProfile: "+awsNodeRole+"\n", "", 1), "Give up the queue and the instance profile")
	token := ""
	s.eventually("the Sync requires a confirmation", func() error {
		token = s.tokenFor("Queue.sqs/eu-west-1/" + awsCluster)
		if token == "" {
			return fmt.Errorf("pending is %v", s.sync().Status.Pending)
		}
		return nil
	})
	// Until then the engine goes on with the queue, and the rules fill it.
	if queues, rules := s.queueAndRules(); queues != 1 || rules != 5 {
		s.Errorf("before anybody confirmed there are %d queues and %d rules", queues, rules)
	}
	var live v1alpha1.ClusterList
	if err := s.hand.List(s.Context(), &live); err != nil || len(live.Items) != 1 || live.Items[0].Spec.InterruptionQueue == nil {
		s.Errorf("before anybody confirmed the engine was not to read the queue any more: %v", err)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ConfirmAnnotation, token)
	if err := s.hand.Patch(s.Context(), s.sync(), mergePatch(patch)); err != nil {
		s.Fatal(err)
	}
	s.eventually("the queue and its rules are gone", func() error {
		if queues, rules := s.queueAndRules(); queues+rules > 0 {
			return fmt.Errorf("there are %d queues and %d rules", queues, rules)
		}
		return nil
	})
	s.applied()
	s.eventually("AWS is in sync without them", s.inSync)
	if _, err := s.account.iam.GetInstanceProfile(s.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: sdk.String(awsNodeRole)}); err != nil {
		s.Errorf("the instance profile, which nothing said to delete: %v", err)
	}
}

// queueAndRules counts the interruption queues and the rules that fill them.
func (s *awsFixture) queueAndRules() (queues, rules int) {
	s.Helper()
	q, err := s.account.sqs.ListQueues(s.Context(), &sqs.ListQueuesInput{QueueNamePrefix: sdk.String(awsCluster)})
	r, more := s.account.events.ListRules(s.Context(), &eventbridge.ListRulesInput{NamePrefix: sdk.String("poolwright-")})
	if err := errors.Join(err, more); err != nil {
		s.Fatal(err)
	}
	return len(q.QueueUrls), len(r.Rules)
}

// tokenFor is the confirmation token of the Sync while the deletion of a resource waits.
func (s *awsFixture) tokenFor(resource string) string {
	s.Helper()
	status := s.sync().Status
	waits := func(p v1alpha1.PendingChange) bool {
		return strings.HasSuffix(p.Object, resource) && p.Action == "delete" && len(p.HeldBy) > 0
	}
	if !slices.ContainsFunc(status.Pending, waits) {
		return ""
	}
	return status.ConfirmationToken
}

// staysWithinItsPermissions holds all of the controller's requests against the policies
// that bootstrap gave it. They were enforced, too: what is denied here did not
// happen there.
func (s *awsFixture) staysWithinItsPermissions() {
	s.Helper()
	requested := map[string]int{}
	for _, c := range s.AWS.Calls() {
		if c.Key != controllerKey {
			continue // bootstrap, or somebody by hand
		}
		requested[c.Service+":"+c.Operation]++
		for _, d := range c.Denied(s.allowed, nil) {
			s.Errorf("%s:%s: %s", c.Service, c.Operation, d)
		}
	}
	// Had it asked for little, this would prove little.
	for _, operation := range []string{
		"iam:DetachRolePolicy", "iam:AddRoleToInstanceProfile", "eks:CreateAccessEntry", "eks:UpdateClusterConfig", "eks:UpdateNodegroupConfig",
		"sqs:SetQueueAttributes", "sqs:DeleteQueue", "events:PutRule", "events:PutTargets", "events:DeleteRule", "logs:PutRetentionPolicy", "ec2:CreateTags",
		"ec2:CreateFleet", "ec2:TerminateInstances", "sqs:ReceiveMessage", "servicequotas:ListServiceQuotas",
	} {
		if requested[operation] == 0 {
			s.Errorf("the controller never asked for %s", operation)
		}
	}
}

// writes are the controller's requests to AWS that change something and are the
// loop's, not the engine's.
func (s *awsFixture) writes() (all []string) {
	s.Helper()
	for _, c := range s.AWS.Calls() {
		read := strings.HasPrefix(c.Operation, "Get") || strings.HasPrefix(c.Operation, "List") || strings.HasPrefix(c.Operation, "Describe")
		engine := c.Service == "ec2" && c.Operation != "CreateTags" && c.Operation != "DeleteTags" || c.Operation == "ReceiveMessage" || c.Operation == "DeleteMessage" ||
			strings.Contains(c.Operation, "InstanceProfile")
		if c.Key == controllerKey && !read && !engine && !c.Dry {
			all = append(all, c.Service+":"+c.Operation)
		}
	}
	return all
}

// syncSet changes the Sync's spec and waits until the change is handled.
func (s *awsFixture) syncSet(patch string) {
	s.Helper()
	sync := s.sync()
	if err := s.hand.Patch(s.Context(), sync, mergePatch(`{"spec":`+patch+`}`)); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	s.eventually("the Sync's change is observed", func() error {
		if now := s.sync(); now.Status.ObservedGeneration != now.Generation {
			return fmt.Errorf("generation %d of %d is observed", now.Status.ObservedGeneration, now.Generation)
		}
		return nil
	})
}

// requested asks the Sync to look, and does not wait.
func (s *awsFixture) requested() {
	s.Helper()
	s.expect(s.types("reconcile", "dev", "--wait=false"), 0)
}
