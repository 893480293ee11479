package wiretap

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

func TestAFaultOfAPeriodHappensToEachRequestInIt(t *testing.T) {
	now := time.Unix(0, 0)
	w := newWired(t)
	w.clock = func() time.Time { return now }
	armed := w.Arm(Fault{Nth: 2, For: time.Minute, Do: Respond, Status: 429, Header: http.Header{"Retry-After": {"1"}}})
	for _, c := range []struct {
		name   string
		after  time.Duration
		status int
	}{
		{"before its first request", 0, 201},
		{"its first request", time.Hour, 429},
		{"within the period", 59 * time.Second, 429},
		{"after the period", time.Second, 201},
		{"never again", time.Hour, 201},
	} {
		now = now.Add(c.after)
		if status, _ := w.post(t, "a"); status != c.status {
			t.Errorf("%s: status %d, want %d", c.name, status, c.status)
		}
	}
	if !armed.Disarm() {
		t.Error("it was not met")
	}
	select {
	case <-armed.Done():
	default:
		t.Error("it is not done")
	}
}

func TestAResponseHasItsHeader(t *testing.T) {
	w := newWired(t)
	w.Arm(Fault{Do: Respond, Status: 429, Header: http.Header{"Retry-After": {"1"}}})
	response, err := http.Get(w.listener.URL() + configMaps)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := response.Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After is %q", got)
	}
}

func TestATruncatedResponseIsNotTakenForTheWhole(t *testing.T) {
	w := newWired(t)
	w.Arm(Fault{At: Point{Wire: trace.Kubernetes}, After: true, Do: Truncate})
	response, err := http.Get(w.listener.URL() + configMaps)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil || len(content) == 0 || response.StatusCode != http.StatusCreated {
		t.Errorf("%s, %q, %v", response.Status, content, err)
	}
	if w.served.Load() != 1 {
		t.Error("the server did not get the request")
	}
}
