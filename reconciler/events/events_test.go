package events_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/poolwright/poolwright/reconciler/events"
)

func TestTheTextOfAnEventIsSanitized(t *testing.T) {
	reversible(t, events.Sanitize, `Warning Failed x\x1b[2K\n(masked) 100%s`)
}

// What others wrote is masked by who emits the event: a command of ours with a Sync's name stays as it is.
func TestAnEventWhoseTextIsMaskedAlreadyKeepsItsNames(t *testing.T) {
	reversible(t, events.Escape, `Warning Failed x\x1b[2K\nghp_0123456789abcdefABCDEF 100%s`)
}

func reversible(t *testing.T, wrap func(record.EventRecorder) record.EventRecorder, want string) {
	t.Helper()
	const hostile = "x\x1b[2K\nghp_0123456789abcdefABCDEF 100%s"
	for name, emit := range map[string]func(record.EventRecorder){
		"as it is":  func(r record.EventRecorder) { r.Event(&corev1.Node{}, "Warning", "Failed", hostile) },
		"formatted": func(r record.EventRecorder) { r.Eventf(&corev1.Node{}, "Warning", "Failed", "%s", hostile) },
		"with annotations": func(r record.EventRecorder) {
			r.AnnotatedEventf(&corev1.Node{}, nil, "Warning", "Failed", "%s", hostile)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := record.NewFakeRecorder(1)
			emit(wrap(fake))
			if got := <-fake.Events; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestAnEventOfARevisionHasItAsAnAnnotation(t *testing.T) {
	const annotated = "Normal Applied 100%smap[poolwright.dev/revision:main@sha1:1]"
	for name, c := range map[string]struct {
		revision, origin string
		emit             func(record.EventRecorder)
		want             string
	}{
		"as it is":           {"main@sha1:1", "", func(r record.EventRecorder) { r.Event(&corev1.Node{}, "Normal", "Applied", "100%s") }, annotated},
		"formatted":          {"main@sha1:1", "", func(r record.EventRecorder) { r.Eventf(&corev1.Node{}, "Normal", "Applied", "%s", "100%s") }, annotated},
		"without a revision": {"", "main@sha1:0", func(r record.EventRecorder) { r.Event(&corev1.Node{}, "Normal", "Applied", "100%s") }, "Normal Applied 100%s"},
		"of an artifact": {"latest@sha256:1", "main@sha1:1", func(r record.EventRecorder) { r.Event(&corev1.Node{}, "Normal", "Applied", "100%s") },
			"Normal Applied 100%smap[poolwright.dev/originRevision:main@sha1:1 poolwright.dev/revision:latest@sha256:1]"},
		"with annotations": {"main@sha1:1", "", func(r record.EventRecorder) {
			r.AnnotatedEventf(&corev1.Node{}, map[string]string{"team": "gpu"}, "Normal", "Applied", "%s", "100%s")
		}, "Normal Applied 100%smap[poolwright.dev/revision:main@sha1:1 team:gpu]"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := record.NewFakeRecorder(1)
			c.emit(events.WithRevision(fake, c.revision, c.origin))
			if got := <-fake.Events; strings.ReplaceAll(got, " map[", "map[") != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
