package notification

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1"
	"github.com/fluxcd/pkg/runtime/events/eventstest"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/events"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func devSync() *v1alpha1.Sync {
	s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev", UID: "u", ResourceVersion: "7"}}
	s.Spec.Path, s.Status.LastAttemptedRevision = "clusters/dev", "main@sha1:0"
	return s
}

// fixture is a Notifier, the Kubernetes events beside it, and what it logged.
type fixture struct {
	*Notifier
	record.EventRecorder
	kubernetes *record.FakeRecorder
	clock      *clocktesting.FakeClock
	logged     chan string
}

func newFixture(t *testing.T, address string) fixture {
	t.Helper()
	f := fixture{kubernetes: record.NewFakeRecorder(10 * queueLength), clock: clocktesting.NewFakeClock(now()), logged: make(chan string, 10*queueLength)}
	log := funcr.New(func(_, args string) { f.logged <- args }, funcr.Options{})
	n, err := New(Config{Address: address, Instance: "poolwright-0", Clock: f.clock, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	f.Notifier, f.EventRecorder = n, n.Record(f.kubernetes)
	return f
}

// start runs the Notifier until the test ends, and waits for its end.
func (f fixture) start(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := f.Start(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// eventually fails the test where a condition does not come true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
		<-time.After(time.Millisecond)
	}
}

func (f fixture) count(result string) float64 {
	return testutil.ToFloat64(f.results.WithLabelValues(result))
}

// The sink is Flux's own, which decodes what it receives as notification-controller does.
func TestTheEventsOfASyncAreSentAsThoseOfFluxsControllers(t *testing.T) {
	sink := eventstest.NewSink(t)
	f := newFixture(t, sink.URL())
	f.start(t)
	f.Event(devSync(), corev1.EventTypeWarning, "PruneHeld", "deleting 3 objects waits")
	f.Eventf(devSync(), corev1.EventTypeNormal, "Confirmed", "%s let pass 1 deletion", "deletions-1-a")
	f.AnnotatedEventf(devSync(), map[string]string{events.RevisionAnnotation: "main@sha1:1", "other": "x"}, corev1.EventTypeNormal, "ReconciliationSucceeded", "%s", "applied 100%")
	eventually(t, "the third event", func() bool { return f.count(sent) == 3 })
	event := func(severity, reason, message, revision string) eventv1.Event {
		return eventv1.Event{
			InvolvedObject: corev1.ObjectReference{APIVersion: "poolwright.dev/v1alpha1", Kind: "Sync", Namespace: "poolwright-system", Name: "dev", UID: "u", ResourceVersion: "7"},
			Severity:       severity, Timestamp: metav1.NewTime(now()), Message: message, Reason: reason,
			Metadata:            map[string]string{"poolwright.dev/revision": revision, "poolwright.dev/path": "clusters/dev"},
			ReportingController: "poolwright", ReportingInstance: "poolwright-0",
		}
	}
	want := []eventv1.Event{
		event("error", "PruneHeld", "deleting 3 objects waits", "main@sha1:0"),
		event("info", "Confirmed", "deletions-1-a let pass 1 deletion", "main@sha1:0"),
		event("info", "ReconciliationSucceeded", "applied 100%", "main@sha1:1"),
	}
	if diff := cmp.Diff(want, sink.Events()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(f.kubernetes.Events); n != 3 {
		t.Errorf("%d Kubernetes events", n)
	}
}

// Flux's recorder has the annotations of its group as they are, and notification-controller cuts the group off.
func TestAnEventHasTheMetadataThatFluxsRecorderHasOfTheObject(t *testing.T) {
	sink := eventstest.NewSink(t)
	f := newFixture(t, sink.URL())
	f.start(t)
	sync := devSync()
	sync.Annotations = map[string]string{
		"event.toolkit.fluxcd.io/deploymentID": "e076e315-5a48-41c3-81c8-8d8bdee7d74d", "event.toolkit.fluxcd.io/image": "ghcr.io/example/nodes:v1",
		"event.toolkit.fluxcd.io/token": "ghp_0123456789abcdefABCDEF", "event.toolkit.fluxcd.io.example.com/x": "1", "poolwright.dev/confirm": "x", "team": "gpu",
	}
	f.Event(sync, corev1.EventTypeNormal, "ReconciliationSucceeded", "m")
	artifact := map[string]string{events.RevisionAnnotation: "latest@sha256:1", events.OriginRevisionAnnotation: "main@sha1:1"}
	f.AnnotatedEventf(devSync(), artifact, corev1.EventTypeNormal, "ReconciliationSucceeded", "m")
	eventually(t, "both events", func() bool { return f.count(sent) == 2 })
	want := []map[string]string{
		{
			"poolwright.dev/revision": "main@sha1:0", "poolwright.dev/path": "clusters/dev",
			"event.toolkit.fluxcd.io/deploymentID": "e076e315-5a48-41c3-81c8-8d8bdee7d74d", "event.toolkit.fluxcd.io/image": "ghcr.io/example/nodes:v1", "event.toolkit.fluxcd.io/token": "(masked)",
		},
		{"poolwright.dev/revision": "latest@sha256:1", "poolwright.dev/originRevision": "main@sha1:1", "poolwright.dev/path": "clusters/dev"},
	}
	var got []map[string]string
	for _, event := range sink.Events() {
		got = append(got, event.Metadata)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventsOfOtherKindsAreNotSent(t *testing.T) {
	sink := eventstest.NewSink(t)
	f := newFixture(t, sink.URL())
	f.start(t)
	f.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, corev1.EventTypeWarning, "NoDriver", "m")
	f.Event(devSync(), corev1.EventTypeNormal, "ReconciliationSucceeded", "m")
	eventually(t, "the event of the Sync", func() bool { return f.count(sent) == 1 })
	if got := sink.Events(); len(got) != 1 || got[0].Reason != "ReconciliationSucceeded" || len(f.kubernetes.Events) != 2 {
		t.Errorf("%d Kubernetes events, sent %+v", len(f.kubernetes.Events), got)
	}
}

// A receiver that accepts connections and never responds is what delayed the reconciliations of Flux's controllers: theirs
// send within the reconciliation.
func TestAReceiverThatHangsDelaysNoReconciliation(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	f := newFixture(t, server.URL)
	f.start(t)
	f.Event(devSync(), corev1.EventTypeNormal, "First", "m")
	<-arrived
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		for range 3 * queueLength {
			f.Event(devSync(), corev1.EventTypeNormal, "More", "m")
		}
	}()
	select {
	case <-recorded:
	case <-time.After(2 * time.Second): // Less than the timeout of one request.
		t.Fatal("recording an event waits for the receiver")
	}
	if n, queued := f.count(dropped), len(f.queue.events); n != 2*queueLength || queued != queueLength {
		t.Errorf("%v events are dropped, %d wait", n, queued)
	}
	if n := len(f.kubernetes.Events); n != 3*queueLength+1 {
		t.Errorf("%d Kubernetes events", n)
	}
}

func TestAnEventIsSentAgainWhereThatCanHelp(t *testing.T) {
	for _, test := range []struct {
		name   string
		codes  []int
		result string
		// requests are as many as codes, where that is 0. They come each minute, and the last code holds on.
		requests int
	}{
		{"the receiver has it", []int{202}, sent, 0},
		{"the receiver restarts", []int{503, 503, 202}, sent, 0},
		{"the receiver is away for ten minutes", []int{503, 503, 503, 503, 503, 503, 503, 503, 503, 503, 202}, sent, 0},
		{"the receiver stays broken", []int{500}, failed, 1 + int(keptFor/time.Minute)},
		{"the receiver had it a minute ago", []int{429}, duplicate, 0},
		{"the receiver refuses it", []int{400}, failed, 0},
		{"the address is that of another server", []int{301}, failed, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(requests.Add(1))
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.codes[min(n, len(test.codes))-1])
				_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
			}))
			t.Cleanup(server.Close)
			f := newFixture(t, server.URL)
			f.start(t)
			f.Event(devSync(), corev1.EventTypeNormal, "A", "m")
			want := max(test.requests, len(test.codes))
			for range want - 1 {
				eventually(t, "the wait before the next attempt", f.clock.HasWaiters)
				f.clock.Step(time.Minute)
			}
			eventually(t, test.result, func() bool { return f.count(test.result) == 1 })
			if n := int(requests.Load()); n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
			lines := 0
			switch {
			case test.result == failed:
				lines = 1 // The failure, once.
			case want > 1:
				lines = 2 // The failure, and its end.
			}
			eventually(t, "the log", func() bool { return len(f.logged) >= lines })
			if len(f.logged) != lines {
				t.Errorf("%d lines are logged, want %d", len(f.logged), lines)
			}
		})
	}
}

