package iam

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// AccessEntries are EKS access entries: the one of the node role, of the type
// that lets EC2 Linux nodes join.
type AccessEntries struct{}

// nodeEntry is the type that lets EC2 Linux nodes join, and nothing else.
const nodeEntry = "EC2_LINUX"

// Desired implements resource.Kind.
func (AccessEntries) Desired(s resource.Declaration) []state.Item {
	node := s.Spec.NodeRole
	if node == nil {
		return nil
	}
	return []state.Item{s.Owned(s.Regional("eks", "AccessEntry", s.Cluster+"/"+node.Name), resource.WaveThird, node.ManagementPolicy, map[string]any{
		"principalArn": s.IAMARN("role/" + node.Name), "type": nodeEntry,
	})}
}

// Read implements resource.Kind.
func (AccessEntries) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return resource.Each(keys, func(k state.Key) (resource.Live, error) {
		cluster, role, _ := strings.Cut(k.Name, "/")
		observed, err := readEntry(ctx, c, cluster, c.Scope.IAMARN("role/"+role))
		if err != nil || observed.Object != nil {
			return observed, err
		}
		// An adopted role may have a path, which only the list reports.
		principal, err := entryOf(ctx, c, cluster, role)
		if err != nil {
			return resource.Live{}, err
		}
		if principal == "" {
			return unentered(ctx, c, cluster, role)
		}
		return readEntry(ctx, c, cluster, principal)
	})
}

// unentered is an entry that does not exist. Those of roles with a path are not
// made by Poolwright: its policy names the role, not its path.
func unentered(ctx context.Context, c *resource.Clients, cluster, role string) (resource.Live, error) {
	principal, err := roleARN(ctx, c, role)
	if errors.Is(err, awserr.ErrNotPropagated) || awserr.Denied(err) { // the role's own sighting reports it
		return resource.Live{}, nil
	}
	if err != nil || principal == c.Scope.IAMARN("role/"+role) {
		return resource.Live{}, err
	}
	return resource.Live{Missing: fmt.Sprintf("role %s has a path, and Poolwright makes access entries only for roles without one: `%s`", principal, createEntryCommand(c, cluster, principal))}, nil
}

// createEntryCommand is the command that makes an entry.
func createEntryCommand(c *resource.Clients, cluster, principal string) string {
	return fmt.Sprintf("aws eks create-access-entry --cluster-name %s --principal-arn %s --type %s --region %s", cluster, principal, nodeEntry, c.Scope.Region)
}

func readEntry(ctx context.Context, c *resource.Clients, cluster, principal string) (resource.Live, error) {
	out, err := c.EKS.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: sdk.String(cluster), PrincipalArn: sdk.String(principal)})
	if awserr.IsNotFound(err) {
		return resource.Live{}, nil
	}
	if err != nil {
		return resource.Live{}, withoutEntries(ctx, c, cluster, fmt.Errorf("reading the access entry of %s: %w", principal, err))
	}
	e := out.AccessEntry
	observed := resource.Live{UID: sdk.ToString(e.AccessEntryArn), Tags: e.Tags}
	if e.CreatedAt != nil {
		observed.UID += "#" + e.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	observed.Ours = c.Scope.Owns(observed.Tags)
	observed.Object = map[string]any{
		"principalArn": c.Scope.IAMARN("role/" + roleName(c.Scope, sdk.ToString(e.PrincipalArn))),
		"type":         sdk.ToString(e.Type), "tags": tag.Object(observed.Tags),
	}
	_, made := observed.Tags[tag.DeletionPolicy]
	plain := principal == c.Scope.IAMARN("role/"+roleName(c.Scope, principal))
	if sdk.ToString(e.Type) != nodeEntry && !(observed.Ours && made && plain) {
		observed.ReadOnly = fmt.Sprintf("the type of an access entry cannot be changed, and Poolwright replaces only what it made itself: `aws eks delete-access-entry --cluster-name %s --principal-arn %s --region %s`, "+
			"then `%s`; no node can join the cluster meanwhile", cluster, principal, c.Scope.Region, createEntryCommand(c, cluster, principal))
	}
	return observed, nil
}

