package aws

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// podIdentities are EKS Pod Identity associations: the one that gives the
// controller's pods their role.
type podIdentities struct{}

// identityAgent is the add-on without which no pod gets credentials.
const identityAgent = "eks-pod-identity-agent"

func (podIdentities) want(s scope) []state.Item {
	own := s.spec.ControllerRole
	if own == nil || own.Identity == v1alpha1.IdentityIRSA {
		return nil
	}
	k := s.regional("eks", "PodIdentityAssociation", s.Cluster+"/"+own.Namespace+"/"+own.ServiceAccount)
	return []state.Item{s.own(s.made(k, waveThird, v1alpha1.Part{Adopt: own.Adopt}, map[string]any{
		"namespace": own.Namespace, "serviceAccount": own.ServiceAccount, "role": own.Name,
	}))}
}

// account takes the name of such a key apart.
func podAccount(k state.Key) (cluster, namespace, account string) {
	cluster, rest, _ := strings.Cut(k.Name, "/")
	namespace, account, _ = strings.Cut(rest, "/")
	return cluster, namespace, account
}

func (podIdentities) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	return oneByOne(keys, func(k state.Key) (liveResource, error) {
		seen, err := readAssociation(ctx, c, k)
		if err != nil {
			return liveResource{}, err
		}
		note, err := c.agentNote(ctx, k)
		if note != "" {
			seen.notes = []string{note}
		}
		return seen, err
	})
}

func readAssociation(ctx context.Context, c *clients, k state.Key) (liveResource, error) {
	cluster, namespace, account := podAccount(k)
	list, err := listAssociations(ctx, c, cluster, namespace, account)
	if gone(err) {
		return liveResource{}, c.noCluster(cluster)
	}
	if err != nil {
		return liveResource{}, fmt.Errorf("listing the pod identity associations of cluster %q: %w", cluster, err)
	}
	for _, short := range list { // a service account has one at most
		out, err := c.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{
			ClusterName: sdk.String(cluster), AssociationId: short.AssociationId,
		})
		if gone(err) {
			continue
		}
		if err != nil {
			return liveResource{}, fmt.Errorf("reading the pod identity association of %s/%s: %w", namespace, account, err)
		}
		a := out.Association
		seen := liveResource{uid: sdk.ToString(a.AssociationArn) + "#" + sdk.ToString(a.AssociationId), tags: a.Tags}
		seen.ours = c.place.owned(seen.tags)
		seen.object = map[string]any{
			"namespace": sdk.ToString(a.Namespace), "serviceAccount": sdk.ToString(a.ServiceAccount),
			"role": c.place.roleName(sdk.ToString(a.RoleArn)), "tags": tagObject(seen.tags),
		}
		return seen, nil
	}
	return liveResource{}, nil
}

func listAssociations(ctx context.Context, c *clients, cluster, namespace, account string) ([]ekstypes.PodIdentityAssociationSummary, error) {
	var out []ekstypes.PodIdentityAssociationSummary
	pages := eks.NewListPodIdentityAssociationsPaginator(c.eks, &eks.ListPodIdentityAssociationsInput{
		ClusterName: sdk.String(cluster), Namespace: sdk.String(namespace), ServiceAccount: sdk.String(account),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Associations...)
	}
	return out, nil
}

// agentNote reports that the add-on is missing. A cluster in Auto Mode has the
// agent built in.
func (c *clients) agentNote(ctx context.Context, k state.Key) (string, error) {
	cluster, _, _ := podAccount(k)
	_, err := c.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: sdk.String(cluster), AddonName: sdk.String(identityAgent)})
	switch {
	case err == nil:
		return "", nil
	case denied(err):
		return "whether the add-on " + identityAgent + " is installed is unknown: denied eks:DescribeAddon", nil
	case !gone(err):
		return "", fmt.Errorf("reading add-on %s of cluster %q: %w", identityAgent, cluster, err)
	}
	out, err := c.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(cluster)})
	if err == nil && out.Cluster != nil && out.Cluster.ComputeConfig != nil && sdk.ToBool(out.Cluster.ComputeConfig.Enabled) {
		return "", nil
	}
	return fmt.Sprintf("the add-on %s is not installed, and without its agent no pod gets the role: `aws eks create-addon --cluster-name %s --region %s --addon-name %s`",
		identityAgent, cluster, c.place.Region, identityAgent), nil
}

func (podIdentities) write(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	cluster, namespace, account := podAccount(wanted.Key)
	role, _ := wanted.Object["role"].(string)
	if live.object != nil && live.object["role"] == role {
		return c.tagEKS(ctx, wanted, live)
	}
	arn, err := c.roleARN(ctx, role)
	if err != nil {
		return err
	}
	if live.object != nil {
		if err := c.tagEKS(ctx, wanted, live); err != nil {
			return err
		}
		_, err = c.eks.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{
			ClusterName: sdk.String(cluster), AssociationId: sdk.String(associationID(live)), RoleArn: sdk.String(arn),
		})
	} else {
		_, err = c.eks.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{
			ClusterName: sdk.String(cluster), Namespace: sdk.String(namespace), ServiceAccount: sdk.String(account), RoleArn: sdk.String(arn), Tags: tagsOf(wanted),
		})
	}
	if unheard(err) || exists(err) {
		return notYet(err)
	}
	if err != nil {
		return fmt.Errorf("giving role %q to the pods of %s/%s: %w", role, namespace, account, err)
	}
	return nil
}

func associationID(live liveResource) string {
	_, id, _ := strings.Cut(live.uid, "#")
	return id
}

func (podIdentities) remove(ctx context.Context, c *clients, k state.Key, live liveResource) error {
	cluster, namespace, account := podAccount(k)
	_, err := c.eks.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{
		ClusterName: sdk.String(cluster), AssociationId: sdk.String(associationID(live)),
	})
	if err != nil && !gone(err) {
		return fmt.Errorf("taking the role from the pods of %s/%s: %w", namespace, account, err)
	}
	return nil
}
