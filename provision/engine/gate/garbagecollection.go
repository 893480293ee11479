package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/internal/missingkind"
	"github.com/poolwright/poolwright/internal/plural"
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
	// is there for. An older one must prove more, by ranPods.
	unfinished = 15 * time.Minute
)

// garbageCollection refuses when instances that were in use have no NodeClaim in this API
// server: after a restore from an old backup, or with the wrong cluster, the
// engine would terminate them all.
func (g Gates) garbageCollection(ctx context.Context) *ClosedGate {
	const check = "allow ec2:DescribeInstances, and list on nodeclaims.karpenter.sh, nodepools.karpenter.sh and nodes"
	found, err := g.findLeaked(ctx)
	if err == nil && len(found) > 0 && !g.confirmed(found) {
		// EC2 may still show what was terminated a moment ago.
		if err = g.wait(ctx, recheckDelay); err == nil {
			var again []string
			again, err = g.findLeaked(ctx)
			found = slices.DeleteFunc(found, func(id string) bool { return !slices.Contains(again, id) })
		}
	}
	if err != nil {
		return unproven(GarbageCollection, check, err)
	}
	return g.refuseCollection(found)
}

// CheckGarbageCollection is that gate alone, with a single listing: for the moment before
// instances are collected. It returns nil or a ClosedGate.
func (g Gates) CheckGarbageCollection(ctx context.Context) error {
	g, err := g.complete()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := g.findLeaked(ctx)
	if err != nil {
		return *unproven(GarbageCollection, "wait, or correct the cause", err)
	}
	if refusal := g.refuseCollection(found); refusal != nil {
		return *refusal
	}
	return nil
}

func (g Gates) refuseCollection(found []string) *ClosedGate {
	if len(found) == 0 || g.confirmed(found) {
		return nil
	}
	remedy := fmt.Sprintf("restore the NodeClaims; or, to let these instances be terminated, annotate the Cluster object with poolwright.dev/confirm-garbage-collection=%s", confirmation(found))
	return refuse(GarbageCollection, remedy, "%d instances of cluster %q have no NodeClaim here and would be terminated: %s", len(found), g.Cluster, plural.FirstOf(found, maxNamed, ", "))
}

func (g Gates) confirmed(found []string) bool {
	return g.ConfirmGarbageCollection() == confirmation(found)
}

// confirmation is what a person quotes to let exactly these instances go: their number,
// for the reader, and a digest of their sorted ids, so that the token does not hold for
// as many others at another time.
func confirmation(ids []string) string {
	digest := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return fmt.Sprintf("%d-%x", len(ids), digest[:4])
}

// findLeaked lists the instances first: a NodeClaim exists before its instance
// does, so one made in between cannot leak one.
func (g Gates) findLeaked(ctx context.Context) ([]string, error) {
	instances, err := g.instances(ctx)
	if err != nil || len(instances) == 0 {
		return nil, err
	}
	claims := &karpv1.NodeClaimList{}
	if err := missingkind.Ignore(g.Kube.List(ctx, claims)); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	claimed := make(map[string]bool, len(claims.Items))
	for _, claim := range claims.Items {
		claimed[instanceOf(claim.Status.ProviderID)] = true
	}
	var leaked []string
	var untagged []ec2types.Instance
	for _, instance := range instances {
		id := aws.ToString(instance.InstanceId)
		switch {
		case claimed[id]:
		case tagOf(instance, claimTag) != "":
			leaked = append(leaked, id)
		case instance.LaunchTime == nil || g.Clock.Since(*instance.LaunchTime) >= unfinished:
			untagged = append(untagged, instance)
		}
	}
	used, err := g.ranPods(ctx, untagged)
	if err != nil {
		return nil, err
	}
	leaked = append(leaked, used...)
	slices.Sort(leaked)
	return leaked, nil
}

// ranPods are those old instances without claimTag that may have run a pod. One
// of a NodePool of ours that has no Node never did: a crash between its launch
// and the note of it left it behind while nobody was there to collect it. It lists the
// Nodes because tagging may have been denied all along.
func (g Gates) ranPods(ctx context.Context, untagged []ec2types.Instance) ([]string, error) {
	if len(untagged) == 0 {
		return nil, nil
	}
	pools, nodes := &karpv1.NodePoolList{}, &corev1.NodeList{}
	if err := missingkind.Ignore(g.Kube.List(ctx, pools)); err != nil {
		return nil, fmt.Errorf("listing NodePools: %w", err)
	}
	if err := g.Kube.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	ours, joined := map[string]bool{}, map[string]bool{}
	for _, pool := range pools.Items {
		ours[pool.Name] = true
	}
	for _, node := range nodes.Items {
		joined[instanceOf(node.Spec.ProviderID)] = true
	}
	var ran []string
	for _, instance := range untagged {
		if id := aws.ToString(instance.InstanceId); joined[id] || !ours[tagOf(instance, poolTag)] {
			ran = append(ran, id)
		}
	}
	return ran, nil
}

// instanceOf is the instance's id in a provider id such as
// aws:///eu-west-1a/i-0123.
func instanceOf(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// tagOf is a tag's value, or empty.
func tagOf(instance ec2types.Instance, key string) string {
	for _, tag := range instance.Tags {
		if aws.ToString(tag.Key) == key {
			return aws.ToString(tag.Value)
		}
	}
	return ""
}

// instances are those that Karpenter's garbage collection would consider and that still
// run.
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
