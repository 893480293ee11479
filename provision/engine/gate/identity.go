package gate

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const identityRemedy = "point the kubeconfig at the EKS cluster that spec.name, spec.region and spec.account name, or correct those fields"

// identity compares the API server behind our connection with the one behind the
// endpoint that EKS names, by the UID of kube-system: an address proves nothing,
// tunnels and private endpoints differ from it, and a restored cluster can have
// the same one.
func (g Gates) identity(ctx context.Context, cluster *ekstypes.Cluster, describeErr error) *ClosedGate {
	const check = "allow eks:DescribeCluster, and get on the namespace kube-system at the endpoint that EKS names; check that this endpoint can be reached from here"
	if describeErr != nil {
		return unproven(Identity, check, describeErr)
	}
	other, err := connectionTo(cluster, g.REST)
	if err != nil {
		return unproven(Identity, check, err)
	}
	ours, err := kubeSystem(ctx, g.REST)
	if err != nil {
		return unproven(Identity, check, fmt.Errorf("through our own connection to %s: %w", host(g.REST.Host), err))
	}
	theirs, err := kubeSystem(ctx, other)
	if err != nil {
		return unproven(Identity, check, fmt.Errorf("at the endpoint of EKS cluster %q, %s: %w", g.Cluster, host(other.Host), err))
	}
	if ours != theirs {
		return refuse(Identity, identityRemedy,
			"the API server at %s (kube-system is %s) is not that of EKS cluster %q in %s (%s)", host(g.REST.Host), ours, g.Cluster, g.Region, theirs)
	}
	return nil
}

// connectionTo is our connection with the address and the CA that EKS names; the
// credentials stay, so they are sent only to a server that this CA vouches for.
func connectionTo(cluster *ekstypes.Cluster, own *rest.Config) (*rest.Config, error) {
	endpoint, err := url.Parse(aws.ToString(cluster.Endpoint))
	if err != nil || endpoint.Scheme != "https" || endpoint.Host == "" {
		return nil, errors.New("EKS names no https endpoint for the cluster yet")
	}
	if cluster.CertificateAuthority == nil {
		return nil, errors.New("EKS names no CA for the cluster yet")
	}
	ca, err := base64.StdEncoding.DecodeString(aws.ToString(cluster.CertificateAuthority.Data))
	if err != nil || len(ca) == 0 {
		return nil, errors.New("the CA that EKS names for the cluster is not base64")
	}
	other := rest.CopyConfig(own)
	other.Host, other.APIPath = endpoint.String(), ""
	other.TLSClientConfig.Insecure = false
	other.TLSClientConfig.ServerName = ""
	other.TLSClientConfig.CAFile = ""
	other.TLSClientConfig.CAData = ca
	return other, nil
}

func kubeSystem(ctx context.Context, config *rest.Config) (types.UID, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("preparing a client: %w", err)
	}
	namespace, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading namespace kube-system: %w", err)
	}
	if namespace.UID == "" {
		return "", errors.New("reading namespace kube-system: it has no UID")
	}
	return namespace.UID, nil
}

// host is an address without what may be secret in it.
func host(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}
