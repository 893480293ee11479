package zonalshift

import (
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
			if s["awayFrom"] != tt.want[n] {
				t.Errorf("%s: shift %d is away from %v, want %s", tt.name, n, s["awayFrom"], tt.want[n])
			}
		}
		if q := tt.svc.Table().Authorizations[operation](in); len(q) != 1 || q[0].Tags["team"] != "ml" {
			t.Errorf("%s: requests to IAM %+v", tt.name, q)
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
