// Package receiver is the server that takes the webhooks of forges at
// /hook/<name of a Sync>, and annotates the Sync that each is for, so that the leader
// reconciles it at once instead of at the next poll.
//
// It refuses to act on what a webhook holds: a push or a pull request only has its Sync read Git
// or its pull requests anew, as at its interval. What is not signed with a key of
// the Sync's Secret makes no write. Start reading at Server.Start.
package receiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forgeclient"
	"github.com/poolwright/poolwright/reconciler/report/forge/webhook"
)

// Bounds of what anybody who reaches the server can take from the process.
const (
	maxConnections = 128
	// maxInFlight requests are read, of up to 1 MiB each, while others wait for their turn.
	maxInFlight    = 64
	maxHeaderBytes = 16 << 10
	// defaultTimeout is how long a sender may take for its headers, and by half for
	// its body; and how long one waits for its turn, which is as long as all the
	// other connections can make it wait by being slow.
	defaultTimeout = 5 * time.Second
	// lookupTimeout bounds the reads of a Sync and its Secret.
	lookupTimeout = 5 * time.Second
)

// Config is what a Server needs.
type Config struct {
	// Address is where to listen, as host:port.
	Address string
	// Namespace holds the Syncs and their Secrets.
	Namespace string
	// Syncs reads Syncs from a cache. Direct reads Secrets and writes annotations without
	// one; a standby writes, too, so no lease stops it.
	Syncs  client.Reader
	Direct client.Client
	Clock  clock.Clock
	Log    logr.Logger
}

// Server takes webhooks. It runs on every replica, because a Service sends them to any:
// what it does with one is to annotate the Sync, which the leader watches. A request that
// is not signed costs no request to the API server but for one read of the Sync's Secret
// now and then.
type Server struct {
	address   string
	namespace string
	// syncs is a cache.
	syncs     client.Reader
	keys      *keyCache
	annotator *annotator
	log       logr.Logger
	results   *prometheus.CounterVec
	// connections is how many may be open at once; inFlight has room for the requests that
	// are read at once.
	connections int
	inFlight    chan struct{}
	timeout     time.Duration
}

// New makes a server that is not started.
func New(c Config) *Server {
	return &Server{
		address: c.Address, namespace: c.Namespace, syncs: c.Syncs, log: c.Log,
		keys:      &keyCache{reader: c.Direct, namespace: c.Namespace, clock: c.Clock},
		annotator: &annotator{writer: c.Direct, namespace: c.Namespace, clock: c.Clock, log: c.Log},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "poolwright_webhooks_total",
			Help: "Requests to the webhook server, by what became of them.",
		}, []string{"result"}),
		connections: maxConnections, inFlight: make(chan struct{}, maxInFlight), timeout: defaultTimeout,
	}
}

// Metrics are the server's own.
func (s *Server) Metrics() prometheus.Collector { return s.results }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w; give another --receiver-addr, or 0 for none", err)
	}
	return s.serve(ctx, listener)
}

// serve takes webhooks until ctx ends, then those that are being read, and
// returns when all annotations are written.
func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/hook/{sync}", func(w http.ResponseWriter, r *http.Request) { s.handle(ctx, w, r) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.reply(w, response{http.StatusNotFound, "unknown", "webhooks are taken at /hook/<name of the Sync>"})
	})
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: s.timeout,
		ReadTimeout:       3 * s.timeout,
		WriteTimeout:      4 * s.timeout,
		IdleTimeout:       4 * s.timeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(errorLog{s.log}, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(netutil.LimitListener(listener, s.connections)) }()
	s.log.Info("Taking webhooks", "address", listener.Addr().String())
	var err error
	select {
	case err = <-ended:
		err = fmt.Errorf("serving webhooks: %w", err)
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(stop) != nil {
			err = server.Close() // a sender is slow: the provider sends it again, to another replica
		}
	}
	s.annotator.wait()
	return err
}

