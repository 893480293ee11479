package check

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/cmd/internal/connect"
)

// Connect returns the request of a cluster's checks, with the time and no explanation of errors.
// The cluster need not be reachable.
func Connect(cfg *rest.Config, timeout time.Duration) (Request, error) {
	// What discovers kinds has no context.
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = timeout
	kube, err := connect.DirectClient(cfg)
	if err != nil {
		return Request{}, err
	}
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return Request{}, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return Request{
		Kube: kube, Server: cfg.Host, Timeout: timeout, Now: time.Now, LeaseRecheck: 5 * time.Second,
		Explain: func(err error) error { return err },
		ServerVersion: func(ctx context.Context) (string, error) {
			raw, err := clients.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
			if err != nil {
				return "", fmt.Errorf("reading the API server's version: %w", err)
			}
			var out version.Info
			if err := json.Unmarshal(raw, &out); err != nil {
				return "", fmt.Errorf("reading the API server's version: %w", err)
			}
			return out.GitVersion, nil
		},
	}, nil
}
