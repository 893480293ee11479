// Package hangingwebhook is an admission webhook that never responds, which a cluster has when what serves one
// hangs.
//
// It refuses to respond, and leaves nothing behind once it has been stopped. Start reading at Start.
package hangingwebhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// webhookTimeout is how long the API server waits for a webhook that hangs.
const webhookTimeout = 2

// Config is where a webhook hangs, and for how long.
type Config struct {
	// Name is that of the ValidatingWebhookConfiguration.
	Name string
	// Namespace is that of the objects that it is requested for.
	Namespace string
	// RemoveAfter is how long after its first request the configuration is deleted.
	RemoveAfter time.Duration
	// Removed is called with the error of that deletion, if any.
	Removed func(error)
}

// Start makes a webhook for the objects of a namespace that never responds. The function that it returns
// deletes its configuration and ends its server; there is none where it could not listen.
func Start(ctx context.Context, admin client.Client, config Config) (stop func(context.Context) error, err error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("making the webhook's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("making the webhook's certificate: %w", err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, fmt.Errorf("listening as a webhook: %w", err)
	}
	fail, scope, effects, timeout := admissionregistrationv1.Fail, admissionregistrationv1.NamespacedScope, admissionregistrationv1.SideEffectClassNone, int32(webhookTimeout)
	url := "https://" + listener.Addr().String()
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: config.Name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hangs.poolwright.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: certificate},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"*"}, Scope: &scope},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": config.Namespace}},
			FailurePolicy:     &fail, SideEffects: &effects, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	remove := func(ctx context.Context) error {
		return client.IgnoreNotFound(admin.Delete(ctx, hook.DeepCopy()))
	}
	var once sync.Once
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			time.AfterFunc(config.RemoveAfter, func() { config.Removed(remove(context.WithoutCancel(ctx))) })
		})
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not detect that the client leaves
		<-r.Context().Done()
	})}
	go func() { _ = server.Serve(listener) }()
	stop = func(ctx context.Context) error { return errors.Join(remove(ctx), server.Close()) }
	return stop, admin.Create(ctx, hook.DeepCopy())
}
