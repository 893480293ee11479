package stage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// environment is what was changed around a controller, and is to be undone.
type environment struct {
	mu   sync.Mutex
	undo []func(context.Context) error
}

// later has something undone at the end, in the reverse order.
func (e *environment) later(undo func(context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.undo = append(e.undo, undo)
}

func (e *environment) end(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for i := len(e.undo) - 1; i >= 0; i-- {
		errs = append(errs, e.undo[i](ctx))
	}
	e.undo = nil
	return errors.Join(errs...)
}

// CloseWatches ends all requests to the API server that are under way.
func (s *Stage) CloseWatches() {
	for _, r := range s.replicas() {
		r.api.Abort()
	}
}

// webhookTimeout is how long the API server waits for a webhook that hangs.
const webhookTimeout = 2

// HangWebhook makes an admission webhook for the declared objects that never responds, and
// removes it so long after its first request.
func (s *Stage) HangWebhook(ctx context.Context, after time.Duration) error {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return fmt.Errorf("making the webhook's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("making the webhook's certificate: %w", err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return fmt.Errorf("listening as a webhook: %w", err)
	}
	fail, scope, effects, timeout := admissionv1.Fail, admissionv1.NamespacedScope, admissionv1.SideEffectClassNone, int32(webhookTimeout)
	url := "https://" + listener.Addr().String()
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hangs-" + s.name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "hangs.poolwright.dev", ClientConfig: admissionv1.WebhookClientConfig{URL: &url, CABundle: certificate},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"*"}, Scope: &scope},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": s.Apps}},
			FailurePolicy:     &fail, SideEffects: &effects, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	remove := func(ctx context.Context) error {
		return client.IgnoreNotFound(s.config.Admin.Delete(ctx, hook.DeepCopy()))
	}
	var once sync.Once
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { time.AfterFunc(after, func() { s.ByHand(remove(context.WithoutCancel(ctx))) }) })
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client leaves
		<-r.Context().Done()
	})}
	go func() { _ = server.Serve(listener) }()
	s.controller.environment.later(func(ctx context.Context) error { return errors.Join(remove(ctx), server.Close()) })
	return s.config.Admin.Create(ctx, hook.DeepCopy())
}

// LimitDisk gives the mirrors a small volume of their own. It is errors.ErrUnsupported
// where this process may not mount one.
func (s *Stage) LimitDisk() error {
	if err := os.MkdirAll(s.CacheDir(), 0o700); err != nil {
		return err
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "poolwright-prove", s.CacheDir()).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: mounting a small volume: %w: %s", errors.ErrUnsupported, err, out)
	}
	s.controller.environment.later(func(context.Context) error {
		if out, err := exec.Command("umount", "--lazy", s.CacheDir()).CombinedOutput(); err != nil {
			return fmt.Errorf("unmounting %s: %w: %s", s.CacheDir(), err, out)
		}
		return nil
	})
	return nil
}

// FillDisk leaves no space to the mirrors for a while.
func (s *Stage) FillDisk(during time.Duration) error {
	path := filepath.Join(s.CacheDir(), "filler")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(err, file.Close())
	}
	time.AfterFunc(during, func() { s.ByHand(os.Remove(path)) })
	return file.Close()
}
