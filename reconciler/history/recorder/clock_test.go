package recorder

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/history"
)

// takenOver is the State that the next leader reads.
func takenOver(t *testing.T, s *State) *State {
	t.Helper()
	content, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	next, err := Decode(content, nil)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// sums are the seconds of all nodes by their records and by the hours, which must be the same, and no hour of one node may be longer
// than an hour.
func sums(t *testing.T, h history.History) (seconds float64) {
	t.Helper()
	claims := 0.0
	for _, n := range h.NodeClaims {
		claims += n.GPUSeconds.Paid / float64(n.GPUs)
	}
	for _, p := range h.PoolHours {
		seconds += p.NodeSeconds
		if p.NodeSeconds > 3600+1e-6 || p.NodeSeconds < 0 || p.GPUSeconds.Idle < 0 || p.GPUSeconds.Unobserved < 0 {
			t.Errorf("an hour has %+v", p)
		}
		if !p.Hour.Equal(new(at(p.Hour.Truncate(time.Hour).Sub(start)))) {
			t.Errorf("an hour begins at %v", p.Hour)
		}
	}
	if math.Abs(claims-seconds) > 1e-6 {
		t.Errorf("the nodes have %f seconds, the hours %f", claims, seconds)
	}
	return seconds
}

// A leader whose clock is wrong hands over to one whose clock is right: what is paid is exact in the end, and what was not observed is
// marked.
func TestALeaderWithAWrongClockCountsNothingTwiceOrNever(t *testing.T) {
	const before, wrong, all = 20 * time.Minute, 10 * time.Minute, 100 * time.Minute
	for name, c := range map[string]struct{ skew, unobserved time.Duration }{
		"an hour ahead":    {time.Hour, time.Hour},
		"an hour behind":   {-time.Hour, wrong},
		"a second ahead":   {time.Second, 0},
		"a second behind":  {-time.Second, 0},
		"a minute behind":  {-time.Minute, 0},
		"neither of them":  {0, 0},
		"half a day ahead": {12 * time.Hour, 12 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := NewState(nil), node("a", 0, 0)
			sampled(s, o, 0, before)
			s = takenOver(t, s)
			for real := before; real <= before+wrong; real += 5 * time.Second {
				s.Observe(start.Add(real+c.skew), []Observation{o})
			}
			s = takenOver(t, s)
			end := max(all, before+wrong+c.skew+time.Minute)
			sampled(s, o, before+wrong, end)
			o.Deleted, o.Terminated, o.Reason = at(end), at(end), history.ReasonEmpty
			s.Observe(start.Add(end), []Observation{o})
			h := merge(t, s)
			if got := sums(t, h); math.Abs(got-end.Seconds()) > 1e-6 {
				t.Errorf("%f seconds are accounted for, not %f", got, end.Seconds())
			}
			n := h.NodeClaims[0]
			if len(h.NodeClaims) != 1 || n.TerminationUnobserved || !same(n.Terminated, at(end)) {
				t.Errorf("the nodes are %+v", h.NodeClaims)
			}
			// A takeover is a gap of its own.
			if got, slack := n.GPUSeconds.Unobserved/2, (3 * time.Minute).Seconds(); got < c.unobserved.Seconds()-slack || got > c.unobserved.Seconds()+slack {
				t.Errorf("%f seconds are not observed, want about %v", got, c.unobserved)
			}
		})
	}
}

