package github_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

// annotated is a check with so many annotations.
func annotated(n int) forge.Check {
	c := forge.Check{Status: forge.Status{Context: "poolwright/plan (dev)", State: forge.ActionRequired, Description: "held"}, Summary: "### held"}
	for i := range n {
		c.Annotations = append(c.Annotations, forge.LineAnnotation{Path: "a.yaml", Line: i + 1, Level: forge.LevelWarning, Message: "held"})
	}
	return c
}

func setCheck(t *testing.T, f *github.Forge, c forge.Check) {
	t.Helper()
	if err := f.Check(t.Context(), sha(1), c); err != nil {
		t.Fatal(err)
	}
}

// A process ends, or its response is lost, at each of the requests that make one check.
func TestACrashInBetweenLeavesOneCheckRun(t *testing.T) {
	c := annotated(120)
	for crash := range 7 {
		for name, lost := range map[string]bool{"before the request arrives": false, "after it was carried out": true} {
			h := newHub(t)
			f, _ := installed(t, h)
			tokens, left := h.before, crash
			h.before = func(w http.ResponseWriter, r *http.Request) bool {
				if tokens(w, r) {
					return true
				}
				if left--; left >= 0 {
					return false
				}
				if left == -1 && lost {
					h.carryOut(r)
				}
				refuse(w, http.StatusBadGateway, "Bad Gateway")
				return true
			}
			err := f.Check(t.Context(), sha(1), c)
			if (err == nil) != (crash == 6) {
				t.Fatalf("%d, %s: %v", crash, name, err)
			}
			for _, run := range h.checks {
				if run.fields["status"] == "completed" && len(run.annotations) != 120 {
					t.Errorf("%d, %s: concluded with %d annotations", crash, name, len(run.annotations))
				}
			}
			h.before = tokens
			setCheck(t, h.installation(t), c)
			posted := h.posted(sha(1), c.Context)
			if len(posted) != 1 || len(posted[0].Annotations) != 120 || posted[0].Conclusion != "action_required" {
				t.Errorf("%d, %s: %d check runs, the newest with %d annotations", crash, name, len(posted), len(posted[0].Annotations))
			}
		}
	}
}

func TestACheckThatIsThereCostsNoWrite(t *testing.T) {
	h := newHub(t)
	f, _ := installed(t, h)
	c := annotated(51)
	setCheck(t, f, c)
	if got := writes(h.counted()); len(got) != 5 { // two tokens, the check run, and two batches
		t.Errorf("wrote %q", got)
	}
	setCheck(t, f, c)
	if got := h.counted(); len(got) != 0 {
		t.Errorf("what is known cost %q", got)
	}
	setCheck(t, h.installation(t), c)
	if got := writes(h.counted()); len(got) != 2 || !strings.HasSuffix(got[0], "/access_tokens") || !strings.HasSuffix(got[1], "/access_tokens") {
		t.Errorf("another process wrote %q", got)
	}
	// One for the next head has nothing to do with it, nor one of another context.
	other := annotated(0)
	if err := f.Check(t.Context(), sha(2), other); err != nil {
		t.Fatal(err)
	}
	other.Context = "poolwright/plan (prod)"
	setCheck(t, f, other)
	if len(h.checks) != 3 {
		t.Errorf("%d check runs", len(h.checks))
	}
}

// The hub itself: no user writes check runs.
func TestAUserHasStatusesOnly(t *testing.T) {
	h := newHub(t)
	setCheck(t, h.forge(t), annotated(3))
	if len(h.checks) != 0 || len(h.statuses) != 1 || h.statuses[0]["state"] != "failure" {
		t.Errorf("%d check runs, statuses %v", len(h.checks), h.statuses)
	}
	c := annotated(0)
	c.State = forge.Neutral
	setCheck(t, h.forge(t), c)
	if got := h.statuses[len(h.statuses)-1]["state"]; got != "success" {
		t.Errorf("got %v", got)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL+"/repos/ada/nodes/check-runs", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + token}, "X-Github-Api-Version": {"2022-11-28"}, "User-Agent": {"test"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("status %d, %v", response.StatusCode, err)
	}
}