// response is what a sender gets for a request.
type response struct {
	code int
	// result is the metric's label, text what the sender reads.
	result, text string
}

func (s *Server) reply(w http.ResponseWriter, v response) {
	s.results.WithLabelValues(v.result).Inc()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch v.code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(v.code)
	_, _ = io.WriteString(w, v.text+"\n") // a sender that does not wait for the response misses it
}

func (s *Server) handle(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	wait, cancel := context.WithTimeout(r.Context(), s.timeout)
	defer cancel()
	select {
	case s.inFlight <- struct{}{}:
		defer func() { <-s.inFlight }()
		late := time.Now().Add(s.timeout / 2)
		if err := http.NewResponseController(w).SetReadDeadline(late); err != nil {
			s.log.Error(err, "Limiting the time of a webhook")
		}
		s.reply(w, s.process(ctx, r))
	case <-wait.Done():
		s.reply(w, response{http.StatusTooManyRequests, "busy", "too many webhooks at once"})
	}
}

// process finds out what a request is for, and annotates its Sync. A sender without a key
// gets the same response whether there is no such Sync, it has no pull requests or its
// Secret has no key.
func (s *Server) process(ctx context.Context, r *http.Request) response {
	if r.Method != http.MethodPost {
		return response{http.StatusMethodNotAllowed, "refused", "only POST is taken"}
	}
	sync, keys, missing := s.syncOf(r)
	if missing != nil {
		return *missing
	}
	event, err := webhook.Read(r, keys...)
	var refusal *webhook.RequestError
	switch {
	case errors.As(err, &refusal) && refusal.Code == http.StatusUnauthorized:
		return response{refusal.Code, "unsigned", refusal.Reason}
	case errors.As(err, &refusal):
		return response{refusal.Code, "refused", refusal.Reason}
	case err != nil:
		return response{http.StatusBadRequest, "refused", "it cannot be read"}
	case event.Ignored:
		return response{http.StatusOK, "ignored", "there is nothing to do for such an event"}
	}
	at, err := forgeclient.RepositoryOf(sync)
	if err != nil || !strings.EqualFold(at.Name, event.Repository) {
		return response{http.StatusOK, "ignored", "this Sync is for another repository"}
	}
	s.annotator.annotate(ctx, sync.Name, event.Branch != "" && event.Branch == sync.Spec.Source.Git.Ref.FollowedBranch())
	return response{http.StatusAccepted, "accepted", "accepted"}
}

// syncOf is the Sync that a request is for, with the keys that may sign it; or why there is none.
func (s *Server) syncOf(r *http.Request) (*v1alpha1.Sync, [][]byte, *response) {
	unknown := &response{http.StatusNotFound, "unknown", "no Sync of this name takes webhooks: it needs spec.pullRequests, and the key " +
		keyWebhook + " in the Secret that it names"}
	failed := &response{http.StatusServiceUnavailable, "failed", "the API server does not respond"}
	lookup, cancel := context.WithTimeout(r.Context(), lookupTimeout)
	defer cancel()
	sync := &v1alpha1.Sync{}
	switch err := s.syncs.Get(lookup, client.ObjectKey{Namespace: s.namespace, Name: r.PathValue("sync")}, sync); {
	case apierrors.IsNotFound(err) || err == nil && sync.Spec.PullRequests == nil:
		return nil, nil, unknown
	case err != nil:
		s.log.Error(err, "Reading the Sync of a webhook")
		return nil, nil, failed
	}
	keys, err := s.keys.of(lookup, sync.Spec.PullRequests.SecretRef.Name)
	switch {
	case err != nil:
		return nil, nil, failed
	case len(keys) == 0:
		return nil, nil, unknown
	}
	return sync, keys, nil
}

// errorLog logs the errors of net/http, whose text holds nothing of a request's body.
type errorLog struct{ log logr.Logger }

// Write implements io.Writer.
func (l errorLog) Write(p []byte) (int, error) {
	l.log.Info("Error of the webhook server", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
