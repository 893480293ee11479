package github_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// Nobody can update the check runs of the App that was before.
func TestCheckRunsOfAnotherAppAreNotTakenForOurs(t *testing.T) {
	h := newHub(t)
	f, _ := installed(t, h)
	setCheck(t, f, annotated(1))
	h.change(func(time.Time) { h.checks[0].app = anotherAppID })
	c := annotated(1)
	c.Summary = "### held again" // which would be an update
	setCheck(t, h.installation(t), c)
	if len(h.checks) != 2 || len(h.statuses) != 0 || h.checks[0].app != anotherAppID || h.checks[1].app != appID {
		t.Errorf("%d check runs", len(h.checks))
	}
}

// A server that does not know the filter lists those of all Apps.
func TestAnExternalIDIsOfOneApp(t *testing.T) {
	h := newHub(t)
	f, _ := installed(t, h)
	setCheck(t, f, annotated(1))
	tokens := h.before
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		query := r.URL.Query()
		query.Del("app_id")
		r.URL.RawQuery = query.Encode()
		return tokens(w, r)
	}
	setCheck(t, h.installationOf(t, anotherAppID), annotated(1))
	if len(h.checks) != 2 || h.checks[0].fields["external_id"] == h.checks[1].fields["external_id"] {
		t.Errorf("%d check runs", len(h.checks))
	}
}

func TestAStatusOfBeforeFollowsTheCheck(t *testing.T) {
	for name, refused := range map[string]bool{"with the permission for statuses": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			_, requested := installed(t, h)
			delete(h.granted, "checks")
			c := annotated(0)
			setCheck(t, h.installation(t), c) // failure
			h.change(func(time.Time) {
				h.granted["checks"] = "write"
				if refused {
					delete(h.granted, "statuses")
				}
			})
			f := h.installation(t)
			for _, step := range []struct {
				state forge.State
				want  string
			}{{forge.Pending, "pending"}, {forge.Neutral, "success"}, {forge.ActionRequired, "failure"}} {
				c.State = step.state
				for range 2 {
					setCheck(t, f, c)
				}
				if got := h.statuses[len(h.statuses)-1]["state"]; got != step.want && !refused {
					t.Errorf("%s: the status is %v", step.state, got)
				}
			}
			want, tokens := 4, 4 // Two of them failed in vain for checks.
			if refused {
				want = 1
			}
			if len(h.statuses) != want || len(*requested) != tokens {
				t.Errorf("%d statuses, %d tokens", len(h.statuses), len(*requested))
			}
		})
	}
	// A commit without a status gets none, and is read once.
	h := newHub(t)
	f, _ := installed(t, h)
	for _, state := range []forge.State{forge.Pending, forge.Success} {
		c := annotated(0)
		c.State = state
		setCheck(t, f, c)
	}
	reads := 0
	for _, r := range h.counted() {
		if strings.HasPrefix(r, "GET ") && strings.Contains(r, "/status?") {
			reads++
		}
	}
	if len(h.statuses) != 0 || reads != 1 {
		t.Errorf("%d statuses, read %d times", len(h.statuses), reads)
	}
}

// A status that GitHub does not take now is set by the next attempt.
func TestAStatusOfBeforeIsTriedAgain(t *testing.T) {
	h := newHub(t)
	f, _ := installed(t, h)
	c := annotated(0)
	h.statuses = []map[string]any{{"sha": sha(1), "context": c.Context, "state": "pending"}}
	tokens, outage := h.before, true
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if tokens(w, r) {
			return true
		}
		if outage && r.Method == http.MethodPost && strings.Contains(r.URL.Path, "/statuses/") {
			refuse(w, http.StatusBadGateway, "Bad Gateway")
			return true
		}
		return false
	}
	if err := f.Check(t.Context(), sha(1), c); err == nil {
		t.Error("no error")
	}
	outage = false
	setCheck(t, f, c)
	if len(h.checks) != 1 || len(h.statuses) != 2 || h.statuses[1]["state"] != "failure" {
		t.Errorf("%d check runs, statuses %v", len(h.checks), h.statuses)
	}
}

