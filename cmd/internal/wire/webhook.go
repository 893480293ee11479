package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge/webhook"
)

// Bounds of what anybody who reaches the server can take from the process.
const (
	hookConnections = 128
	// hooksAtOnce are read, of up to 1 MiB each, while others wait for their turn.
	hooksAtOnce = 64
	hookHeaders = 16 << 10
	// hookPatience is how long a sender may take for its headers, and by half for
	// its body; and how long one waits for its turn, which is as long as all the
	// other connections can make it wait by being slow.
	hookPatience = 5 * time.Second
	// hookLookup bounds the look for a Sync and its Secret.
	hookLookup = 5 * time.Second
)

// hooks is a server that takes the webhooks of forges at /hook/<Sync>. It runs on
// every replica, because a Service sends them to any: what it does with one is
// to write on the Sync that there is something to look at, which the leader sees.
// A request that is not signed costs no request to the API server but for one
// read of the Sync's Secret now and then.
type hooks struct {
	address   string
	namespace string
	// syncs is a cache.
	syncs   client.Reader
	signers *signers
	waker   *waker
	log     logr.Logger
	results *prometheus.CounterVec
	// connections and slots have room for what is open and read at once.
	connections chan struct{}
	slots       chan struct{}
	patience    time.Duration
}

// addHooks puts the webhook server on the manager, if it has an address.
func (a *attempt) addHooks(mgr manager.Manager) error {
	if a.cfg.WebhookAddress == "" || a.cfg.WebhookAddress == "0" {
		return nil
	}
	h := newHooks(a.cfg, mgr.GetClient(), a.direct, clock.RealClock{})
	if err := crmetrics.Registry.Register(h.results); err != nil {
		return fmt.Errorf("registering the webhooks' metric: %w", err)
	}
	if err := mgr.Add(h); err != nil {
		return fmt.Errorf("registering the webhook server: %w", err)
	}
	return nil
}

// newHooks writes with a client that no fence stops: a standby writes, too.
func newHooks(cfg Config, syncs client.Reader, direct client.Client, now clock.Clock) *hooks {
	logger := cfg.Logger.WithName("webhook")
	return &hooks{
		address: cfg.WebhookAddress, namespace: cfg.Namespace, syncs: syncs, log: logger,
		signers: &signers{reader: direct, namespace: cfg.Namespace, clock: now},
		waker:   &waker{writer: direct, namespace: cfg.Namespace, clock: now, log: logger},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "poolwright_webhooks_total",
			Help: "Requests to the webhook server, by what became of them.",
		}, []string{"result"}),
		connections: make(chan struct{}, hookConnections), slots: make(chan struct{}, hooksAtOnce), patience: hookPatience,
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*hooks) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (h *hooks) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.address)
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w; give another --webhook-addr, or 0 for none", err)
	}
	return h.serve(ctx, listener)
}

// serve takes webhooks until ctx ends, then those that are being read, and
// returns when all that was told is written.
func (h *hooks) serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/hook/{sync}", func(w http.ResponseWriter, r *http.Request) { h.handle(ctx, w, r) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h.reply(w, verdict{http.StatusNotFound, "unknown", "webhooks are taken at /hook/<name of the Sync>"})
	})
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: h.patience,
		ReadTimeout:       3 * h.patience,
		WriteTimeout:      4 * h.patience,
		IdleTimeout:       4 * h.patience,
		MaxHeaderBytes:    hookHeaders,
		ErrorLog:          log.New(lines{h.log}, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(&narrow{Listener: listener, free: h.connections}) }()
	h.log.Info("Taking webhooks", "address", listener.Addr().String())
	var err error
	select {
	case err = <-ended:
		err = fmt.Errorf("serving webhooks: %w", err)
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(stop) != nil {
			err = server.Close() // somebody is slow; a forge tells the other replica
		}
	}
	h.waker.wait()
	return err
}

// verdict is what becomes of a request.
type verdict struct {
	code int
	// result is the metric's label, said what the sender reads.
	result, said string
}

func (h *hooks) reply(w http.ResponseWriter, v verdict) {
	h.results.WithLabelValues(v.result).Inc()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch v.code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(v.code)
	_, _ = io.WriteString(w, v.said+"\n") // whoever does not wait for the answer misses it
}

