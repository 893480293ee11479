package kube

import (
	"fmt"
	"path/filepath"
)

// ports are those of one attempt. All are on 127.0.0.1.
type ports struct {
	etcd, etcdPeer, api, manager, scheduler int
}

func loopback(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }

// etcdFlags leaves out fsync: an environment that loses its power is thrown away. The
// short election is safe with one member, and saves a second at every start.
func etcdFlags(ids *identities, data string, p ports) []string {
	client, peer := loopback(p.etcd), loopback(p.etcdPeer)
	flags := []string{
		"--name=sandbox", "--data-dir=" + data, "--unsafe-no-fsync",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=sandbox=" + peer,
		"--heartbeat-interval=20", "--election-timeout=200", "--log-level=warn",
	}
	for _, side := range []string{"", "peer-"} {
		flags = append(flags,
			"--"+side+"client-cert-auth", "--"+side+"trusted-ca-file="+ids.path("etcd-ca.crt"),
			"--"+side+"cert-file="+ids.path("etcd.crt"), "--"+side+"key-file="+ids.path("etcd.key"))
	}
	return flags
}

// apiFlags sets what EKS sets and a user can observe: RBAC with the node authoriser,
// node restriction, service account tokens, privileged pods. The endpoints of the
// service "kubernetes" are left alone, because validation refuses loopback addresses
// there.
func apiFlags(ids *identities, p ports) []string {
	return []string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.api),
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=" + ServiceRange,
		"--tls-cert-file=" + ids.path("serving.crt"), "--tls-private-key-file=" + ids.path("serving.key"),
		"--client-ca-file=" + ids.path("cluster-ca.crt"),
		"--etcd-servers=" + loopback(p.etcd), "--etcd-cafile=" + ids.path("etcd-ca.crt"),
		"--etcd-certfile=" + ids.path("etcd-client.crt"), "--etcd-keyfile=" + ids.path("etcd-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + ids.path("tokens.crt"), "--service-account-signing-key-file=" + ids.path("tokens.key"),
		"--requestheader-client-ca-file=" + ids.path("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + ids.path("front-proxy.crt"), "--proxy-client-key-file=" + ids.path("front-proxy.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
		"--profiling=false",
	}
}

// managerFlags runs every controller that is on by default: what a Deployment,
// a Job or a drained node does here is what it does in EKS. The limits are
// EKS's order of magnitude; the defaults make a burst of pods wait for the
// client, not for the cluster.
func managerFlags(ids *identities, kubeconfig string, port int) []string {
	return append(clientFlags(ids, kubeconfig, port),
		"--use-service-account-credentials", "--root-ca-file="+ids.path("cluster-ca.crt"),
		"--service-account-private-key-file="+ids.path("tokens.key"),
		"--service-cluster-ip-range="+ServiceRange,
		"--kube-api-qps=100", "--kube-api-burst=200")
}

func schedulerFlags(ids *identities, kubeconfig string, port int) []string {
	return append(clientFlags(ids, kubeconfig, port), "--kube-api-qps=100", "--kube-api-burst=200")
}

// clientFlags are common to the two that watch the API server. There is one of
// each, so a leader election would only delay it.
func clientFlags(ids *identities, kubeconfig string, port int) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--leader-elect=false", "--profiling=false",
		"--tls-cert-file=" + ids.path("serving.crt"), "--tls-private-key-file=" + ids.path("serving.key"),
		"--client-ca-file=" + ids.path("cluster-ca.crt"), "--requestheader-client-ca-file=" + ids.path("front-proxy-ca.crt"),
	}
}

func logFile(dir, name string) string { return filepath.Join(dir, "logs", name+".log") }
