package gate

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

func restInsecure() rest.TLSClientConfig {
	return rest.TLSClientConfig{Insecure: true, ServerName: "x"}
}

func described(w *fixture) *ekstypes.Cluster {
	data := base64.StdEncoding.EncodeToString(ca(w.eks))
	return &ekstypes.Cluster{Endpoint: &w.eks.URL, CertificateAuthority: &ekstypes.Certificate{Data: &data}}
}

func TestWatch(t *testing.T) {
	bad := ClosedGate{Gate: OtherKarpenter, Message: "found"}
	warning := ClosedGate{Gate: Account, Message: "not proven", Unproven: true}
	for _, test := range []struct {
		name string
		// checks are the answers in turn; reports are what must be told.
		checks, reports [][]ClosedGate
	}{
		{"gates that stay open are nothing to report",
			[][]ClosedGate{nil, nil, nil},
			nil},
		{"a closed gate is reported at once, and its opening",
			[][]ClosedGate{nil, {bad}, {bad}, nil},
			[][]ClosedGate{{bad}, nil}},
		{"a gate that has closed since the engine was built is reported at the first check",
			[][]ClosedGate{{bad}, nil},
			[][]ClosedGate{{bad}, nil}},
		{"an unknown result at the first check does not stop an engine that was built behind open gates",
			[][]ClosedGate{{warning}, {warning}, nil, nil},
			nil},
		{"an unknown result from the first check on stops it when it stays",
			[][]ClosedGate{{warning}, {warning}, {warning}, {warning}},
			[][]ClosedGate{{warning}}},
		{"an unknown result that passes does not stop a running engine",
			[][]ClosedGate{nil, {warning}, {warning}, nil, {warning}, {warning}, nil},
			nil},
		{"an unknown result that stays stops it",
			[][]ClosedGate{nil, {warning}, {warning}, {warning}, {warning}},
			[][]ClosedGate{{warning}}},
		{"evidence beside an unknown result stops it at once",
			[][]ClosedGate{nil, {warning, bad}},
			[][]ClosedGate{{warning, bad}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			clock := clocktesting.NewFakeClock(now())
			var reports [][]ClosedGate
			turn := 0
			watch := Watch{
				Every: 5 * time.Minute, Retry: 30 * time.Second, Clock: clock,
				Report: func(r []ClosedGate) { reports = append(reports, r) },
				Check: func(context.Context) ([]ClosedGate, error) {
					if turn == len(test.checks) {
						cancel()
						return nil, ctx.Err()
					}
					turn++
					return test.checks[turn-1], nil
				},
			}
			done := make(chan error, 1)
			go func() { done <- watch.Start(ctx) }()
			for running := true; running; {
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
					running = false
				case <-time.After(time.Millisecond):
					if clock.HasWaiters() {
						clock.Step(5 * time.Minute)
					}
				}
			}
			if diff := cmp.Diff(test.reports, reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAClosedGateIsCheckedMoreOften(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock := clocktesting.NewFakeClock(now())
	checked := make(chan time.Time)
	watch := Watch{
		Every: 5 * time.Minute, Retry: 30 * time.Second, Clock: clock,
		Report: func([]ClosedGate) {},
		Check: func(context.Context) ([]ClosedGate, error) {
			checked <- clock.Now()
			if clock.Since(now()) == 0 {
				return []ClosedGate{{Gate: Account}}, nil
			}
			return nil, nil
		},
	}
	done := make(chan error, 1)
	go func() { done <- watch.Start(ctx) }()
	for _, after := range []time.Duration{0, 30 * time.Second, 330 * time.Second} {
		var at time.Time
		for at.IsZero() {
			select {
			case at = <-checked:
			case <-time.After(time.Millisecond):
				if clock.HasWaiters() {
					clock.Step(10 * time.Second)
				}
			}
		}
		if got := at.Sub(now()); got != after {
			t.Errorf("checked after %s, want %s", got, after)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