// A process ends after one of three batches, and the next plan is another.
func TestNoCheckRunIsLeftInProgress(t *testing.T) {
	for _, state := range []forge.State{forge.Pending, forge.Neutral} {
		for _, crash := range []string{http.MethodPatch, http.MethodPost} {
			h := newHub(t)
			f, _ := installed(t, h)
			tokens, patches := h.before, 0
			h.before = func(w http.ResponseWriter, r *http.Request) bool {
				if tokens(w, r) {
					return true
				}
				if r.Method == http.MethodPatch {
					patches++
				}
				if r.Method != http.MethodPatch || patches != 2 {
					return false
				}
				refuse(w, http.StatusBadGateway, "Bad Gateway")
				return true
			}
			if err := f.Check(t.Context(), sha(1), annotated(120)); err == nil {
				t.Fatal("no error")
			}
			next := annotated(0)
			next.State = state
			// It ends again, by the request that concludes the old one or the one that makes the new one.
			again := crash
			h.before = func(w http.ResponseWriter, r *http.Request) bool {
				if tokens(w, r) {
					return true
				}
				if r.Method != again {
					return false
				}
				again = ""
				refuse(w, http.StatusBadGateway, "Bad Gateway")
				return true
			}
			if err := h.installation(t).Check(t.Context(), sha(1), next); err == nil {
				t.Fatal("no error")
			}
			setCheck(t, h.installation(t), next)
			if len(h.checks) != 2 || h.checks[0].fields["status"] != "completed" || h.checks[0].fields["conclusion"] != "cancelled" {
				t.Errorf("%s, %s: %d check runs, the first %v", state, crash, len(h.checks), h.checks[0].fields)
			}
		}
	}
}

func TestACompletedCheckStaysWhereOnlyTheBaseMoves(t *testing.T) {
	h := newHub(t)
	f, _ := installed(t, h)
	again := forge.Check{Status: annotated(0).Status, KeepCompleted: true}
	again.State, again.Description = forge.Pending, "planning for main"
	c := annotated(3)
	for range 5 {
		setCheck(t, f, c)
		setCheck(t, f, again)
	}
	if len(h.checks) != 1 || h.checks[0].fields["conclusion"] != "action_required" {
		t.Errorf("%d check runs", len(h.checks))
	}
	// Where there is none it is shown, and so is a new conclusion.
	if err := f.Check(t.Context(), sha(2), again); err != nil || len(h.checks) != 2 || h.checks[1].fields["status"] != "in_progress" {
		t.Errorf("%d check runs, %v", len(h.checks), err)
	}
	c.State = forge.Neutral
	setCheck(t, f, c)
	if got := h.posted(sha(1), c.Context); got[0].Conclusion != "neutral" {
		t.Errorf("got %+v", got[0])
	}
}

func TestWhichRefusalsLeadToStatuses(t *testing.T) {
	t.Run("the permission is taken while a token is valid", func(t *testing.T) {
		h := newHub(t)
		f, _ := installed(t, h)
		c := annotated(0)
		setCheck(t, f, c)
		h.change(func(time.Time) {
			delete(h.granted, "checks")
			for _, permissions := range h.tokens {
				delete(permissions, "checks")
			}
		})
		c.Description = "held again"
		setCheck(t, f, c)
		if len(h.statuses) != 1 {
			t.Errorf("%d statuses", len(h.statuses))
		}
	})
	t.Run("the installation does not reach the repository for a while", func(t *testing.T) {
		h := newHub(t)
		f, _ := installed(t, h)
		granted := h.granted
		h.granted = nil
		var known *forge.Error
		if err := f.Check(t.Context(), sha(1), annotated(0)); !errors.As(err, &known) || !known.Permanent() {
			t.Errorf("got %v", err)
		}
		h.change(func(time.Time) { h.granted = granted })
		setCheck(t, f, annotated(0))
		if len(h.checks) != 1 || len(h.statuses) != 0 {
			t.Errorf("%d check runs, %d statuses", len(h.checks), len(h.statuses))
		}
	})
}
