package probe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/preflight"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
)

// deciding is the Cluster that decides; the zero value where there is none.
func (p *prober) deciding(ctx context.Context) (v1alpha1.Cluster, error) {
	all, err := cluster.Clusters(ctx, p.kube)
	if err != nil || len(all) == 0 {
		return v1alpha1.Cluster{}, err
	}
	return all[0], nil
}

// identity checks who the AWS credentials of this machine are of, and that it is the Cluster's account.
func (p *prober) identity(ctx context.Context) []check.Result {
	declared, err := p.deciding(ctx)
	if err != nil {
		return []check.Result{unread(err)}
	}
	cfg, err := engine.LoadAWS(ctx, declared.Spec.Region)
	if err == nil {
		err = preflight.Credentials(ctx, cfg)
	}
	if err != nil {
		return []check.Result{{Status: check.Skipped, Message: err.Error()}}
	}
	caller, err := preflight.ReadCaller(ctx, cfg)
	switch {
	case err != nil:
		return []check.Result{{Status: check.Failed, Message: err.Error(), Remedy: "log in again, or choose another AWS_PROFILE"}}
	case declared.Spec.Account != "" && caller.Account != declared.Spec.Account:
		return []check.Result{{Status: check.Warning, Message: fmt.Sprintf("the AWS credentials here are of account %s, and Cluster %s is in account %s", caller.Account, declared.Name, declared.Spec.Account),
			Remedy: "choose the account's AWS_PROFILE: what is read of another account is not the controller's"}}
	}
	return []check.Result{{Status: check.OK, Message: fmt.Sprintf("the AWS credentials here are those of %s, in account %s", caller.ARN, caller.Account)}}
}

// spotRole checks that the account has the role by which EC2 launches spot instances.
func (p *prober) spotRole(ctx context.Context) []check.Result {
	cfg, err := engine.LoadAWS(ctx, "")
	if err == nil {
		err = preflight.Credentials(ctx, cfg)
	}
	if err != nil {
		return []check.Result{{Status: check.Skipped, Message: err.Error()}}
	}
	cfg.Region = cmp.Or(cfg.Region, "us-east-1") // IAM is global.
	missing, err := preflight.SpotServiceLinkedRoleMissing(ctx, cfg)
	switch {
	case err != nil:
		return []check.Result{{Status: check.Skipped, Message: err.Error()}}
	case missing:
		return []check.Result{{Status: check.Warning, Message: "the account has no role " + preflight.SpotServiceLinkedRole + ", without which EC2 launches no spot instance for Karpenter",
			Remedy: "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"}}
	}
	return []check.Result{{Status: check.OK, Message: "the account has the role " + preflight.SpotServiceLinkedRole}}
}

// permissions has IAM simulate what the engine reads and receives, for the controller's role. What it launches depends on
// tags; for that the check node-classes has EC2's own dry runs.
func (p *prober) permissions(ctx context.Context) []check.Result {
	declared, err := p.deciding(ctx)
	if err != nil {
		return []check.Result{unread(err)}
	}
	if declared.Name == "" || declared.Spec.Engine.Mode != v1alpha1.EngineEmbedded {
		return []check.Result{{Status: check.Skipped, Message: "no Cluster has an embedded engine, so that it needs no permissions"}}
	}
	skipped := func(message, remedy string) []check.Result {
		return []check.Result{{Object: "Cluster " + declared.Name, Status: check.Skipped, Message: message, Remedy: remedy}}
	}
	cfg, err := engine.LoadAWS(ctx, declared.Spec.Region)
	if err == nil {
		err = preflight.Credentials(ctx, cfg)
	}
	if err != nil {
		return skipped(err.Error(), "")
	}
	// The account of a role that is not the Cluster's is denied by IAM itself.
	role, err := p.roleAnnotation(ctx)
	if err == nil && role == "" {
		role, err = preflight.PodIdentityRole(ctx, cfg, declared.Spec.Name, p.namespace, installation.Deployment)
	}
	if err != nil {
		return skipped(err.Error(), "")
	}
	if role == "" {
		return []check.Result{{Object: "Cluster " + declared.Name, Status: check.Failed, Message: "the controller's service account has no role: neither the annotation " + installation.RoleAnnotation + " nor an EKS Pod Identity association",
			Remedy: "give it one (docs/howto/bootstrap.md), or run poolwright bootstrap, which does"}}
	}
	needed, err := enginePermissions(declared.Spec)
	if err != nil {
		return skipped(err.Error(), "")
	}
	denied, n, err := preflight.DeniedActions(ctx, cfg, role, needed)
	switch {
	case err != nil:
		return skipped(err.Error(), "it requires iam:SimulatePrincipalPolicy on the role; what the controller was denied is in the checks aws, engine and node-classes")
	case len(denied) > 0:
		return []check.Result{{Object: "Cluster " + declared.Name, Status: check.Failed, Message: fmt.Sprintf("role %s may not: %s", role, strings.Join(denied, ", ")),
			Remedy: "attach the policy config/iam/engine.json to it, or run poolwright bootstrap, which does (config/iam/README.md)"}}
	}
	return []check.Result{{Object: "Cluster " + declared.Name, Status: check.OK, Message: fmt.Sprintf("role %s may do %s without a condition that the engine needs, by IAM's simulation", role, plural.Count(n, "action"))}}
}

// roleAnnotation is the role that the controller's service account has by IRSA; empty where it has none.
func (p *prober) roleAnnotation(ctx context.Context) (string, error) {
	var account corev1.ServiceAccount
	err := p.kube.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: installation.Deployment}, &account)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading ServiceAccount %s: %w", installation.Deployment, err)
	}
	return account.Annotations[installation.RoleAnnotation], nil
}

// enginePermissions are those of the engine's policy that IAM can simulate, for a Cluster.
func enginePermissions(spec v1alpha1.ClusterSpec) ([]preflight.Permission, error) {
	queue := cluster.EngineSettings(spec).InterruptionQueue
	values := iampolicy.Values{
		Partition: iampolicy.PartitionOf(spec.Region), Region: spec.Region, Account: spec.Account, Cluster: spec.Name, Queue: cmp.Or(queue, spec.Name),
		// Only statements that depend on tags, which are not simulated, have it.
		NodeRole: "node",
	}
	document, err := iampolicy.Engine(values)
	if err != nil {
		return nil, err
	}
	permissions, err := preflight.Permissions(document)
	if queue == "" {
		permissions = slices.DeleteFunc(permissions, func(r preflight.Permission) bool {
			return slices.ContainsFunc(r.Actions, func(action string) bool { return strings.HasPrefix(action, "sqs:") })
		})
	}
	return permissions, err
}
