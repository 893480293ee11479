package limits_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

var start = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)

func TestPassesOverOneRepositoryLeaveRoomForOthers(t *testing.T) {
	var l limits.RepositoryLimiter
	for n := range limits.MaxRunsPerRepository + 2 {
		if got := l.TryAcquire("o/r"); got != (n < limits.MaxRunsPerRepository) {
			t.Errorf("pass %d over one repository begins: %v", n+1, got)
		}
	}
	if !l.TryAcquire("o/other") {
		t.Error("another repository has no turn")
	}
	l.Release("o/r")
	if !l.TryAcquire("o/r") {
		t.Error("what has ended leaves no room")
	}
}

func TestHalfOfWhatWasUsedIsDropped(t *testing.T) {
	by := limits.ByAuthor{}
	by.Add("ada", start, 8*time.Minute)
	by.Add("eve", start.Add(limits.HalfLife), 2*time.Minute)
	for name, test := range map[string]struct {
		author string
		after  time.Duration
		want   time.Duration
	}{
		"at once all of it counts":              {"ada", 0, 8 * time.Minute},
		"before a half-life all of it":          {"ada", limits.HalfLife - 1, 8 * time.Minute},
		"after a half-life half of it":          {"ada", limits.HalfLife, 4 * time.Minute},
		"after two a quarter":                   {"ada", 2 * limits.HalfLife, 2 * time.Minute},
		"another's counts from when it was":     {"eve", 2 * limits.HalfLife, time.Minute},
		"who never had a plan has used nothing": {"bob", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := by.Of(test.author, start.Add(test.after)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	by.Add("eve", start.Add(20*limits.HalfLife), time.Minute)
	if _, kept := by["ada"]; kept {
		t.Error("an author who has not used anything of late is kept")
	}
}

func TestThePauseAfterFailuresGrowsToABound(t *testing.T) {
	var b limits.Backoff
	for n, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, limits.MaxBackoff, limits.MaxBackoff} {
		if b.Failed(start, time.Time{}); b.Failures != n+1 || b.Until.Sub(start) != want {
			t.Errorf("after failure %d: %d counted, the pause is %v, want %v", n+1, b.Failures, b.Until.Sub(start), want)
		}
	}
	for name, test := range map[string]struct{ until, want time.Duration }{
		"a moment that the forge names counts":  {7 * time.Minute, 7 * time.Minute},
		"one in the past counts for nothing":    {-time.Minute, limits.MinBackoff},
		"one in a day is believed for one hour": {24 * time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var b limits.Backoff
			if b.Failed(start, start.Add(test.until)); b.Until.Sub(start) != test.want {
				t.Errorf("the pause is %v, want %v", b.Until.Sub(start), test.want)
			}
		})
	}
}

func TestAuthorsTakeTurns(t *testing.T) {
	var open []forge.PullRequest
	for n := range limits.MaxPlannedPerAuthor + 1 {
		open = append(open, forge.PullRequest{Number: n + 1, Author: "eve"})
	}
	open = append(open, forge.PullRequest{Number: 500, Author: "ada"})
	planned, refused := limits.Admit(open)
	if diff := cmp.Diff(map[int]int{limits.MaxPlannedPerAuthor + 1: limits.MaxPlannedPerAuthor}, refused); diff != "" {
		t.Error(diff)
	}
	if len(planned) != limits.MaxPlannedPerAuthor+1 || planned[0].Number != 1 || planned[1].Number != 500 {
		t.Errorf("%d planned, beginning with %+v", len(planned), planned[:2])
	}
}

func TestOnlySoManyArePlanned(t *testing.T) {
	var open []forge.PullRequest
	want := map[int]int{}
	for n := range limits.MaxPlanned + 3 {
		open = append(open, forge.PullRequest{Number: n + 1, Author: fmt.Sprint("author ", n)})
		if n >= limits.MaxPlanned {
			want[n+1] = limits.MaxPlanned
		}
	}
	planned, refused := limits.Admit(open)
	if diff := cmp.Diff(want, refused); diff != "" || len(planned) != limits.MaxPlanned {
		t.Errorf("%d planned, refused: %s", len(planned), diff)
	}
}