func TestAnOutageIsLoggedOnceAndWithoutTheAddress(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL + "/?token=ghp_0123456789abcdefABCDEF"
	server.Close()
	f := newFixture(t, address)
	f.start(t)
	for n := range 3 {
		f.Event(devSync(), corev1.EventTypeNormal, "A", "m")
		eventually(t, "the wait before the next attempt", f.clock.HasWaiters)
		f.clock.Step(keptFor)
		eventually(t, "the failure", func() bool { return f.count(failed) == float64(n+1) })
	}
	close(f.logged)
	var lines []string
	for line := range f.logged {
		lines = append(lines, line)
	}
	if len(lines) != 1 || strings.Contains(lines[0], "token") || strings.Contains(lines[0], address) {
		t.Errorf("logged %q", lines)
	}
}

// What came last is what a person is to know, so that the oldest give way.
func TestInALongOutageTheNewestEventsAreKept(t *testing.T) {
	f := newFixture(t, "http://localhost")
	for n := range queueLength + 2 {
		f.Eventf(devSync(), corev1.EventTypeNormal, "A", "%d", n)
	}
	first, ok := f.queue.take()
	if last := f.queue.events[len(f.queue.events)-1]; !ok || first.Message != "2" || last.Message != strconv.Itoa(queueLength+1) || f.count(dropped) != 2 {
		t.Errorf("%q to %q are kept, %v dropped", first.Message, last.Message, f.count(dropped))
	}
}

