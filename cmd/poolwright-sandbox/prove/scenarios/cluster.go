package scenarios

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// clusterSpec is a Cluster without an engine, with all that nodes need of AWS. Its verbs are
// how long the queue keeps messages, and the security groups.
const clusterSpec = `  name: sandbox
  region: us-east-1
  account: "000000000000"
  engine: {mode: "Off"}
  discovery:
    subnets: [subnet-0a000000000000001, subnet-0a000000000000002]
    securityGroups: [%s]
  nodeRole: {name: nodes, instanceProfile: nodes, deletionPolicy: Delete}
  interruptionQueue: {deletionPolicy: Delete, retention: %s}
`

// nodePolicies are those of a node role.
const nodePolicies = "AmazonEC2ContainerRegistryPullOnly AmazonEKSWorkerNodePolicy AmazonEKS_CNI_Policy AmazonSSMManagedInstanceCore"

// prerequisites are what a Cluster needs of AWS, where the queue keeps messages for so many
// seconds.
func prerequisites(retention int) []trace.State {
	states := []trace.State{
		{Object: trace.Object{Kind: "iam/role", Name: "nodes"}, Value: nodePolicies},
		{Object: trace.Object{Kind: "iam/instance-profile", Name: "nodes"}, Value: "nodes"},
		{Object: trace.Object{Kind: "sqs/queue", Name: "sandbox"}, Value: fmt.Sprint(retention)},
		{Object: trace.Object{Kind: "eks/access-entry", Name: "arn:aws:iam::000000000000:role/nodes"}, Value: "EC2_LINUX"},
	}
	for _, event := range []string{"CapacityReservation", "Rebalance", "ScheduledChange", "SpotInterruption", "StateChange"} {
		states = append(states, trace.State{Object: trace.Object{Kind: "events/rule", Name: "poolwright-sandbox-" + event}, Value: "ENABLED 1"})
	}
	return states
}

// withoutPrerequisites is an account that has a cluster and nothing that nodes need.
func withoutPrerequisites(c *sandboxaws.Config) {
	c.Roles, c.Queues, c.Tags = nil, nil, map[string]string{}
}

// declareCluster commits a Cluster.
func declareCluster(ctx context.Context, s *fixture.Fixture, groups, retention string, seconds int) error {
	s.Cluster, s.Declared = fmt.Sprintf(clusterSpec, groups, retention), prerequisites(seconds)
	return s.Commit(ctx, "Declare what nodes need of AWS")
}

const bothGroups = "sg-0000000000000bbb2, sg-0000000000000ccc3"

// prerequisitesMade is a Cluster that is declared for the first time.
func prerequisitesMade() Scenario {
	return Scenario{
		Name: "cluster-prerequisites", Exclusive: true, Account: withoutPrerequisites,
		Summary: "A commit declares a Cluster: node role, instance profile, access entry, queue, rules and discovery tags are made in AWS.",
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			if err := s.CreatePolicy(ctx, "poolwright-boundary-sandbox-us-east-1"); err != nil {
				return err
			}
			return startApplied(ctx, s, map[string]string{"ConfigMap/a": "v1"})
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			if err := declareCluster(ctx, s, bothGroups, "5m", 300); err != nil {
				return err
			}
			return s.Request(ctx)
		},
		Meanwhile: func(ctx context.Context, s *fixture.Fixture) error {
			return declareCluster(ctx, s, bothGroups, "10m", 600)
		},
	}
}

// prerequisitesChanged is a Cluster that declares something else.
func prerequisitesChanged() Scenario {
	made := prerequisitesMade()
	return Scenario{
		Name: "cluster-changed", Exclusive: true, Account: withoutPrerequisites,
		Summary: "A commit has the queue keep messages for longer, and removes a discovery tag.",
		Prepare: func(ctx context.Context, s *fixture.Fixture) error {
			if err := made.Prepare(ctx, s); err != nil {
				return err
			}
			if err := made.Act(ctx, s); err != nil {
				return err
			}
			return s.Converge(ctx)
		},
		Act: func(ctx context.Context, s *fixture.Fixture) error {
			if err := declareCluster(ctx, s, "sg-0000000000000bbb2", "10m", 600); err != nil {
				return err
			}
			return s.Request(ctx)
		},
		Meanwhile: func(ctx context.Context, s *fixture.Fixture) error {
			return declareCluster(ctx, s, bothGroups, "5m", 300)
		},
	}
}
