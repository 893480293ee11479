// Package notification sends the events of Syncs to Flux's notification-controller, or to another receiver of its API, beside
// Kubernetes' events.
//
// It refuses to have a reconciliation wait, as the recorder of fluxcd/pkg/runtime/events does, which sends each event within the
// call: an event is put into a queue, which is bounded, and whose oldest event is dropped
// where it is full. What it sends is what the Kubernetes event has, so that who calls it has masked the text. Start reading at
// Notifier.
package notification

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/events"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Bounds of what an outage of the receiver can take.
const (
	// queueLength events wait at most behind the one that is being sent; for one more the oldest of them is dropped.
	queueLength = 128
	// messageLimit is the longest message that the API allows, in bytes.
	messageLimit = 39000
	// requestTimeout bounds one request.
	requestTimeout = 5 * time.Second
	// keptFor is how old an event may be that is sent again. A receiver that is upgraded or moves to another node is back by then.
	keptFor = 15 * time.Minute
	// firstRetry is how soon the second attempt comes; each next one comes in twice the time, and at most lastRetry.
	firstRetry, lastRetry = time.Second, time.Minute
)

// Config is what a Notifier needs.
type Config struct {
	// Address is where events are sent by POST, as http://notification-controller.flux-system.svc.cluster.local./
	Address string
	// Instance names this process in each event.
	Instance string
	Clock    clock.Clock
	Log      logr.Logger
}

// Notifier sends events in the order in which they come, one at a time.
type Notifier struct {
	address  string
	instance string
	clock    clock.Clock
	log      logr.Logger
	queue    *queue
	results  *prometheus.CounterVec
	sender   sender
	// outage is whether the last request failed; only Start uses it.
	outage bool
}

// ErrAddress is returned for an address to which events cannot be sent.
var ErrAddress = errors.New("not the address of a receiver of events: give http:// or https:// with a host, and no credentials")

// New makes a Notifier, which sends once it is started.
func New(cfg Config) (*Notifier, error) {
	to, err := url.Parse(cfg.Address)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Hostname() == "" || to.User != nil {
		return nil, ErrAddress // Without the address, which may hold a password.
	}
	return &Notifier{
		address: cfg.Address, instance: cfg.Instance, clock: cfg.Clock, log: cfg.Log,
		queue: newQueue(),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "poolwright_notifications_total",
			Help: "Events for the receiver of --events-addr, by result (sent, duplicate, failed, dropped)."}, []string{"result"}),
		sender: newSender(),
	}, nil
}

// Metrics are the Prometheus series of the Notifier.
func (n *Notifier) Metrics() prometheus.Collector { return n.results }

// Record is a recorder that sends the events of Syncs as well. A nil Notifier sends none.
func (n *Notifier) Record(next record.EventRecorder) record.EventRecorder {
	if n == nil {
		return next
	}
	return recorder{next: next, notifier: n}
}

// recorder records Kubernetes' events, and puts those of Syncs into the queue.
type recorder struct {
	next     record.EventRecorder
	notifier *Notifier
}

// Event implements record.EventRecorder.
func (r recorder) Event(about runtime.Object, kind, reason, message string) {
	r.next.Event(about, kind, reason, message)
	r.notifier.put(about, nil, kind, reason, message)
}

// Eventf implements record.EventRecorder.
func (r recorder) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	r.Event(about, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r recorder) AnnotatedEventf(about runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	r.next.AnnotatedEventf(about, annotations, kind, reason, format, args...)
	r.notifier.put(about, annotations, kind, reason, fmt.Sprintf(format, args...))
}

// put queues an event of a Sync. The receiver refuses objects without a namespace, and
// those of the other kinds are no concern of who is notified of deployments.
func (n *Notifier) put(about runtime.Object, annotations map[string]string, kind, reason, message string) {
	sync, ok := about.(*v1alpha1.Sync)
	if !ok {
		return
	}
	n.results.WithLabelValues(dropped).Add(float64(n.queue.put(n.event(sync, annotations, kind, reason, message))))
}

// event is an event in the form of Flux's API. Keys of its metadata must begin with the API group of the object, or of Flux's
// events, which the receiver cuts off. None of ours is named as what an Alert adds (summary, eventMetadata), which it would replace.
func (n *Notifier) event(sync *v1alpha1.Sync, annotations map[string]string, kind, reason, message string) eventv1.Event {
	severity := eventv1.EventSeverityInfo
	if kind == corev1.EventTypeWarning {
		severity = eventv1.EventSeverityError
	}
	metadata := ofUser(sync)
	metadata[v1alpha1.GroupVersion.Group+"/path"] = sanitize.Text(sync.Spec.Path)
	if origin := annotations[events.OriginRevisionAnnotation]; origin != "" {
		metadata[events.OriginRevisionAnnotation] = sanitize.Escape(origin)
	}
	if revision := cmp.Or(annotations[events.RevisionAnnotation], sync.Status.LastAttemptedRevision); revision != "" {
		metadata[events.RevisionAnnotation] = sanitize.Escape(revision)
	}
	return eventv1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Sync", Namespace: sync.Namespace, Name: sync.Name, UID: sync.UID, ResourceVersion: sync.ResourceVersion,
		},
		Severity: severity, Timestamp: metav1.NewTime(n.clock.Now()), Message: strings.ToValidUTF8(message[:min(len(message), messageLimit)], ""), Reason: reason, Metadata: metadata,
		ReportingController: "poolwright", ReportingInstance: n.instance,
	}
}

// ofUser is the metadata that a Sync has for its events in annotations of Flux's group, as the objects of Flux have.
func ofUser(sync *v1alpha1.Sync) map[string]string {
	out := map[string]string{}
	for key, value := range sync.Annotations {
		if strings.HasPrefix(key, eventv1.Group+"/") {
			out[key] = sanitize.Text(value)
		}
	}
	return out
}
