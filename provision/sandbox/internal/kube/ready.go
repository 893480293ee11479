package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// probeTimeout bounds one request, so that a hanging one is tried again.
const probeTimeout = 2 * time.Second

// etcdProbe requests with the API server's own certificate: it proves that the API
// server will get in.
func (c *ControlPlane) etcdProbe() (func(context.Context, string) error, error) {
	certificate, err := tls.LoadX509KeyPair(c.ids.path("etcd-client.crt"), c.ids.path("etcd-client.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the etcd client certificate: %w", err)
	}
	ca, err := os.ReadFile(c.ids.path("etcd-ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading the etcd authority: %w", err)
	}
	client := secureClient(ca, certificate)
	return func(ctx context.Context, url string) error { return get(ctx, client, url) }, nil
}

// readyProbe requests /readyz, which covers etcd, the informers and the start-up hooks
// that make default roles, priority classes and namespaces.
func readyProbe(config *rest.Config) (func(context.Context) error, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the API server: %w", err)
	}
	return func(ctx context.Context) error { return get(ctx, client, config.Host+"/readyz") }, nil
}

// healthProbe requests the health of a component that serves it without a login.
func (c *ControlPlane) healthProbe(port int) func(context.Context) error {
	client := secureClient(c.ids.cluster.pem)
	return func(ctx context.Context) error { return get(ctx, client, loopback(port)+"/healthz") }
}

func secureClient(ca []byte, certificates ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, // requested a few times at start-up, then never again
	}}
}

func get(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("requesting %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err // names method and URL already
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return fmt.Errorf("reading the response of %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("requesting %s: %s: %s", url, response.Status, body)
	}
	return nil
}

// waitUsable waits until pods can be created: admission refuses them before the
// controller manager has made the namespace's service account.
func waitUsable(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for the API server: %w", err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the service account of namespace default: %w; last response: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
