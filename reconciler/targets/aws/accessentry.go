package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/state"
)

// accessEntries are EKS access entries: the one of the node role, of the type
// that lets EC2 Linux nodes join.
type accessEntries struct{}

// nodeEntry is the type that lets EC2 Linux nodes join, and nothing else.
const nodeEntry = "EC2_LINUX"

func (accessEntries) want(s scope) []state.Item {
	node := s.spec.NodeRole
	if node == nil {
		return nil
	}
	return []state.Item{s.made(s.regional("eks", "AccessEntry", s.Cluster+"/"+node.Name), waveThird, node.Part, map[string]any{
		"principalArn": s.iamARN("role/" + node.Name), "type": nodeEntry,
	})}
}

func (accessEntries) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	return oneByOne(keys, func(k state.Key) (liveResource, error) {
		cluster, role, _ := strings.Cut(k.Name, "/")
		seen, err := readEntry(ctx, c, cluster, c.place.iamARN("role/"+role))
		if err != nil || seen.object != nil {
			return seen, err
		}
		// An adopted role may have a path, which only the list reports.
		principal, err := entryOf(ctx, c, cluster, role)
		if err != nil {
			return liveResource{}, err
		}
		if principal == "" {
			return unentered(ctx, c, cluster, role)
		}
		return readEntry(ctx, c, cluster, principal)
	})
}

// unentered is an entry that does not exist. Those of roles with a path are not
// made by Poolwright: its policy names the role, not its path.
func unentered(ctx context.Context, c *clients, cluster, role string) (liveResource, error) {
	principal, err := c.roleARN(ctx, role)
	if errors.Is(err, errNotYet) || denied(err) { // the role's own sighting reports it
		return liveResource{}, nil
	}
	if err != nil || principal == c.place.iamARN("role/"+role) {
		return liveResource{}, err
	}
	return liveResource{missing: fmt.Sprintf("role %s has a path, and Poolwright makes access entries only for roles without one: `%s`", principal, c.entering(cluster, principal))}, nil
}

// entering is the command that makes an entry.
func (c *clients) entering(cluster, principal string) string {
	return fmt.Sprintf("aws eks create-access-entry --cluster-name %s --principal-arn %s --type %s --region %s", cluster, principal, nodeEntry, c.place.Region)
}

func readEntry(ctx context.Context, c *clients, cluster, principal string) (liveResource, error) {
	out, err := c.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: sdk.String(cluster), PrincipalArn: sdk.String(principal)})
	if gone(err) {
		return liveResource{}, nil
	}
	if err != nil {
		return liveResource{}, withoutEntries(ctx, c, cluster, fmt.Errorf("reading the access entry of %s: %w", principal, err))
	}
	e := out.AccessEntry
	seen := liveResource{uid: sdk.ToString(e.AccessEntryArn), tags: e.Tags}
	if e.CreatedAt != nil {
		seen.uid += "#" + e.CreatedAt.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	seen.ours = c.place.owned(seen.tags)
	seen.object = map[string]any{
		"principalArn": c.place.iamARN("role/" + c.place.roleName(sdk.ToString(e.PrincipalArn))),
		"type":         sdk.ToString(e.Type), "tags": tagObject(seen.tags),
	}
	_, made := seen.tags[policyTag]
	plain := principal == c.place.iamARN("role/"+c.place.roleName(principal))
	if sdk.ToString(e.Type) != nodeEntry && !(seen.ours && made && plain) {
		seen.compareOnly = fmt.Sprintf("the type of an access entry cannot be changed, and Poolwright replaces only what it made itself: `aws eks delete-access-entry --cluster-name %s --principal-arn %s --region %s`, "+
			"then `%s`; in between nobody comes in by it", cluster, principal, c.place.Region, c.entering(cluster, principal))
	}
	return seen, nil
}

