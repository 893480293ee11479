// Package events emits Kubernetes events whose text is harmless.
//
// It refuses to decide what is worth an event. Start reading at Sanitize.
package events

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Sanitize is a recorder of events whose messages are texts as of package sanitize: they repeat
// what Git, AWS and the API server wrote.
func Sanitize(next record.EventRecorder) record.EventRecorder { return sanitizing{next} }

type sanitizing struct{ next record.EventRecorder }

func (s sanitizing) Event(about runtime.Object, kind, reason, message string) {
	s.next.Event(about, kind, reason, sanitize.Text(message))
}

func (s sanitizing) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	s.Event(about, kind, reason, fmt.Sprintf(format, args...))
}

func (s sanitizing) AnnotatedEventf(about runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	s.next.AnnotatedEventf(about, annotations, kind, reason, "%s", sanitize.Text(fmt.Sprintf(format, args...)))
}
