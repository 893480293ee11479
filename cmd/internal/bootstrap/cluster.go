package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/provision/engine/preflight"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/state"
)

// declaredEKS is the one Cluster that a folder declares.
type declaredEKS struct {
	spec   v1alpha1.ClusterSpec
	origin state.Origin
}

// declaredCluster finds the folder's Cluster.
func declaredCluster(folder string, set state.Set) (declaredEKS, error) {
	var found []state.Item
	for _, item := range set.Items() {
		if item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "Cluster" {
			found = append(found, item)
		}
	}
	switch len(found) {
	case 0:
		return declaredEKS{}, fmt.Errorf("%s declares no Cluster, so its EKS cluster is not known: add one with spec.name, spec.region and spec.account", folder)
	case 1:
	default:
		var at []string
		for _, item := range found {
			at = append(at, item.Origin.String())
		}
		return declaredEKS{}, fmt.Errorf("%s declares %d Clusters, in %s: keep the one of this cluster", folder, len(found), strings.Join(at, " and "))
	}
	var c v1alpha1.Cluster
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, &c); err != nil {
		return declaredEKS{}, fmt.Errorf("reading the Cluster in %s: %w", found[0].Origin, err)
	}
	return declaredEKS{spec: c.Spec, origin: found[0].Origin}, nil
}

func (d declaredEKS) settings() engine.Settings { return cluster.EngineSettings(d.spec) }

// embedded reports whether the engine is to run here, which is the default.
func (d declaredEKS) embedded() bool {
	return d.spec.Engine.Mode == v1alpha1.EngineEmbedded || d.spec.Engine.Mode == ""
}

// checkAccount refuses a controllerRole for other pods than those that are
// about to be installed: they would start without credentials.
func (d declaredEKS) checkAccount(namespace string) error {
	role := d.spec.ControllerRole
	if role == nil {
		return nil
	}
	if at := cmp.Or(role.Namespace, installation.DefaultNamespace); at != namespace {
		return fmt.Errorf("%s: spec.controllerRole is for pods in namespace %s, and the controller would be installed in %s: set spec.controllerRole.namespace, or pass -n %s", d.origin, at, namespace, at)
	}
	if account := cmp.Or(role.ServiceAccount, installation.Deployment); account != installation.Deployment {
		return fmt.Errorf("%s: spec.controllerRole is for the service account %s, and the controller's is %s: leave spec.controllerRole.serviceAccount out", d.origin, account, installation.Deployment)
	}
	return nil
}

// roleARN is what the service account is annotated with for IRSA.
func (d declaredEKS) roleARN() string {
	role := d.spec.ControllerRole
	if role == nil || role.Identity != v1alpha1.IdentityIRSA {
		return ""
	}
	return fmt.Sprintf("arn:%s:iam::%s:role/%s", iampolicy.PartitionOf(d.spec.Region), d.spec.Account, cmp.Or(role.Name, iampolicy.NamesOf(d.spec.Name, d.spec.Region).Role))
}

// prove makes sure that the kubeconfig, the AWS credentials and the declaration are of
// one and the same cluster. The engine's other gates are no reason not to install;
// whatever would hold the engine is a warning.
func (d declaredEKS) prove(ctx context.Context, cfg *rest.Config, c client.Client, namespace string) (warnings []string, err error) {
	settings := d.settings()
	if err := settings.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", d.origin, err)
	}
	credentials, err := engine.LoadAWS(ctx, settings.Region)
	if err != nil {
		return nil, err
	}
	if err := preflight.Credentials(ctx, credentials); err != nil {
		return nil, err
	}
	closed, err := gate.Gates{
		Cluster: settings.Cluster, Region: settings.Region, Account: settings.Account,
		REST: cfg, Kube: c, AWS: credentials,
		OwnLease: types.NamespacedName{Namespace: namespace, Name: leaderelection.LeaseName},
	}.Check(ctx)
	if err != nil {
		return nil, err
	}
	var refused []error
	for _, refusal := range closed {
		switch {
		case refusal.Gate == gate.Identity || refusal.Gate == gate.Account:
			refused = append(refused, errors.New(refusal.Message+": "+refusal.Remedy))
		case d.embedded():
			warnings = append(warnings, fmt.Sprintf("the engine would be held: %s: %s", refusal.Message, refusal.Remedy))
		}
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("%s: this is not proven to be EKS cluster %s in %s of account %s, so nothing is installed: %w", d.origin, d.spec.Name, d.spec.Region, d.spec.Account, errors.Join(refused...))
	}
	// Where it cannot be found out, Karpenter's events report it.
	if missing, err := preflight.SpotServiceLinkedRoleMissing(ctx, credentials); err == nil && missing {
		warnings = append(warnings, fmt.Sprintf("account %s has no role %s, without which EC2 launches no spot instance for Karpenter; make it once with: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com", d.spec.Account, preflight.SpotServiceLinkedRole))
	}
	if d.spec.ControllerRole == nil {
		warnings = append(warnings, fmt.Sprintf("%s: the Cluster has no spec.controllerRole: give the service account %s/%s an IAM role yourself, or declare it and let bootstrap make it", d.origin, namespace, installation.Deployment))
	}
	return warnings, nil
}

// onlyHere refuses a second installation in another namespace: they would share
// the roles that are not in any.
func onlyHere(ctx context.Context, c client.Client, namespace string) error {
	other, err := installation.ConflictingNamespace(ctx, c, namespace)
	if err == nil && other != "" {
		err = fmt.Errorf("Poolwright is installed in namespace %s already: pass -n %s, or run poolwright uninstall -n %s first", other, other, other)
	}
	return err
}
