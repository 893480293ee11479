package iam

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// PodIdentityAssociations are EKS Pod Identity associations: the one that gives the
// controller's pods their role.
type PodIdentityAssociations struct{}

// identityAgent is the add-on without which no pod gets credentials.
const identityAgent = "eks-pod-identity-agent"

// Desired implements resource.Kind.
func (PodIdentityAssociations) Desired(s resource.Declaration) []state.Item {
	own := s.Spec.ControllerRole
	if own == nil || own.Identity == v1alpha1.IdentityIRSA {
		return nil
	}
	k := s.Regional("eks", "PodIdentityAssociation", s.Cluster+"/"+own.Namespace+"/"+own.ServiceAccount)
	return []state.Item{byBootstrap(s, s.Owned(k, resource.WaveThird, v1alpha1.ManagementPolicy{Adopt: own.Adopt}, map[string]any{
		"namespace": own.Namespace, "serviceAccount": own.ServiceAccount, "role": own.Name,
	}))}
}

// account takes the name of such a key apart.
func podAccount(k state.Key) (cluster, namespace, account string) {
	cluster, rest, _ := strings.Cut(k.Name, "/")
	namespace, account, _ = strings.Cut(rest, "/")
	return cluster, namespace, account
}

// Read implements resource.Kind.
func (PodIdentityAssociations) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return resource.Each(keys, func(k state.Key) (resource.Live, error) {
		observed, err := readAssociation(ctx, c, k)
		if err != nil {
			return resource.Live{}, err
		}
		note, err := missingAgentNote(ctx, c, k)
		if note.Code != "" {
			observed.Notes = []finding.Finding{note}
		}
		return observed, err
	})
}

func readAssociation(ctx context.Context, c *resource.Clients, k state.Key) (resource.Live, error) {
	cluster, namespace, account := podAccount(k)
	list, err := listAssociations(ctx, c, cluster, namespace, account)
	if awserr.IsNotFound(err) {
		return resource.Live{}, errNoCluster(c, cluster)
	}
	if err != nil {
		return resource.Live{}, fmt.Errorf("listing the pod identity associations of cluster %q: %w", cluster, err)
	}
	for _, short := range list { // a service account has one at most
		out, err := c.EKS.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{
			ClusterName: sdk.String(cluster), AssociationId: short.AssociationId,
		})
		if awserr.IsNotFound(err) {
			continue
		}
		if err != nil {
			return resource.Live{}, fmt.Errorf("reading the pod identity association of %s/%s: %w", namespace, account, err)
		}
		a := out.Association
		observed := resource.Live{UID: sdk.ToString(a.AssociationArn) + "#" + sdk.ToString(a.AssociationId), Tags: a.Tags}
		observed.Ours = c.Scope.Owns(observed.Tags)
		observed.Object = map[string]any{
			"namespace": sdk.ToString(a.Namespace), "serviceAccount": sdk.ToString(a.ServiceAccount),
			"role": roleName(c.Scope, sdk.ToString(a.RoleArn)), "tags": tag.Object(observed.Tags),
		}
		return observed, nil
	}
	return resource.Live{}, nil
}

func listAssociations(ctx context.Context, c *resource.Clients, cluster, namespace, account string) ([]ekstypes.PodIdentityAssociationSummary, error) {
	var out []ekstypes.PodIdentityAssociationSummary
	pages := eks.NewListPodIdentityAssociationsPaginator(c.EKS, &eks.ListPodIdentityAssociationsInput{
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

// missingAgentNote reports that the add-on is missing. A cluster in Auto Mode has the
// agent built in.
func missingAgentNote(ctx context.Context, c *resource.Clients, k state.Key) (finding.Finding, error) {
	cluster, _, _ := podAccount(k)
	_, err := c.EKS.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: sdk.String(cluster), AddonName: sdk.String(identityAgent)})
	switch {
	case err == nil:
		return finding.Finding{}, nil
	case awserr.Denied(err):
		return finding.New(codePermissionMissing, "whether the add-on %s is installed is unknown: denied %s", finding.NewFact("addon", identityAgent), finding.NewFact("action", "eks:DescribeAddon")), nil
	case !awserr.IsNotFound(err):
		return finding.Finding{}, fmt.Errorf("reading add-on %s of cluster %q: %w", identityAgent, cluster, err)
	}
	out, err := c.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: sdk.String(cluster)})
	if err == nil && out.Cluster != nil && out.Cluster.ComputeConfig != nil && sdk.ToBool(out.Cluster.ComputeConfig.Enabled) {
		return finding.Finding{}, nil
	}
	return finding.New(codePodIdentityAgentMissing, "the add-on %s is not installed, and without its agent no pod gets the role: `aws eks create-addon --cluster-name %s --region %s --addon-name %s`",
		identityAgent, cluster, c.Scope.Region, identityAgent), nil
}

// Write implements resource.Kind.
func (PodIdentityAssociations) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	cluster, namespace, account := podAccount(desired.Key)
	role, _ := desired.Object["role"].(string)
	if live.Object != nil && live.Object["role"] == role {
		return tagEKS(ctx, c, desired, live)
	}
	arn, err := roleARN(ctx, c, role)
	if err != nil {
		return err
	}
	if live.Object != nil {
		if err := tagEKS(ctx, c, desired, live); err != nil {
			return err
		}
		_, err = c.EKS.UpdatePodIdentityAssociation(ctx, &eks.UpdatePodIdentityAssociationInput{
			ClusterName: sdk.String(cluster), AssociationId: sdk.String(associationID(live)), RoleArn: sdk.String(arn),
		})
	} else {
		_, err = c.EKS.CreatePodIdentityAssociation(ctx, &eks.CreatePodIdentityAssociationInput{
			ClusterName: sdk.String(cluster), Namespace: sdk.String(namespace), ServiceAccount: sdk.String(account), RoleArn: sdk.String(arn), Tags: tag.Declared(desired),
		})
	}
	if roleNotPropagated(err) || awserr.Exists(err) {
		return awserr.NotPropagated(err)
	}
	if err != nil {
		return fmt.Errorf("giving role %q to the pods of %s/%s: %w", role, namespace, account, err)
	}
	return nil
}

func associationID(live resource.Live) string {
	_, id, _ := strings.Cut(live.UID, "#")
	return id
}

// Remove implements resource.Kind.
func (PodIdentityAssociations) Remove(ctx context.Context, c *resource.Clients, k state.Key, live resource.Live) error {
	cluster, namespace, account := podAccount(k)
	_, err := c.EKS.DeletePodIdentityAssociation(ctx, &eks.DeletePodIdentityAssociationInput{
		ClusterName: sdk.String(cluster), AssociationId: sdk.String(associationID(live)),
	})
	if err != nil && !awserr.IsNotFound(err) {
		return fmt.Errorf("taking the role from the pods of %s/%s: %w", namespace, account, err)
	}
	return nil
}
