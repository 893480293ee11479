package receiver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const (
	hookSecret    = "It's a Secret to Everybody"
	oldHookSecret = "the one before"
	pullBody      = `{"number": 3, "pull_request": {"number": 3}, "repository": {"full_name": "Platform/nodes"}}`
)

// post is a replica of the webhook server, an API server that counts, and a
// clock that stands still.
type post struct {
	*Server
	url   string
	clock *testclock.FakeClock
	api   *api
	stop  func()
}

// api is the API server that replicas share.
type api struct {
	client.WithWatch
	mu             sync.Mutex
	reads, patches int
	// fail is what requests answer, if not nil.
	fail error
	log  bytes.Buffer
}

func newAPI(t *testing.T) *api {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	hooked := &v1alpha1.PullRequests{Provider: v1alpha1.ForgeGitHub, SecretRef: v1alpha1.SecretRef{Name: "forge"}}
	unsigned := &v1alpha1.PullRequests{Provider: v1alpha1.ForgeGitHub, SecretRef: v1alpha1.SecretRef{Name: "unsigned"}}
	absent := &v1alpha1.PullRequests{Provider: v1alpha1.ForgeGitHub, SecretRef: v1alpha1.SecretRef{Name: "absent"}}
	a := &api{}
	count := func(n *int) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		*n++
		return a.fail
	}
	// A write counts once it is done, since who waits for it reads what it wrote.
	done := func(write func() error) error {
		a.mu.Lock()
		err := a.fail
		a.mu.Unlock()
		if err == nil {
			err = write()
		}
		_ = count(&a.patches)
		return err
	}
	a.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		followingSync("dev", hooked), followingSync("plain", nil), followingSync("unsigned", unsigned), followingSync("absent", absent),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "forge"}, Data: map[string][]byte{
			"webhookSecret": []byte(hookSecret), "webhookSecretOld": []byte(oldHookSecret), "token": []byte("t")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "unsigned"}, Data: map[string][]byte{"webhookSecret": nil, "token": []byte("t")}},
	).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok {
				if err := count(&a.reads); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return done(func() error { return c.Patch(ctx, o, p, opts...) })
		},
	}).Build()
	return a
}

func followingSync(name string, pulls *v1alpha1.PullRequests) *v1alpha1.Sync {
	s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: name}}
	s.Spec.Source.Git = v1alpha1.GitSource{URL: "https://github.com/platform/nodes.git", Ref: v1alpha1.GitRef{Branch: "main"}}
	s.Spec.PullRequests = pulls
	return s
}

func (a *api) failing(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = err
}

func (a *api) counted() (reads, patches int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads, a.patches
}

func (a *api) annotations(t *testing.T) map[string]string {
	t.Helper()
	var s v1alpha1.Sync
	if err := a.Get(t.Context(), client.ObjectKey{Namespace: "ours", Name: "dev"}, &s); err != nil {
		t.Fatal(err)
	}
	return s.Annotations
}

