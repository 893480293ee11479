// Package events emits Kubernetes events whose text is sanitized.
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
func Sanitize(next record.EventRecorder) record.EventRecorder {
	return sanitizing{next, sanitize.Text}
}

// Escape is a recorder of events whose messages are one line without what does not print, and else as they
// are: who emits them masks what others wrote in them, so that a name and a command of ours that
// could pass for a secret can be read and copied.
func Escape(next record.EventRecorder) record.EventRecorder {
	return sanitizing{next, sanitize.Escape}
}

type sanitizing struct {
	next    record.EventRecorder
	cleaned func(string) string
}

func (s sanitizing) Event(about runtime.Object, kind, reason, message string) {
	s.next.Event(about, kind, reason, s.cleaned(message))
}

func (s sanitizing) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	s.Event(about, kind, reason, fmt.Sprintf(format, args...))
}

func (s sanitizing) AnnotatedEventf(about runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	s.next.AnnotatedEventf(about, annotations, kind, reason, "%s", s.cleaned(fmt.Sprintf(format, args...)))
}
