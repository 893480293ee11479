package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/provision/sandbox"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// account is a person with the AWS CLI, as whom every request is allowed.
type account struct {
	ec2    *ec2.Client
	eks    *eks.Client
	iam    *iam.Client
	sqs    *sqs.Client
	events *eventbridge.Client
	logs   *cloudwatchlogs.Client
}

// awsFixture is a laptop in front of an AWS account that holds a cluster and nothing of
// what its nodes need.
type awsFixture struct {
	*laptop
	account account
	// allowed is what the controller may do, metrics where it serves them.
	allowed []policy.Document
	metrics string
}

// The key ids by which the account tells who asks.
const (
	personKey     = "BYHAND"
	controllerKey = "CONTROLLER"
)

// everyPart is a Cluster that declares all parts, those of others as adopted.
const everyPart = `apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata:
  name: cluster
spec:
  name: altanova-dev-euw1-eks
  region: eu-west-1
  account: "111122223333"
  tags: {team: platform}
  discovery:
    subnets: [subnet-0a000000000000001, subnet-0a000000000000002, subnet-0a000000000000003]
    securityGroups: [sg-0000000000000bbb2, sg-0000000000000ccc3]
  nodeRole:
    name: altanova-dev-euw1-eks-karpenter-node
    instanceProfile: altanova-dev-euw1-eks-karpenter-node
  interruptionQueue: {deletionPolicy: Delete}
  logging:
    adopt: true
    types: [api, audit]
    retentionDays: 14
  managedNodeGroups:
    - name: system
      adopt: true
      minSize: 2
      maxSize: 3
      labels: {role: system}
      instanceTypes: [t3.small]
  version: "1.33"
  addons:
    - {name: vpc-cni, version: v1.19.0-eksbuild.1}
  controllerRole: {identity: IRSA}
`

func newAWSFixture(t *testing.T) *awsFixture {
	t.Helper()
	l := newLaptop(t, func(c *sandbox.Config) {
		c.AWS.Cluster.NodeGroups = []sandboxaws.NodeGroup{{Name: "system", Min: 1, Desired: 2, Max: 3, InstanceTypes: []string{"t3.small"}}}
		c.AWS.Cluster.Addons = map[string]string{"vpc-cni": "v1.19.0-eksbuild.1"}
		c.AWS.Roles, c.AWS.Queues, c.AWS.Tags = nil, nil, map[string]string{}
		// Nobody finds a new role or queue at once.
		c.AWS.Delays.Visible = 2 * time.Second
	})
	// The example's patience with empty nodes is longer than ours.
	pools := filepath.Join(l.repo.dir, "base", "nodepools.yaml")
	text, err := os.ReadFile(pools)
	if err != nil || !strings.Contains(string(text), "consolidateAfter: 5m") {
		t.Fatalf("no pool of the example waits for five minutes: %v", err)
	}
	l.repo.write("base/nodepools.yaml", strings.ReplaceAll(string(text), "consolidateAfter: 5m", "consolidateAfter: 5s"))
	t.Cleanup(func() {
		if l.now != nil && t.Failed() {
			t.Log(logTail(l.now.Log()))
		}
	})
	return &awsFixture{laptop: l, account: newAccount(l.Endpoint(), l.aws.Region), metrics: freeAddress(t)}
}

func newAccount(endpoint, region string) account {
	cfg := sdk.Config{
		Region: region, BaseEndpoint: &endpoint,
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: personKey, SecretAccessKey: personKey}, nil
		}),
	}
	return account{
		ec2: ec2.NewFromConfig(cfg), eks: eks.NewFromConfig(cfg), iam: iam.NewFromConfig(cfg), sqs: sqs.NewFromConfig(cfg),
		events: eventbridge.NewFromConfig(cfg), logs: cloudwatchlogs.NewFromConfig(cfg),
	}
}

// declare replaces the repository's Cluster, and returns the new revision.
func (s *awsFixture) declare(cluster, message string) string {
	s.Helper()
	s.repo.write("clusters/dev/cluster.yaml", cluster)
	return s.repo.commit(message)
}

// controls starts the controller with a key of its own, which may do what the
// policies that bootstrap makes allow, and no more.
func (s *awsFixture) controls() {
	s.Helper()
	values := iampolicy.Values{
		Partition: "aws", Region: s.aws.Region, Account: s.aws.Account, Cluster: awsCluster,
		NodeRole: awsNodeRole, InstanceProfile: awsNodeRole, Queue: awsCluster,
	}
	for _, write := range []func(iampolicy.Values) (string, error){iampolicy.Resources, iampolicy.Deny, iampolicy.Engine} {
		text, err := write(values)
		if err != nil {
			s.Fatal(err)
		}
		document, err := policy.Parse(text)
		if err != nil {
			s.Fatal(err)
		}
		s.allowed = append(s.allowed, document)
	}
	s.AWS.Restrict(controllerKey, s.allowed, nil)
	var err error
	s.now, err = s.Environment.Run("poolwright", "/usr/bin/env", "AWS_ACCESS_KEY_ID="+controllerKey, binary, "run", "--namespace="+engineSystem,
		"--cache-dir="+filepath.Join(s.Dir, "caches"), "--metrics-addr="+s.metrics, "--health-addr=0")
	if err != nil {
		s.Fatal(err)
	}
}

// sync reads the Sync.
func (s *awsFixture) sync() *v1alpha1.Sync {
	s.Helper()
	sync := &v1alpha1.Sync{}
	if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: engineSystem, Name: "dev"}, sync); err != nil {
		s.Fatal(err)
	}
	return sync
}

// applied waits until the newest commit is.
func (s *awsFixture) applied() {
	s.Helper()
	s.eventually("the newest commit is applied", func() error { return isReady(s.sync(), s.repo.revision()) })
}

// reconcile asks the Sync to look at everything, and waits until it has.
func (s *awsFixture) reconcile() {
	s.Helper()
	s.expect(s.types("reconcile", "dev"), 0)
}

// difference is what the Cluster's status says of a resource, or nothing.
func (s *awsFixture) difference(resource string) string {
	s.Helper()
	c, err := s.cluster()
	if err != nil {
		s.Fatal(err)
	}
	if c.Status.AWS == nil {
		return ""
	}
	for _, d := range c.Status.AWS.Differences {
		if d.Resource == resource {
			return d.Message
		}
	}
	return ""
}

// inSync says why AWS is not as declared, or nil.
func (s *awsFixture) inSync() error {
	c, err := s.cluster()
	if err != nil {
		return err
	}
	condition := meta.FindStatusCondition(c.Status.Conditions, "AWSInSync")
	if condition == nil || condition.Status != "True" {
		return fmt.Errorf("AWSInSync is %+v", condition)
	}
	return nil
}
