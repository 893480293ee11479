package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	clusterTag = "eks:eks-cluster-name"
	poolTag    = "karpenter.sh/nodepool"
	classTag   = "karpenter.k8s.aws/ec2nodeclass"
	// claimTag is put on an instance once its Node has registered.
	claimTag = "karpenter.sh/nodeclaim"

	// unfinished is how long a launch may take to register. An instance without
	// claimTag and younger than this never ran a pod: a crash between its launch
	// and the note of it leaves one behind, and collecting it is what the engine
	// is there for.
	unfinished = 15 * time.Minute
)

// orphans refuses when instances that were in use have no NodeClaim in this API
// server: after a restore from an old backup, or with the wrong cluster, the
// engine would terminate them all.
func (g Gates) orphans(ctx context.Context) *Refusal {
	const check = "allow ec2:DescribeInstances, and list on nodeclaims.karpenter.sh"
	found, err := g.findOrphans(ctx)
	if err == nil && len(found) > 0 && len(found) != g.ConfirmOrphans() {
		// EC2 may still show what was terminated a moment ago.
		if err = g.wait(ctx, secondLook); err == nil {
			var again []string
			again, err = g.findOrphans(ctx)
			found = slices.DeleteFunc(found, func(id string) bool { return !slices.Contains(again, id) })
		}
	}
	if err != nil {
		return unproven(Orphans, check, err)
	}
	return g.judgeOrphans(found)
}

// CheckOrphans is the orphans' gate alone, with a single look: for the moment
// before instances are collected. It returns nil or a Refusal.
func (g Gates) CheckOrphans(ctx context.Context) error {
	g, err := g.complete()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := g.findOrphans(ctx)
	if err != nil {
		return *unproven(Orphans, "wait, or look into the cause", err)
	}
	if refusal := g.judgeOrphans(found); refusal != nil {
		return *refusal
	}
	return nil
}

func (g Gates) judgeOrphans(found []string) *Refusal {
	if len(found) == 0 || len(found) == g.ConfirmOrphans() {
		return nil
	}
	remedy := fmt.Sprintf("restore the NodeClaims; or, to let these instances be terminated, annotate the Cluster object with poolwright.dev/confirm-orphans=%d", len(found))
	return refuse(Orphans, remedy, "%d instances of cluster %q have no NodeClaim here and would be terminated: %s", len(found), g.Cluster, some(found))
}

// findOrphans lists the instances first: a NodeClaim exists before its instance
// does, so one made in between cannot make an orphan.
func (g Gates) findOrphans(ctx context.Context) ([]string, error) {
	instances, err := g.instances(ctx)
	if err != nil || len(instances) == 0 {
		return nil, err
	}
	claims := &karpv1.NodeClaimList{}
	if err := ifKnown(g.Kube.List(ctx, claims)); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	claimed := make(map[string]bool, len(claims.Items))
	for _, claim := range claims.Items {
		id := claim.Status.ProviderID
		claimed[id[strings.LastIndexByte(id, '/')+1:]] = true
	}
	var orphans []string
	for _, instance := range instances {
		if id := aws.ToString(instance.InstanceId); !claimed[id] && !g.isUnfinished(instance) {
			orphans = append(orphans, id)
		}
	}
	slices.Sort(orphans)
	return orphans, nil
}

func (g Gates) isUnfinished(instance ec2types.Instance) bool {
	for _, tag := range instance.Tags {
		if aws.ToString(tag.Key) == claimTag {
			return false
		}
	}
	return instance.LaunchTime != nil && g.Clock.Since(*instance.LaunchTime) < unfinished
}

// instances are those that Karpenter's garbage collection would look at and that
// still run.
func (g Gates) instances(ctx context.Context) ([]ec2types.Instance, error) {
	pages := ec2.NewDescribeInstancesPaginator(ec2.NewFromConfig(g.AWS), &ec2.DescribeInstancesInput{
		Filters: []ec2types.Filter{
			{Name: aws.String("tag-key"), Values: []string{poolTag}},
			{Name: aws.String("tag-key"), Values: []string{classTag}},
			{Name: aws.String("tag:" + clusterTag), Values: []string{g.Cluster}},
			{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"}},
		},
		MaxResults: aws.Int32(1000),
	})
	var all []ec2types.Instance
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the instances of cluster %q: %w", g.Cluster, brief(err))
		}
		for _, reservation := range page.Reservations {
			for _, instance := range reservation.Instances {
				if aws.ToString(instance.InstanceId) == "" {
					return nil, errors.New("listing the instances: one came without an id")
				}
				all = append(all, instance)
			}
		}
	}
	return all, nil
}