// entryOf finds the principal of an access entry by the role's name alone;
// empty when there is none.
func entryOf(ctx context.Context, c *resource.Clients, cluster, role string) (string, error) {
	pages := eks.NewListAccessEntriesPaginator(c.EKS, &eks.ListAccessEntriesInput{ClusterName: sdk.String(cluster)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if awserr.IsNotFound(err) {
			return "", errNoCluster(c, cluster)
		}
		if err != nil {
			return "", withoutEntries(ctx, c, cluster, fmt.Errorf("listing the access entries of cluster %q: %w", cluster, err))
		}
		for _, arn := range page.AccessEntries {
			if strings.Contains(arn, ":role/") && roleName(c.Scope, arn) == role && arn != c.Scope.IAMARN("role/"+role) {
				return arn, nil
			}
		}
	}
	return "", nil
}

func errNoCluster(c *resource.Clients, name string) error {
	return fmt.Errorf("EKS has no cluster %q in %s of account %s: correct the Cluster's name, region or account", name, c.Scope.Region, c.Scope.Account)
}

// withoutEntries replaces the error of a cluster without access entries by
// what to do about it. EKS reports that as text only, so the cluster is read.
func withoutEntries(ctx context.Context, c *resource.Clients, cluster string, err error) error {
	if awserr.Code(err) != "InvalidRequestException" {
		return err
	}
	out, describeErr := c.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(cluster)})
	if describeErr != nil || out.Cluster == nil || out.Cluster.AccessConfig == nil || out.Cluster.AccessConfig.AuthenticationMode != ekstypes.AuthenticationModeConfigMap {
		return err
	}
	return fmt.Errorf("the cluster lets nodes in by its aws-auth ConfigMap only (authenticationMode CONFIG_MAP); to use access entries: "+
		"`aws eks update-cluster-config --name %s --access-config authenticationMode=API_AND_CONFIG_MAP`", cluster)
}

// Write makes the entry. The type of an entry cannot be changed: one that
// Poolwright made is made anew, and whoever comes in by it is refused for a
// moment. Others are held.
func (AccessEntries) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	cluster, role, _ := strings.Cut(desired.Key.Name, "/")
	if live.Object != nil && live.Object["type"] == desired.Object["type"] {
		return tagEKS(ctx, c, desired, live)
	}
	if live.ReadOnly != "" || live.Missing != "" {
		return errors.New(live.ReadOnly + live.Missing)
	}
	principal, err := roleARN(ctx, c, role)
	if err != nil {
		return err
	}
	if principal != c.Scope.IAMARN("role/"+role) {
		return fmt.Errorf("role %s has a path, and Poolwright makes access entries only for roles without one: `%s`", principal, createEntryCommand(c, cluster, principal))
	}
	if live.Object != nil {
		if err := deleteEntry(ctx, c, cluster, principal); err != nil {
			return err
		}
	}
	kind, _ := desired.Object["type"].(string)
	_, err = c.EKS.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{
		ClusterName: sdk.String(cluster), PrincipalArn: sdk.String(principal), Type: sdk.String(kind), Tags: tag.Declared(desired),
	})
	if roleNotPropagated(err) || awserr.Exists(err) {
		return awserr.NotPropagated(err)
	}
	if awserr.IsNotFound(err) {
		return errNoCluster(c, cluster)
	}
	if err != nil {
		return withoutEntries(ctx, c, cluster, fmt.Errorf("creating the access entry of %s: %w", principal, err))
	}
	return nil
}

func deleteEntry(ctx context.Context, c *resource.Clients, cluster, principal string) error {
	_, err := c.EKS.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: sdk.String(cluster), PrincipalArn: sdk.String(principal)})
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("deleting the access entry of %s: %w", principal, err)
	}
	return nil
}

// Remove takes the entry away; the role may be gone already, so its ARN is the
// one without a path: only such roles are ours.
func (AccessEntries) Remove(ctx context.Context, c *resource.Clients, k state.Key, _ resource.Live) error {
	cluster, role, _ := strings.Cut(k.Name, "/")
	return deleteEntry(ctx, c, cluster, c.Scope.IAMARN("role/"+role))
}
