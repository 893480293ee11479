package demo

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestAnInstancesRequestIsTheOneThatLaunchedIt(t *testing.T) {
	at := time.Unix(100, 0)
	calls := []sandboxaws.Call{
		{Time: at, Operation: "CreateFleet", Launched: []string{"i-1", "i-2"}},
		{Time: at.Add(time.Second), Operation: "CreateFleet", Launched: []string{"i-3"}},
	}
	if got := fleetCall(calls, sandboxaws.Instance{ID: "i-2"}); !got.Equal(at) {
		t.Errorf("it came at %s, not at %s: another instance's request is newer", got, at)
	}
	if got := fleetCall(nil, sandboxaws.Instance{ID: "i-2", Launched: at}); !got.Equal(at) {
		t.Errorf("without a request it came at %s", got)
	}
}

func TestANodeIsCalledNewOnlyWhereItIs(t *testing.T) {
	at := func(seconds int64) metav1.ObjectMeta {
		return metav1.ObjectMeta{CreationTimestamp: metav1.Unix(seconds, 0)}
	}
	pod := &corev1.Pod{ObjectMeta: at(100), Spec: corev1.PodSpec{NodeName: "n"}}
	for name, c := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"a node made after the pod":    {&corev1.Node{ObjectMeta: at(101)}, "on a node that did not exist when it was created"},
		"a node made before the pod":   {&corev1.Node{ObjectMeta: at(99)}, "on n"},
		"a node that was not observed": {nil, "on n"},
	} {
		if got := younger(c.node, pod); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTheTextFitsIntoAPage(t *testing.T) {
	start := time.Unix(0, 0)
	var out strings.Builder
	printer := Text(&out, start)
	for _, e := range []Event{
		{Event: syncReady, Object: "sync/dev", Detail: "Applied revision main@sha1:f74d83fa3bf381d02dc454f48c0cf211dca6f167: 23 objects"},
		{Event: awsDriftInjected, Object: "rule/" + spotRule, Detail: "by hand: disabled; spot nodes would end without warning"},
		{Event: commentEdited, Object: "nodes#1", Detail: "⛔ 2 objects · 1 node replaced in 2–20 min · 1 pod will not be recreated · −$0.16/h spot · quota ok"},
		{Event: podBound, Object: "pod/tinyllama-inference", Detail: "to ip-10-0-64-4.eu-west-1.compute.internal"},
	} {
		e.At = start.Add(time.Second)
		printer.Print(e)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"main@sha1:f74d83fa: 23 objects\n", " to ip-10-0-64-4\n", "-SpotInterruption\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text has no %q:\n%s", want, &out)
		}
	}
}
