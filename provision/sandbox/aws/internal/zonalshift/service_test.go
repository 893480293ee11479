package zonalshift

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// still is a clock that stands.
type still struct{ now time.Time }

func (c still) Now() time.Time                                   { return c.now }
func (still) AfterFunc(time.Duration, func()) (stop func() bool) { return func() bool { return true } }

type tagged map[string]string

func (t tagged) Tags() map[string]string { return t }

func TestAShiftIsShownUntilItEnds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	svc := New(&api.Account{ID: "1", Region: "us-east-1", Cluster: "k", Clock: still{now}}, tagged{"team": "ml"})
	svc.ShiftAway("use1-az1", time.Hour)
	before := svc.Clone()
	svc.ShiftAway("use1-az2", 2*time.Hour)
	for _, tt := range []struct {
		name string
		svc  *Service
		at   time.Duration
		want []string
	}{
		{"both at first", svc, 0, []string{"use1-az1", "use1-az2"}},
		{"the longer one after the end of the other", svc, time.Hour, []string{"use1-az2"}},
		{"none after the end of both", svc, 2 * time.Hour, nil},
		{"only the first in a copy from before the second", before, 0, []string{"use1-az1"}},
	} {
		in := &api.Call{Op: operation, Now: now.Add(tt.at), Target: "GET /managedresources/" + url.PathEscape("arn:aws:eks:us-east-1:1:cluster/k")}
		got, err := tt.svc.Table().Operations[operation].Run(in)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		shifts, _ := got.(map[string]any)["zonalShifts"].([]map[string]any)
		if len(shifts) != len(tt.want) {
			t.Errorf("%s: %v", tt.name, shifts)
			continue
		}
		for n, s := range shifts {
			if s["awayFrom"] != tt.want[n] || s["startTime"] != now.Unix() {
				t.Errorf("%s: shift %d is away from %v since %v, want %s since %d", tt.name, n, s["awayFrom"], s["startTime"], tt.want[n], now.Unix())
			}
		}
		if q := tt.svc.Table().Authorizations[operation](in); len(q) != 1 || q[0].Tags["team"] != "ml" {
			t.Errorf("%s: requests to IAM %+v", tt.name, q)
		}
	}
}

func TestOnlyTheClusterIsManaged(t *testing.T) {
	const arn = "arn:aws:eks:us-east-1:1:cluster/k"
	svc := New(&api.Account{ID: "1", Region: "us-east-1", Cluster: "k", Clock: still{}}, tagged{"team": "ml"})
	for id, want := range map[string]bool{
		arn: true, arn + "2": false, "arn:aws:eks:eu-west-1:1:cluster/k": false, "arn:aws:eks:us-east-1:2:cluster/k": false, "k": false,
		"arn:aws:eks:us-east-1:1:nodegroup/k": false, "ARN:aws:eks:us-east-1:1:cluster/k": false,
	} {
		got, err := svc.Table().Operations[operation].Run(&api.Call{Op: operation, Target: "GET /managedresources/" + url.PathEscape(id)})
		var failed *api.Error
		switch {
		case want && (err != nil || got.(map[string]any)["arn"] != arn || got.(map[string]any)["name"] != "k"):
			t.Errorf("%s: %v, %v", id, got, err)
		case !want && (!errors.As(err, &failed) || failed.Code != "ResourceNotFoundException" || failed.Status != http.StatusNotFound):
			t.Errorf("%s: %v, %v", id, got, err)
		}
	}
}

func TestOnlyAManagedResourceIsRouted(t *testing.T) {
	for path, want := range map[string]string{
		"/managedresources/arn": operation, "/managedresources/": "", "/managedresources/a/b": "", "/zonalshifts": "",
	} {
		if got := Route(http.MethodGet, path); got != want {
			t.Errorf("GET %s is %q, want %q", path, got, want)
		}
		if got := Route(http.MethodDelete, path); got != "" {
			t.Errorf("DELETE %s is %q", path, got)
		}
	}
}
