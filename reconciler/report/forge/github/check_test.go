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
	c.Annotations = append(c.Annotations,
		forge.LineAnnotation{Path: "a.yaml", Line: 1, Level: forge.LevelWarning, Message: "held"}, // the same again
		forge.LineAnnotation{Line: 1, Level: forge.LevelWarning, Message: "no file"},
		forge.LineAnnotation{Path: "a.yaml", Level: forge.LevelWarning, Message: "no line"},
		forge.LineAnnotation{Path: "/etc/passwd", Line: 1, Level: forge.LevelWarning, Message: "absolute"},
		forge.LineAnnotation{Path: "../a.yaml", Line: 1, Level: forge.LevelWarning, Message: "outside"},
		forge.LineAnnotation{Path: "a.yaml", Line: 1, Level: forge.LevelWarning},
	)
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
