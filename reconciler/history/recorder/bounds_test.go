package recorder

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

func TestAccountingBeginsAtTheFirstObservation(t *testing.T) {
	for name, test := range map[string]struct {
		launched time.Duration
		seconds  float64
		begins   time.Duration
	}{
		"a node that ran for a year before":                        {-365 * 24 * time.Hour, 60, 0},
		"a node that was launched while another became the leader": {-4 * time.Minute, 300, -4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			added := 0.0
			s := NewState(func(_, _ string, _, usd history.States) { added += usd.Paid })
			o := node("a", test.launched, test.launched)
			s.Observe(start, []Observation{o})
			s.Observe(start.Add(time.Minute), []Observation{o})
			h := merge(t, s)
			sum := 0.0
			for _, hour := range h.PoolHours {
				sum += hour.NodeSeconds
			}
			if sum != test.seconds || math.Abs(added-test.seconds/1000) > 1e-9 || math.Abs(*h.NodeClaims[0].USD-added) > 1e-9 {
				t.Errorf("%f seconds are accounted for in %d hours, %f dollars are added", sum, len(h.PoolHours), added)
			}
			if from := h.NodeClaims[0].AccountedFrom; test.begins == 0 != same(from, at(0)) || test.begins != 0 && !from.IsZero() {
				t.Errorf("it is accounted for from %s", from)
			}
		})
	}
}

func TestNoStepOfTheClockIsAccountedForLongerThanAWeek(t *testing.T) {
	s := NewState(nil)
	o := node("a", 0, 0)
	s.Observe(start, []Observation{o})
	s.Observe(start.AddDate(5000, 0, 0), []Observation{o})
	if n := len(s.hours); n > 170 {
		t.Errorf("%d hours are accounted for", n)
	}
	o = node("b", 0, 0)
	s = NewState(nil)
	s.Observe(start, []Observation{o})
	o.Deleted, o.Terminated = at(0), metav1.NewTime(start.AddDate(5000, 0, 0))
	s.Observe(start.Add(time.Minute), []Observation{o})
	if got := merge(t, s).NodeClaims[0]; !same(got.Terminated, at(time.Minute)) {
		t.Errorf("it ended at %s", got.Terminated)
	}
}