func TestAnAppWithoutChecksHasStatusesUntilTheyAreGranted(t *testing.T) {
	h := newHub(t)
	f, requested := installed(t, h)
	delete(h.granted, "checks")
	c := annotated(1)
	setCheck(t, f, c)
	c.Description = "held again"
	setCheck(t, f, c)
	if len(h.checks) != 0 || len(h.statuses) != 2 || len(*requested) != 2 {
		t.Errorf("%d check runs, %d statuses, %d tokens", len(h.checks), len(h.statuses), len(*requested))
	}
	h.change(func(time.Time) { h.granted["checks"], h.clock = "write", h.clock.Add(time.Hour) })
	setCheck(t, f, c)
	if len(h.checks) != 1 {
		t.Errorf("%d check runs once they are granted", len(h.checks))
	}
	// Neither is granted: the remedy names what is missing.
	h.change(func(time.Time) { delete(h.granted, "checks"); delete(h.granted, "statuses") })
	err := h.installation(t).Check(t.Context(), sha(1), c)
	var known *forge.Error
	if !errors.As(err, &known) || !known.Permanent() || !strings.Contains(known.Remedy, `"Commit statuses: Read and write"`) {
		t.Errorf("got %v", err)
	}
}

func TestAnnotationsThatGitHubWouldRefuseAreLeftOut(t *testing.T) {
	h := newHub(t)
	f, _ := installed(t, h)
	c := annotated(1)
	for _, a := range []forge.LineAnnotation{
		{Path: "a.yaml", Line: 1, Level: forge.LevelWarning, Message: "held"}, // the same again
		{Line: 1, Level: forge.LevelWarning, Message: "no file"},
		{Path: "a.yaml", Level: forge.LevelWarning, Message: "no line"},
		{Path: "/etc/passwd", Line: 1, Level: forge.LevelWarning, Message: "absolute"},
		{Path: "../a.yaml", Line: 1, Level: forge.LevelWarning, Message: "outside"},
		{Path: "a.yaml", Line: 1, Level: forge.LevelWarning},
	} {
		c.Annotations = append(c.Annotations, a)
	}
	setCheck(t, f, c)
	if got := h.posted(sha(1), c.Context); len(got) != 1 || len(got[0].Annotations) != 1 {
		t.Errorf("got %+v", got)
	}
}

// Whatever stands between us and GitHub responds.
func TestWhatIsNoCheckRunIsAnErrorAndNoPanic(t *testing.T) {
	for name, body := range map[string]any{
		"null": nil, "a list": []any{nil}, "an object": map[string]any{}, "text": "x",
		"check runs that are none": map[string]any{"total_count": 1, "check_runs": []any{nil, map[string]any{"id": 7, "output": nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			f, _ := installed(t, h)
			tokens := h.before
			h.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !tokens(w, r) {
					write(w, http.StatusOK, body)
				}
				return true
			}
			var known *forge.Error
			if err := f.Check(t.Context(), sha(1), annotated(1)); !errors.As(err, &known) || strings.Contains(err.Error(), "ghs_") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Nobody can update the check runs of the App that was before.
func TestCheckRunsOfAnotherAppAreNotTakenForOurs(t *testing.T) {
	h := newHub(t)
	f, _ := installed(t, h)
	setCheck(t, f, annotated(1))
	h.change(func(time.Time) { h.checks[0].app = anotherAppID })
	c := annotated(1)
	c.State = forge.Neutral
	setCheck(t, h.installation(t), c)
	if len(h.checks) != 2 || h.checks[0].fields["conclusion"] != "action_required" || h.checks[1].fields["conclusion"] != "neutral" || h.checks[1].app != appID {
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