func TestWhatIsLeftAtTheEndOfTheProcessIsCountedAsDropped(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	f := newFixture(t, server.URL)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Start(ctx) }()
	for range 3 {
		f.Event(devSync(), corev1.EventTypeNormal, "A", "m")
	}
	<-arrived
	stop()
	if err := <-ended; err != nil || f.count(dropped) != 3 || f.count(failed) != 0 {
		t.Errorf("%v, %v events are dropped, %v failed", err, f.count(dropped), f.count(failed))
	}
	f.Event(devSync(), corev1.EventTypeNormal, "A", "m")
	if n := f.count(dropped); n != 4 {
		t.Errorf("%v are dropped, one of them after the end", n)
	}
}

func TestAProxyGetsNoEventInClear(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.example.com:3128")
	t.Setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
	t.Setenv("NO_PROXY", ".svc.cluster.local")
	transport, ok := newSender().Transport.(*http.Transport)
	if !ok {
		t.Fatal("the transport is another")
	}
	for address, want := range map[string]bool{
		"http://notification-controller.flux-system.svc.cluster.local./": false,
		"http://events.example.com/":                                     false,
		"https://events.example.com/":                                    true,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if proxy, err := transport.Proxy(request); err != nil || (proxy != nil) != want {
			t.Errorf("%s goes by %v, %v", address, proxy, err)
		}
	}
}

func TestALongMessageFitsTheAPI(t *testing.T) {
	f := newFixture(t, "http://localhost")
	f.Event(devSync(), corev1.EventTypeNormal, "A", strings.Repeat("ü", messageLimit))
	queued, _ := f.queue.take()
	raw, err := json.Marshal(queued)
	var event eventv1.Event
	if err != nil || json.Unmarshal(raw, &event) != nil || len(event.Message) > messageLimit || strings.Contains(event.Message, "\uFFFD") {
		t.Errorf("a message of %d bytes, %v", len(event.Message), err)
	}
}

func TestAnAddressIsCheckedAndNotRepeated(t *testing.T) {
	const password = "hunter2"
	for _, address := range []string{"", "notification-controller:80", "ftp://host/", "http://", "http://user:" + password + "@host/", "http://a b/"} {
		if _, err := New(Config{Address: address}); err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("%q: %v", address, err)
		}
	}
	var none *Notifier
	if next := record.NewFakeRecorder(1); none.Record(next) != record.EventRecorder(next) {
		t.Error("without an address events are recorded otherwise")
	}
}
