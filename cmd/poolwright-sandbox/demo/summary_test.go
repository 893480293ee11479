package demo

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// marked is a timeline with these events, each so many seconds after the first.
func marked(events map[string]int) *timeline {
	marks := newTimeline()
	for name, after := range events {
		marks.mark(name, "", "", time.Unix(int64(after), 0))
	}
	return marks
}

func TestASummaryHasTheTimesOfTheRunBesideThoseOfTheDocument(t *testing.T) {
	marks := marked(map[string]int{podPending: 0, fleetRequested: 1, nodeRegistered: 5, podRunning: 7, podDeleted: 9}) // and nothing terminated
	figures := map[string]figure{"fleetToRegisteredSeconds": {"60 s", true}, "pendingToFleetSeconds": {text: "5 s"}, "driftSeconds": {text: "1 s"}}
	sum := summary(append(taken([]*timeline{newTimeline(), marks}, figures),
		row{field: "costUSD", title: "spent", value: 0.5, unit: inCents},
		row{title: "around the clock", value: 378.72, unit: inDollars, document: figure{"$374", true}}))
	raw, err := json.Marshal(sum)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"costUSD":0.5,"document":{"fleetToRegisteredSeconds":"60 s","pendingToFleetSeconds":"5 s"},` +
		`"fleetToRegisteredSeconds":4,"pendingToFleetSeconds":1,"pendingToRunningSeconds":7}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("the summary (-want +got):\n%s", diff)
	}
	var text strings.Builder
	sum.print(&text)
	const printed = `
                                                 here  the document
  pod pending  -> CreateFleet requested        1.00 s  5 s
  CreateFleet  -> node registered              4.00 s  60 s *
  pod pending  -> pod running on its GPU       7.00 s
  spent                                       $0.5000
  around the clock                            $378.72  $374 *
  * of EC2, of its prices and of images, which the sandbox only simulates
`
	if diff := cmp.Diff(printed, text.String()); diff != "" {
		t.Errorf("the text (-want +got):\n%s", diff)
	}
}

func TestPartsOfATimeAreThereOnlyForADocumentThatHasThem(t *testing.T) {
	marks := marked(map[string]int{fleetRequested: 1, nodeRegistered: 5, gpuAllocatable: 6, podBound: 7, podRunning: 8})
	if rows := taken([]*timeline{marks}, nil); len(rows) > 0 {
		t.Errorf("taken was %v", rows)
	}
}

func TestANodeThatWasKeptDidNotEndWithItsPod(t *testing.T) {
	kept, gone := marked(map[string]int{podDeleted: 0, instanceTerminated: 60, nodeKept: 40}), marked(map[string]int{podDeleted: 0, instanceTerminated: 50})
	got := map[string]float64{}
	for _, r := range taken([]*timeline{kept, gone}, nil) {
		got[r.field] = r.value
	}
	if diff := cmp.Diff(map[string]float64{"deletedToTerminatedSeconds": 50, "keptSeconds": 40}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A figure is of a time that is measured, and each set-up's page has the command that prints them.
func TestFiguresAreOfMeasuresAndEachPageHasTheDemo(t *testing.T) {
	fields := map[string]bool{}
	for _, m := range measures() {
		if fields[m.field] {
			t.Errorf("two measures are %s", m.field)
		}
		fields[m.field] = true
	}
	for name, s := range scenarios() {
		page, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", name, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for field, f := range s.figures {
			if !fields[field] || f.text == "" {
				t.Errorf("%s has a figure %q of %s", name, f.text, field)
			}
		}
		if !strings.Contains(string(page), "make demo SETUP="+name) {
			t.Errorf("the page of %s has no make demo", name)
		}
	}
}

func TestCostsOfADocumentAreComparedWhereThereIsAPriceToday(t *testing.T) {
	raw := `{"document":{"scenarios":[
		{"name":"Always-on","hours":720,"statedUSD":{"min":374,"max":374},"todayUSD":378.72},
		{"name":"Scale-to-zero","hours":60,"statedUSD":{"min":10,"max":30},"todayUSD":9.5},
		{"name":"Unknown","hours":60,"statedUSD":{"min":1,"max":1}}]}}`
	rows, err := costRows([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, r.title+" | "+r.unit(r.value)+" | "+r.document.text)
		// AWS's prices are not the sandbox's.
		if !r.document.simulated {
			t.Errorf("%q is compared with the price of an account", r.title)
		}
	}
	if want := []string{"Always-on, 720 h a month | $378.72 | $374", "Scale-to-zero, 60 h a month | $9.50 | $10–30"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if _, err := costRows([]byte("no JSON")); err == nil {
		t.Error("what is no JSON was read")
	}
}