// replica starts a server; change may set its bounds before.
func (a *api) replica(t *testing.T, change func(*Server)) *post {
	t.Helper()
	clock := testclock.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	logger := funcr.NewJSON(func(line string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.log.WriteString(line + "\n")
	}, funcr.Options{Verbosity: 10})
	p := &post{Server: New(Config{Namespace: "ours", Log: logger, Syncs: a, Direct: a, Clock: clock}), clock: clock, api: a}
	if change != nil {
		change(p.Server)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.serve(ctx, listener) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// signed is a webhook as GitHub sends it.
func (p *post) signed(t *testing.T, path, kind, key, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Event", kind)
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return r
}

func send(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(got)
}

// resulted is how many requests the metric has counted with a result.
func (p *post) resulted(t *testing.T, result string) (n float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(p.results); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == result && family.GetName() == "poolwright_webhooks_total" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// deliver sends one that is accepted.
func (p *post) deliver(t *testing.T, kind, body string) {
	t.Helper()
	if r, got := send(t, p.signed(t, "/hook/dev", kind, hookSecret, body)); r.StatusCode != http.StatusAccepted {
		t.Fatalf("got %s: %s", r.Status, got)
	}
}

// await polls for what other goroutines bring about.
func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// rested lets the clock pass the rest after a write, once the writer waits.
func (p *post) rested(t *testing.T, d time.Duration) {
	t.Helper()
	await(t, "the writer to rest", p.clock.HasWaiters)
	p.clock.Step(d)
}

func (p *post) idle() bool {
	p.annotator.mu.Lock()
	defer p.annotator.mu.Unlock()
	return len(p.annotator.pending) == 0
}

func TestAWebhooksResponseIsWhatBecameOfIt(t *testing.T) {
	const push = `{"ref": "refs/heads/main", "repository": {"full_name": "platform/nodes"}}`
	long := `{"x": "` + strings.Repeat("x", 2<<20) + `"}`
	tests := []struct {
		name, path, kind, key, body string
		change                      func(*http.Request)
		code                        int
		result                      string
	}{
		{name: "a pull request is accepted", kind: "pull_request", body: pullBody, code: 202, result: "accepted"},
		{name: "a push is accepted", kind: "push", body: push, code: 202, result: "accepted"},
		{name: "the secret before is accepted while they are changed", key: oldHookSecret, kind: "push", body: push, code: 202, result: "accepted"},
		{name: "a ping is ignored", kind: "ping", body: `{"zen": "x"}`, code: 200, result: "ignored"},
		{name: "another repository of the organization is ignored", kind: "push", body: strings.Replace(push, "nodes", "other", 1), code: 200, result: "ignored"},
		{name: "another secret", key: "guessed", kind: "push", body: push, code: 401, result: "unsigned"},
		{name: "no signature", kind: "push", body: push, change: func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, code: 401, result: "unsigned"},
		{name: "an empty key", path: "/hook/unsigned", key: "", kind: "push", body: push, code: 404, result: "unknown"},
		{name: "no such Secret", path: "/hook/absent", kind: "push", body: push, code: 404, result: "unknown"},
		{name: "a Sync without pull requests", path: "/hook/plain", kind: "push", body: push, code: 404, result: "unknown"},
		{name: "no such Sync", path: "/hook/nobody", kind: "push", body: push, code: 404, result: "unknown"},
		{name: "a name that is none", path: "/hook/..%2f..%2fdev%00", kind: "push", body: push, code: 404, result: "unknown"},
		{name: "a very long name", path: "/hook/" + strings.Repeat("x", 10_000), kind: "push", body: push, code: 404, result: "unknown"},
		{name: "no name", path: "/hook/", kind: "push", body: push, code: 404, result: "unknown"},
		{name: "another path", path: "/", kind: "push", body: push, code: 404, result: "unknown"},
		{name: "a path below", path: "/hook/dev/x", kind: "push", body: push, code: 404, result: "unknown"},
		{name: "another method", kind: "push", body: push, change: func(r *http.Request) { r.Method = http.MethodGet }, code: 405, result: "refused"},
		{name: "a body of 2 MiB", kind: "push", body: long, code: 413, result: "refused"},
		{name: "a body of 2 MiB without a Content-Length", kind: "push", body: long, change: func(r *http.Request) { r.ContentLength = -1 }, code: 413, result: "refused"},
		{name: "a form", kind: "push", body: push, change: func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, code: 415, result: "refused"},
		{name: "no JSON", kind: "push", body: `{"ref"`, code: 400, result: "refused"},
		{name: "JSON without end of depth", kind: "push", body: strings.Repeat(`[`, 200_000), code: 400, result: "refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newAPI(t).replica(t, nil)
			path, key := tt.path, tt.key
			if path == "" {
				path = "/hook/dev"
				if key == "" {
					key = hookSecret
				}
			}
			r := p.signed(t, path, tt.kind, key, tt.body)
			if tt.change != nil {
				tt.change(r)
			}
			response, got := send(t, r)
			if response.StatusCode != tt.code || p.resulted(t, tt.result) != 1 {
				t.Errorf("got %s: %s", response.Status, got)
			}
			if response.Header.Get("Content-Type") != "text/plain; charset=utf-8" || tt.code == 405 && response.Header.Get("Allow") != "POST" {
				t.Errorf("headers %v", response.Header)
			}
			p.stop()
			want := 0
			if tt.code == http.StatusAccepted {
				want = 1
			}
			if reads, patches := p.api.counted(); patches != want || reads > 1 {
				t.Errorf("%d patches, %d reads", patches, reads)
			}
			for _, secret := range []string{hookSecret, oldHookSecret, "sha256=", "full_name", "guessed"} {
				if strings.Contains(p.api.log.String(), secret) || strings.Contains(got, secret) {
					t.Errorf("%q is told:\n%s%s", secret, p.api.log.String(), got)
				}
			}
		})
	}
}

func TestAWebhookIsWrittenOnTheSync(t *testing.T) {
	p := newAPI(t).replica(t, nil)
	if server := manager.LeaderElectionRunnable(p.Server); server.NeedLeaderElection() {
		t.Error("a standby takes no webhooks")
	}
	at := func() string { return p.clock.Now().UTC().Format(time.RFC3339Nano) }
	steps := []struct {
		name, kind, body string
		git              bool
	}{
		{"a pull request does not fetch", "pull_request", pullBody, false},
		{"a push to the followed branch does", "push", `{"ref": "refs/heads/main", "repository": {"full_name": "platform/nodes"}}`, true},
		{"a push to another branch does not", "push", `{"ref": "refs/heads/other", "repository": {"full_name": "platform/nodes"}}`, false},
	}
	fetched := ""
	for i, s := range steps {
		p.deliver(t, s.kind, s.body)
		await(t, "the write", func() bool { _, patches := p.api.counted(); return patches == i+1 })
		if s.git {
			fetched = at()
		}
		await(t, s.name, func() bool {
			got := p.api.annotations(t)
			return got[v1alpha1.WebhookAnnotation] == at() && got[fluxmeta.ReconcileRequestAnnotation] == fetched
		})
		p.rested(t, minInterval)
		await(t, "its end", p.idle)
	}
}

func TestAFloodOfWebhooksIsAFewWritesAndTheLastOneCounts(t *testing.T) {
	p := newAPI(t).replica(t, func(h *Server) { h.timeout = time.Minute })
	const many = 200
	var senders sync.WaitGroup
	for range many {
		r := p.signed(t, "/hook/dev", "pull_request", hookSecret, pullBody) // a replay, too
		senders.Go(func() {
			if response, err := http.DefaultClient.Do(r); err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusAccepted {
				t.Errorf("got %v, %v", response, err)
			}
		})
	}
	senders.Wait()
	await(t, "the first write to rest", p.clock.HasWaiters)
	if reads, patches := p.api.counted(); reads != 1 || patches != 1 {
		t.Errorf("%d reads and %d writes within the first second", reads, patches)
	}
	p.rested(t, minInterval-time.Millisecond)
	if _, patches := p.api.counted(); patches != 1 {
		t.Errorf("%d writes before its rest was over", patches)
	}
	p.rested(t, time.Millisecond)
	await(t, "the last one's write", func() bool { _, patches := p.api.counted(); return patches == 2 })
	if got := p.api.annotations(t)[v1alpha1.WebhookAnnotation]; got != "2026-11-20T12:00:01Z" {
		t.Errorf("the last write says %s", got)
	}
	p.rested(t, maxInterval)
	await(t, "rest", p.idle)
	if _, patches := p.api.counted(); patches != 2 {
		t.Errorf("%d writes in all", patches)
	}
}

func TestWebhooksThatNeverEndAreWrittenEveryFiveSeconds(t *testing.T) {
	p := newAPI(t).replica(t, nil)
	p.deliver(t, "pull_request", pullBody)
	const seconds = 60
	for range seconds {
		await(t, "the writer to rest", p.clock.HasWaiters)
		p.deliver(t, "pull_request", pullBody)
		p.clock.Step(time.Second)
	}
	if _, patches := p.api.counted(); patches < seconds/5 || patches > seconds/5+4 {
		t.Errorf("%d writes in %d s", patches, seconds)
	}
}

func TestWhatAServerReceivedIsWrittenBeforeItEnds(t *testing.T) {
	p := newAPI(t).replica(t, nil)
	p.deliver(t, "pull_request", pullBody)
	await(t, "the writer to rest", p.clock.HasWaiters)
	p.clock.SetTime(p.clock.Now().Add(time.Millisecond))
	p.deliver(t, "push", `{"ref": "refs/heads/main", "repository": {"full_name": "platform/nodes"}}`)
	p.stop()
	want := "2026-11-20T12:00:00.001Z"
	if got := p.api.annotations(t); got[v1alpha1.WebhookAnnotation] != want || got[fluxmeta.ReconcileRequestAnnotation] != want {
		t.Errorf("got %v", got)
	}
	if _, patches := p.api.counted(); patches != 2 {
		t.Errorf("%d writes", patches)
	}
}

func TestWhicheverReplicaReceivesAWebhookTheSyncRecordsIt(t *testing.T) {
	shared := newAPI(t)
	one, two := shared.replica(t, nil), shared.replica(t, nil)
	one.deliver(t, "pull_request", pullBody)
	one.stop() // the leader goes while it is told
	first := shared.annotations(t)[v1alpha1.WebhookAnnotation]
	two.clock.SetTime(two.clock.Now().Add(time.Second))
	two.deliver(t, "pull_request", pullBody)
	two.stop()
	if second := shared.annotations(t)[v1alpha1.WebhookAnnotation]; first == "" || second == "" || first == second {
		t.Errorf("%q, then %q", first, second)
	}
}

func TestAnAPIServerThatIsAwayLosesNoWebhookAndGetsFewRequests(t *testing.T) {
	p := newAPI(t).replica(t, nil)
	p.api.failing(errors.New("away"))
	for range 20 {
		if r, _ := send(t, p.signed(t, "/hook/dev", "pull_request", hookSecret, pullBody)); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" {
			t.Fatalf("got %s", r.Status)
		}
	}
	if reads, _ := p.api.counted(); reads != 1 {
		t.Errorf("%d reads", reads)
	}
	p.api.failing(nil)
	p.clock.Step(noKeysTTL)
	p.deliver(t, "pull_request", pullBody)
	p.rested(t, minInterval)
	await(t, "rest", p.idle)

	// Away while it is written: tried again, with all that it was told.
	p.api.failing(errors.New("away"))
	p.deliver(t, "push", `{"ref": "refs/heads/main", "repository": {"full_name": "platform/nodes"}}`)
	await(t, "the first try", p.clock.HasWaiters)
	p.api.failing(nil)
	p.deliver(t, "pull_request", pullBody)
	p.rested(t, minInterval)
	await(t, "the second try", func() bool { return p.api.annotations(t)[fluxmeta.ReconcileRequestAnnotation] != "" })
	p.rested(t, maxInterval)
	await(t, "rest", p.idle)

	// Away for long: it ends, and the next webhook begins anew.
	p.api.failing(errors.New("away"))
	_, before := p.api.counted()
	p.deliver(t, "pull_request", pullBody)
	await(t, "giving up", func() bool {
		if p.clock.HasWaiters() {
			p.clock.Step(maxInterval)
		}
		return p.idle()
	})
	if _, after := p.api.counted(); after-before != maxTries {
		t.Errorf("%d tries", after-before)
	}
}

func TestAChangedWebhookSecretIsFollowed(t *testing.T) {
	p := newAPI(t).replica(t, nil)
	code := func(key string) int {
		r, _ := send(t, p.signed(t, "/hook/unsigned", "ping", key, "{}"))
		return r.StatusCode
	}
	if got := code("new"); got != http.StatusNotFound {
		t.Errorf("got %d", got)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "unsigned"}}
	set := func(key string) {
		t.Helper()
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data": {"webhookSecret": %q}}`, key))
		if err := p.api.Patch(t.Context(), secret, patch); err != nil {
			t.Fatal(err)
		}
	}
	set("bmV3") // "new"
	p.clock.Step(noKeysTTL)
	if got := code("new"); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
	set("bmV3ZXI=") // "newer"
	p.clock.Step(keysTTL)
	if got := code("new"); got != http.StatusUnauthorized {
		t.Errorf("got %d", got)
	}
	if got := code("newer"); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
}

