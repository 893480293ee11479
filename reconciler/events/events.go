// Package events emits Kubernetes events whose text is sanitized.
//
// It refuses to decide what is worth an event. Start reading at Sanitize.
package events

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// RevisionAnnotation on an event is the revision that it is about, written branch@sha1:commit.
const RevisionAnnotation = "poolwright.dev/revision"

// OriginRevisionAnnotation on an event is the revision in Git from which the artifact was made that it is about.
const OriginRevisionAnnotation = "poolwright.dev/originRevision"

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

// WithRevision is a recorder of events that are about a revision, which their annotation has, as another has its origin where
// that is not empty; without a revision it is next.
func WithRevision(next record.EventRecorder, revision, origin string) record.EventRecorder {
	if revision == "" {
		return next
	}
	annotations := map[string]string{RevisionAnnotation: revision}
	if origin != "" {
		annotations[OriginRevisionAnnotation] = origin
	}
	return annotating{next, annotations}
}

// annotating records events with annotations beside those that each has.
type annotating struct {
	next        record.EventRecorder
	annotations map[string]string
}

func (a annotating) Event(about runtime.Object, kind, reason, message string) {
	a.next.AnnotatedEventf(about, a.annotations, kind, reason, "%s", message)
}

func (a annotating) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	a.next.AnnotatedEventf(about, a.annotations, kind, reason, format, args...)
}

func (a annotating) AnnotatedEventf(about runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	all := maps.Clone(a.annotations)
	maps.Copy(all, annotations)
	a.next.AnnotatedEventf(about, all, kind, reason, format, args...)
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