func (h *hooks) handle(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	wait, cancel := context.WithTimeout(r.Context(), h.patience)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
		late := time.Now().Add(h.patience / 2)
		if err := http.NewResponseController(w).SetReadDeadline(late); err != nil {
			h.log.Error(err, "Limiting the time of a webhook")
		}
		h.reply(w, h.judge(ctx, r))
	case <-wait.Done():
		h.reply(w, verdict{http.StatusTooManyRequests, "busy", "too many webhooks at once"})
	}
}

// judge says what becomes of a request, and wakes the Sync that it is for. That
// there is no such Sync, that it has no pull requests, and that its Secret signs
// no webhooks is all one to a stranger.
func (h *hooks) judge(ctx context.Context, r *http.Request) verdict {
	if r.Method != http.MethodPost {
		return verdict{http.StatusMethodNotAllowed, "refused", "only POST is taken"}
	}
	sync, keys, missing := h.meant(r)
	if missing != nil {
		return *missing
	}
	event, err := webhook.Read(r, keys...)
	var refusal *webhook.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == http.StatusUnauthorized:
		return verdict{refusal.Code, "unsigned", refusal.Reason}
	case errors.As(err, &refusal):
		return verdict{refusal.Code, "refused", refusal.Reason}
	case err != nil:
		return verdict{http.StatusBadRequest, "refused", "it cannot be read"}
	case event.Ignored:
		return verdict{http.StatusOK, "ignored", "there is nothing to do for such an event"}
	}
	at, err := repositoryOf(sync)
	if err != nil || !strings.EqualFold(at.name, event.Repository) {
		return verdict{http.StatusOK, "ignored", "this Sync is for another repository"}
	}
	h.waker.wake(ctx, sync.Name, event.Branch != "" && event.Branch == followed(sync))
	return verdict{http.StatusAccepted, "accepted", "accepted"}
}

// meant is the Sync that a request is for, with what may sign it; or why there is none.
func (h *hooks) meant(r *http.Request) (*v1alpha1.Sync, [][]byte, *verdict) {
	unknown := &verdict{http.StatusNotFound, "unknown", "no Sync of this name takes webhooks: it needs spec.pullRequests, and the key " +
		keyWebhook + " in the Secret that it names"}
	failed := &verdict{http.StatusServiceUnavailable, "failed", "the API server does not answer"}
	lookup, cancel := context.WithTimeout(r.Context(), hookLookup)
	defer cancel()
	sync := &v1alpha1.Sync{}
	switch err := h.syncs.Get(lookup, client.ObjectKey{Namespace: h.namespace, Name: r.PathValue("sync")}, sync); {
	case apierrors.IsNotFound(err) || err == nil && sync.Spec.PullRequests == nil:
		return nil, nil, unknown
	case err != nil:
		h.log.Error(err, "Looking for the Sync of a webhook")
		return nil, nil, failed
	}
	keys, err := h.signers.of(lookup, sync.Spec.PullRequests.SecretRef.Name)
	switch {
	case err != nil:
		return nil, nil, failed
	case len(keys) == 0:
		return nil, nil, unknown
	}
	return sync, keys, nil
}

// followed is the branch that a Sync follows; empty for a tag or a commit.
func followed(sync *v1alpha1.Sync) string {
	if ref := sync.Spec.Source.Git.Ref; ref != (v1alpha1.GitRef{}) {
		return ref.Branch
	}
	return "main"
}

// narrow is a listener of which no more connections than free has room for are
// open at once; others wait to be accepted.
type narrow struct {
	net.Listener
	free chan struct{}
}

// Accept implements net.Listener.
func (n *narrow) Accept() (net.Conn, error) {
	n.free <- struct{}{}
	conn, err := n.Listener.Accept()
	if err != nil {
		<-n.free
		return nil, err
	}
	return &counted{Conn: conn, close: sync.OnceFunc(func() { <-n.free })}, nil
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn
	close func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.close()
	return c.Conn.Close()
}

// lines logs what net/http has to say, which holds nothing of a request's body.
type lines struct{ log logr.Logger }

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	l.log.Info("The webhook server says", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
