package kube

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ServiceRange is where services get their addresses from: EKS's choice for a
// VPC in 10.0.0.0/8, as the sandbox's is.
const ServiceRange = "172.20.0.0/16"

// serviceAddress is the API server's inside the cluster: the range's first.
const serviceAddress = "172.20.0.1"

// identities is the key material of one environment, drawn anew at every start.
type identities struct {
	dir     string
	cluster *authority
	admin   pair
	manager pair
	sched   pair
}

// newIdentities makes all keys and writes those that a process reads.
func newIdentities(dir string, now time.Time) (*identities, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for keys: %w", err)
	}
	ids := &identities{dir: dir}
	steps := []func(time.Time) error{ids.issueCluster, ids.issueFrontProxy, ids.issueEtcd}
	for _, step := range steps {
		if err := step(now); err != nil {
			return nil, err
		}
	}
	tokens, err := signer()
	if err != nil {
		return nil, err
	}
	return ids, tokens.write(dir, "tokens")
}

func (ids *identities) issueCluster(now time.Time) error {
	var err error
	if ids.cluster, err = newAuthority("kubernetes", now); err != nil {
		return err
	}
	if err := writePrivate(ids.path("cluster-ca.crt"), ids.cluster.pem); err != nil {
		return err
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	serving, err := ids.cluster.server("kube-apiserver", now, names, net.ParseIP(serviceAddress))
	if err != nil {
		return err
	}
	if err := serving.write(ids.dir, "serving"); err != nil {
		return err
	}
	if ids.admin, err = ids.cluster.client("kubernetes-admin", now, "system:masters"); err != nil {
		return err
	}
	if ids.manager, err = ids.cluster.client("system:kube-controller-manager", now); err != nil {
		return err
	}
	ids.sched, err = ids.cluster.client("system:kube-scheduler", now)
	return err
}

// issueFrontProxy lets the API server act for its users on aggregated servers, and
// configures whom scheduler and controller manager trust.
func (ids *identities) issueFrontProxy(now time.Time) error {
	proxy, err := newAuthority("front-proxy", now)
	if err != nil {
		return err
	}
	if err := writePrivate(ids.path("front-proxy-ca.crt"), proxy.pem); err != nil {
		return err
	}
	client, err := proxy.client("front-proxy-client", now)
	if err != nil {
		return err
	}
	return client.write(ids.dir, "front-proxy")
}

// issueEtcd closes etcd to every other user of the machine: loopback alone
// keeps nobody out who is logged in.
func (ids *identities) issueEtcd(now time.Time) error {
	etcd, err := newAuthority("etcd", now)
	if err != nil {
		return err
	}
	if err := writePrivate(ids.path("etcd-ca.crt"), etcd.pem); err != nil {
		return err
	}
	server, err := etcd.server("etcd", now, nil)
	if err != nil {
		return err
	}
	if err := server.write(ids.dir, "etcd"); err != nil {
		return err
	}
	client, err := etcd.client("kube-apiserver", now)
	if err != nil {
		return err
	}
	return client.write(ids.dir, "etcd-client")
}

func (ids *identities) path(name string) string { return filepath.Join(ids.dir, name) }

// kubeconfig writes a file with one context for user at endpoint, mode 0600.
func (ids *identities) kubeconfig(path, user, endpoint string, credentials pair) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: endpoint, CertificateAuthorityData: ids.cluster.pem}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: credentials.cert, ClientKeyData: credentials.key,
	}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: user}
	config.CurrentContext = contextName
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig of %s: %w", user, err)
	}
	return writePrivate(path, content)
}

// contextName stands in prompts and in `kubectl config current-context`: it must be
// evident at once that this is no real cluster.
const contextName = "poolwright-sandbox"