// A node that ends while the leader's clock is wrong is wrong by that much at most, and does not end before it began.
func TestANodeThatEndsByAWrongClockIsWrongByThatMuchAtMost(t *testing.T) {
	const before, lived = 20 * time.Minute, 25 * time.Minute
	for _, skew := range []time.Duration{-12 * time.Hour, -time.Hour, -10 * time.Second, 10 * time.Second, time.Hour} {
		for _, observed := range []bool{true, false} {
			t.Run(fmt.Sprint(skew, " observed ", observed), func(t *testing.T) {
				s, o := NewState(nil), node("a", 0, 0)
				sampled(s, o, 0, before)
				s = takenOver(t, s)
				end := lived + skew
				if observed {
					o.Deleted, o.Terminated, o.Reason = at(end), at(end), history.ReasonEmpty
					s.Observe(start.Add(end), []Observation{o})
				} else {
					s.Terminating(start.Add(end), o)
					s.Gone(o.UID)
				}
				s = takenOver(t, s)
				s.Gone(o.UID)
				h := merge(t, s)
				got := sums(t, h)
				if n := h.NodeClaims[0]; len(h.NodeClaims) != 1 || n.Terminated.Before(&n.Launched) || math.Abs(n.Terminated.Sub(n.Launched.Time).Seconds()-got) > 1 {
					t.Errorf("the nodes are %+v, with %f seconds", h.NodeClaims, got)
				}
				if wrong := math.Abs(got - lived.Seconds()); wrong > skew.Abs().Seconds()+1e-6 || got < before.Seconds() {
					t.Errorf("%f seconds are accounted for, not %f", got, lived.Seconds())
				}
			})
		}
	}
}

// Whatever the leader's clock does, nothing is negative or counted twice, and the sums of records and hours are the same.
func TestAClockThatJumpsAtRandomBreaksNoSum(t *testing.T) {
	jumps := []time.Duration{0, time.Hour, -time.Hour, 2 * time.Hour, -30 * time.Minute, 59 * time.Minute, -2 * time.Hour, time.Second, 0}
	for first := range jumps {
		s, o := NewState(nil), node("a", 0, 0)
		latest := time.Duration(0)
		s.Observe(start, []Observation{o}) // One that is found an hour after its launch is accounted for from then on.
		for i := range 40 {
			real := time.Duration(i) * 7 * time.Minute
			skew := jumps[(first+i*i)%len(jumps)]
			if real+skew < 0 {
				continue
			}
			latest = max(latest, real+skew)
			s.Observe(start.Add(real+skew), []Observation{o})
			if i%5 == 0 {
				s = takenOver(t, s)
			}
		}
		if got := sums(t, merge(t, s)); math.Abs(got-latest.Seconds()) > 1e-6 {
			t.Errorf("from jump %d on: %f seconds are accounted for, not %f", first, got, latest.Seconds())
		}
	}
}

// An hour has what ran in it: launches and ends a second before, at and after its edge.
func TestAtTheEdgeOfAnHourEachPartIsInItsHour(t *testing.T) {
	edge := start.Truncate(time.Hour).Add(time.Hour).Sub(start)
	for _, launched := range []time.Duration{-time.Second, 0, time.Second} {
		for _, lived := range []time.Duration{500 * time.Millisecond, time.Second, 59 * time.Second, time.Minute, time.Hour - time.Second, time.Hour, time.Hour + time.Second, 2*time.Hour + 2*time.Second} {
			t.Run(fmt.Sprint(launched, " for ", lived), func(t *testing.T) {
				from := edge + launched
				s, o := NewState(nil), node("a", from, from)
				for now := from; now < from+lived; now += 5 * time.Second {
					s.Observe(start.Add(now), []Observation{o})
				}
				o.Deleted, o.Terminated, o.Reason = at(from+lived), at(from+lived), history.ReasonEmpty
				s.Observe(start.Add(from+lived), []Observation{o})
				h := merge(t, s)
				if got := sums(t, h); math.Abs(got-lived.Seconds()) > 1e-6 {
					t.Errorf("%f seconds are accounted for", got)
				}
				usd := 0.0
				for _, p := range h.PoolHours {
					usd += p.USD.Paid
					in := min(from+lived, p.Hour.Sub(start)+time.Hour) - max(from, p.Hour.Sub(start))
					if want := max(0, in).Seconds(); math.Abs(p.NodeSeconds-want) > 1e-6 {
						t.Errorf("the hour %v has %f seconds, want %f", p.Hour, p.NodeSeconds, want)
					}
				}
				if want := max(time.Minute, lived).Hours() * 3.6; math.Abs(usd-want) > 1e-9 {
					t.Errorf("it cost $%f, want $%f", usd, want)
				}
			})
		}
	}
}