func TestSlowSendersDoNotKeepOthersOut(t *testing.T) {
	p := newAPI(t).replica(t, func(h *Server) {
		h.connections, h.inFlight, h.timeout = 8, make(chan struct{}, 4), 2*time.Second
	})
	address := strings.TrimPrefix(p.url, "http://")
	open := func(first string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, first); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	// As many that are slow with their headers, and with their bodies.
	const head = "POST /hook/dev HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: push\r\nContent-Type: application/json\r\nContent-Length: 100\r\n" +
		"X-Hub-Signature-256: sha256=0000000000000000000000000000000000000000000000000000000000000000\r\n\r\n"
	for range 20 {
		open("POST /hook/dev HTTP/1.1\r\nHost:")
		open(head + "{")
	}
	slow := open(head + "{")
	p.deliver(t, "pull_request", pullBody)
	// The one whose body never ends is sent away.
	if err := slow.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusTooManyRequests {
			t.Errorf("got %s", response.Status)
		}
	}
}

func TestTooManyRequestsAtOnceAreRefused(t *testing.T) {
	p := newAPI(t).replica(t, func(h *Server) { h.inFlight, h.timeout = make(chan struct{}), 2*time.Second })
	if r, _ := send(t, p.signed(t, "/hook/dev", "pull_request", hookSecret, pullBody)); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
		t.Errorf("got %s", r.Status)
	}
	if got := p.resulted(t, "busy"); got != 1 {
		t.Errorf("%v busy", got)
	}
}

func TestTooManyHeadersAreRefusedBeforeAnythingIsRead(t *testing.T) {
	p := newAPI(t).replica(t, nil)
	r := p.signed(t, "/hook/dev", "pull_request", hookSecret, pullBody)
	r.Header.Set("X-Much", strings.Repeat("x", 64<<10))
	// The server may close while it is written to.
	if response, err := http.DefaultClient.Do(r); err == nil && (response.Body.Close() != nil || response.StatusCode != http.StatusRequestHeaderFieldsTooLarge) {
		t.Errorf("got %s", response.Status)
	}
	if reads, patches := p.api.counted(); reads+patches != 0 {
		t.Errorf("%d reads, %d writes", reads, patches)
	}
}

func TestAnAddressThatIsTakenIsAnErrorWithARemedy(t *testing.T) {
	p := newAPI(t).replica(t, nil)
	p.address = strings.TrimPrefix(p.url, "http://")
	if err := p.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "--receiver-addr") {
		t.Errorf("got %v", err)
	}
}
