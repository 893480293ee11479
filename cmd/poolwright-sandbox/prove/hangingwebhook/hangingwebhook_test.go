package hangingwebhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func configurations(t *testing.T, kube client.Client) []admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	var list admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := kube.List(context.Background(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// request sends one to the webhook as the API server does, and returns once ctx has ended.
func request(ctx context.Context, t *testing.T, hook admissionregistrationv1.ValidatingWebhook) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(hook.ClientConfig.CABundle)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, *hook.ClientConfig.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(req)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

func TestAWebhookHangsUntilItIsRemoved(t *testing.T) {
	kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	removed := make(chan error, 1)
	stop, err := Start(context.Background(), kube, Config{Name: "hangs", Namespace: "apps", Removed: func(err error) { removed <- err }})
	if err != nil {
		t.Fatal(err)
	}
	made := configurations(t, kube)
	if len(made) != 1 || made[0].Name != "hangs" || made[0].Webhooks[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "apps" {
		t.Fatalf("the configurations are %+v", made)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- request(ctx, t, made[0].Webhooks[0]) }()
	// The first request has it removed; the request itself goes on.
	if err := <-removed; err != nil {
		t.Errorf("removing it: %v", err)
	}
	if left := configurations(t, kube); len(left) != 0 {
		t.Errorf("the configurations are %+v", left)
	}
	select {
	case err := <-done:
		t.Errorf("the webhook has responded, or closed the connection: %v", err)
	default:
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v", err)
	}
	if err := stop(context.Background()); err != nil {
		t.Errorf("stopping what is removed already: %v", err)
	}
	if err := request(context.Background(), t, made[0].Webhooks[0]); err == nil {
		t.Error("the server listens after it was stopped")
	}
}

func TestStoppingRemovesAWebhookThatWasNeverRequested(t *testing.T) {
	kube := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	stop, err := Start(context.Background(), kube, Config{Name: "hangs", Namespace: "apps", Removed: func(error) { t.Error("it was removed without a request") }})
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if left := configurations(t, kube); len(left) != 0 {
		t.Errorf("the configurations are %+v", left)
	}
}