// written is a State's bytes from JSON.
func written(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAStateThatSomebodyEditedIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"a price without a sum":      `{"open":[{"uid":"uid-a","nodePool":"gpu","launched":"2026-11-01T09:50:00Z","accounted":"2026-11-01T09:50:00Z","usdPerHour":1}]}`,
		"no time of accounting":      `{"open":[{"uid":"uid-a","nodePool":"gpu","launched":"2026-11-01T09:50:00Z"}]}`,
		"no time at all":             `{"open":[{"uid":"uid-a"}]}`,
		"an empty record":            `{"open":[{}],"nodeClaims":[{}],"poolHours":[{}],"applies":[{}],"drift":[{}],"pullRequests":[{}],"changes":[{}]}`,
		"a closed one without a sum": `{"nodeClaims":[{"uid":"uid-a","usdPerHour":1,"terminationUnobserved":true}]}`,
		"the end of time":            `{"time":"9999-12-31T23:59:59Z","open":[{"uid":"uid-a","launched":"9999-12-31T23:00:00Z","accounted":"9999-12-31T23:00:00Z"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Decode(written(t, text), nil)
			if err != nil {
				t.Fatal(err)
			}
			live(s)
			if n := len(s.hours); n > 400 {
				t.Errorf("%d hours are accounted for", n)
			}
			if _, err := s.Encode(); err != nil {
				t.Error(err)
			}
		})
	}
}

// live does all that is done with a State.
func live(s *State) {
	for i, name := range []string{"a", "b"} {
		o := node(name, 0, 0)
		s.Observe(start.Add(time.Duration(i+1)*time.Minute), []Observation{o})
		o.Deleted, o.Reason = at(3*time.Minute), history.ReasonEmpty
		s.Terminating(start.Add(3*time.Minute), o)
	}
	s.RecordApply(history.Apply{Sync: "dev", Created: 1})
	s.RecordDrift(history.Drift{Sync: "dev"})
	s.RecordPullRequest(history.PullRequest{Sync: "dev"})
	for _, uid := range s.Open() {
		s.Gone(uid)
	}
	s.Observe(start.Add(20*time.Hour), nil)
	if a, err := s.Archive(func(string) bool { return false }); a != nil && err == nil {
		s.Archived(a)
	}
}

func TestAHistoryOfANewerReleaseIsNotRead(t *testing.T) {
	content := written(t, fmt.Sprintf(`{"version":%d}`, formatVersion+1))
	if _, err := Decode(content, nil); err == nil {
		t.Error("the State of a newer release is read, and would be written over")
	}
	if _, err := Merge(content); err == nil {
		t.Error("the records of a newer release are read")
	}
}

func TestARunThatFailsAgainIsOneRecordBesideThoseOfOtherSyncs(t *testing.T) {
	s := NewState(nil)
	for i := range 10 {
		s.RecordApply(history.Apply{Sync: fmt.Sprint("sync-", i%2), Revision: "main@sha1:a", Time: at(time.Duration(i) * time.Minute), Failed: 1})
	}
	if n := len(s.applies); n != 2 {
		t.Errorf("%d applies are recorded", n)
	}
}

func TestABetterPriceReplacesAnApproximateOne(t *testing.T) {
	for name, test := range map[string]struct {
		first *float64
		basis history.PriceBasis
		then  float64
		want  float64
	}{
		"a spot price in place of the maximum": {new(3.6), history.PriceSpotAtMost, 1.8, 1.8},
		"a price in place of none":             {nil, "", 1.8, 1.8},
		"no other in place of AWS' own":        {new(3.6), history.PriceSpotHistory, 1.8, 3.6},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(nil)
			o := node("a", 0, 0)
			o.USDPerHour, o.PriceBasis = test.first, test.basis
			sampled(s, o, 0, 20*time.Minute)
			o.USDPerHour, o.PriceBasis = new(test.then), history.PriceSpotHistory
			if got := s.NeedsPrice("uid-a"); got != (test.basis != history.PriceSpotHistory) {
				t.Errorf("it needs a price: %t", got)
			}
			sampled(s, o, 20*time.Minute, 30*time.Minute)
			h := merge(t, s)
			var usd history.States
			unpriced := 0.0
			for _, hour := range h.PoolHours {
				usd, unpriced = usd.Plus(hour.USD), unpriced+hour.UnpricedSeconds
			}
			if got := h.NodeClaims[0]; math.Abs(*got.USD-test.want/2) > 1e-6 || math.Abs(usd.Paid-test.want/2) > 1e-6 || math.Abs(usd.Idle-test.want/2) > 1e-6 || unpriced != 0 {
				t.Errorf("it costs %f dollars, the hours %+v, %f seconds without a price", *got.USD, usd, unpriced)
			}
		})
	}
}

func TestWhatIsAbsorbedIsNotCountedTwice(t *testing.T) {
	added := 0.0
	s := NewState(func(_, _ string, gpus, _ history.States) { added += gpus.Paid })
	sampled(s, node("a", 0, 0), 0, time.Minute)
	sampled(s, node("b", 0, 0), 0, time.Minute)
	other := NewState(nil)
	sampled(other, node("a", 0, 0), 0, 50*time.Second)
	sampled(other, node("b", 0, 0), 0, 50*time.Second)
	other.Gone("uid-b")
	for range 2 {
		s.Absorb(other)
	}
	h := merge(t, s)
	paid := 0.0
	for _, hour := range h.PoolHours {
		paid += hour.GPUSeconds.Paid
	}
	if paid != 240 || added != 240 || len(h.NodeClaims) != 2 || !h.NodeClaims[1].TerminationUnobserved {
		t.Errorf("%f GPU seconds are paid for, %f are added, nodes: %+v", paid, added, h.NodeClaims)
	}
}

func TestWhatCannotBeWrittenTakesBoundedMemory(t *testing.T) {
	s := NewState(nil)
	for i := range 2 * maxClosed {
		o := node(fmt.Sprint("n", i), 0, 0)
		when := start.Add(time.Duration(i) * time.Hour)
		o.NodePool = fmt.Sprint("pool-", i)
		o.Created, o.Launched, o.Initialized, o.Deleted, o.Terminated = metav1.NewTime(when), metav1.NewTime(when), metav1.NewTime(when), metav1.NewTime(when), metav1.NewTime(when.Add(time.Minute))
		s.Observe(when.Add(time.Minute), []Observation{o})
	}
	if len(s.closed) > maxClosed || len(s.hours) > maxHours {
		t.Errorf("%d nodes and %d hours are kept", len(s.closed), len(s.hours))
	}
}

func TestAnUnobservedTerminationIsReadAsEarlierReleasesWroteIt(t *testing.T) {
	got := map[string]bool{}
	s, err := Decode(written(t, `{"nodeClaims":[{"uid":"former","terminatedLatest":true},{"uid":"observed"},{"uid":"now","terminationUnobserved":true}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range s.closed {
		got[n.UID] = n.TerminationUnobserved
	}
	if d := cmp.Diff(map[string]bool{"former": true, "observed": false, "now": true}, got); d != "" {
		t.Errorf("unobserved terminations (-want +got):\n%s", d)
	}
}

func FuzzState(f *testing.F) {
	s := NewState(nil)
	sampled(s, node("a", 0, 0), 0, time.Minute)
	f.Add(`{"open":[{"uid":"uid-a","launched":"2026-11-01T09:50:00Z","usdPerHour":1}]}`)
	f.Add(`{"time":"2026-11-01T09:50:00Z","nodeClaims":[{"uid":"uid-b","terminationUnobserved":true,"usdPerHour":1}],"poolHours":[{"nodePool":"gpu","hour":"2026-11-01T09:00:00Z"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "\\u") {
			return
		}
		s, err := Decode(written(t, text), nil)
		if err != nil {
			return
		}
		live(s)
		content, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Merge(content); err != nil {
			t.Fatal(err)
		}
	})
}