// entryOf finds the principal of an access entry by the role's name alone;
// empty when there is none.
func entryOf(ctx context.Context, c *clients, cluster, role string) (string, error) {
	pages := eks.NewListAccessEntriesPaginator(c.eks, &eks.ListAccessEntriesInput{ClusterName: sdk.String(cluster)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if gone(err) {
			return "", c.noCluster(cluster)
		}
		if err != nil {
			return "", withoutEntries(ctx, c, cluster, fmt.Errorf("listing the access entries of cluster %q: %w", cluster, err))
		}
		for _, arn := range page.AccessEntries {
			if strings.Contains(arn, ":role/") && c.place.roleName(arn) == role && arn != c.place.iamARN("role/"+role) {
				return arn, nil
			}
		}
	}
	return "", nil
}

func (c *clients) noCluster(name string) error {
	return fmt.Errorf("EKS has no cluster %q in %s of account %s: correct the Cluster's name, region or account", name, c.place.Region, c.place.Account)
}

// withoutEntries replaces the error of a cluster that knows no access entries by
// what to do about it. EKS says it as text only, so the cluster is asked.
func withoutEntries(ctx context.Context, c *clients, cluster string, err error) error {
	if codeOf(err) != "InvalidRequestException" {
		return err
	}
	out, asked := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(cluster)})
	if asked != nil || out.Cluster == nil || out.Cluster.AccessConfig == nil || out.Cluster.AccessConfig.AuthenticationMode != ekstypes.AuthenticationModeConfigMap {
		return err
	}
	return fmt.Errorf("the cluster lets nodes in by its aws-auth ConfigMap only (authenticationMode CONFIG_MAP); to use access entries: "+
		"`aws eks update-cluster-config --name %s --access-config authenticationMode=API_AND_CONFIG_MAP`", cluster)
}

// write makes the entry. The type of an entry cannot be changed: one that
// Poolwright made is made anew, and whoever comes in by it is refused for a
// moment. Others are held.
func (accessEntries) write(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	cluster, role, _ := strings.Cut(wanted.Key.Name, "/")
	if live.object != nil && live.object["type"] == wanted.Object["type"] {
		return c.tagEKS(ctx, wanted, live)
	}
	if live.compareOnly != "" || live.missing != "" {
		return errors.New(live.compareOnly + live.missing)
	}
	principal, err := c.roleARN(ctx, role)
	if err != nil {
		return err
	}
	if principal != c.place.iamARN("role/"+role) {
		return fmt.Errorf("role %s has a path, and Poolwright makes access entries only for roles without one: `%s`", principal, c.entering(cluster, principal))
	}
	if live.object != nil {
		if err := deleteEntry(ctx, c, cluster, principal); err != nil {
			return err
		}
	}
	kind, _ := wanted.Object["type"].(string)
	_, err = c.eks.CreateAccessEntry(ctx, &eks.CreateAccessEntryInput{
		ClusterName: sdk.String(cluster), PrincipalArn: sdk.String(principal), Type: sdk.String(kind), Tags: tagsOf(wanted),
	})
	if unheard(err) || exists(err) {
		return notYet(err)
	}
	if gone(err) {
		return c.noCluster(cluster)
	}
	if err != nil {
		return withoutEntries(ctx, c, cluster, fmt.Errorf("creating the access entry of %s: %w", principal, err))
	}
	return nil
}

func deleteEntry(ctx context.Context, c *clients, cluster, principal string) error {
	_, err := c.eks.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: sdk.String(cluster), PrincipalArn: sdk.String(principal)})
	if err != nil && !gone(err) {
		return fmt.Errorf("deleting the access entry of %s: %w", principal, err)
	}
	return nil
}

// remove takes the entry away; the role may be gone already, so its ARN is the
// one without a path: only such roles are ours.
func (accessEntries) remove(ctx context.Context, c *clients, k state.Key, _ liveResource) error {
	cluster, role, _ := strings.Cut(k.Name, "/")
	return deleteEntry(ctx, c, cluster, c.place.iamARN("role/"+role))
}
