package cluster

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/poolwright/poolwright/provision/engine/gate"
)

// around is an API server in which a stock Karpenter may lead.
type around struct {
	client.Reader
	// leads and fails tell what is so at the time of a look.
	leads, fails func() bool
}

func (a around) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if a.fails() {
		return errors.New("the API server is away")
	}
	if leases, ok := into.(*coordinationv1.LeaseList); ok && a.leads() {
		leases.Items = []coordinationv1.Lease{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "karpenter-leader-election"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("another"), RenewTime: new(metav1.NowMicro())},
		}}
	}
	return nil
}

// The how-to of a take-over promises half a minute.
func TestALeaderStopsWithinHalfAMinuteOfAnother(t *testing.T) {
	const never = 24 * time.Hour
	for name, c := range map[string]struct {
		// leads is when the other begins to, fails until when no look proves anything.
		leads, fails time.Duration
		// ends is when the life of this one has ended at the latest; never is not at all.
		ends time.Duration
	}{
		"it was there before":                          {0, 0, 0},
		"it comes right after the first check":         {time.Nanosecond, 0, 30 * time.Second},
		"it comes some day":                            {time.Hour + time.Second, 0, time.Hour + 31*time.Second},
		"checks before it came proved nothing":         {time.Hour, time.Minute, time.Hour + 30*time.Second},
		"it is there, and checks prove it late":        {0, 5 * time.Minute, 5*time.Minute + 30*time.Second},
		"nobody comes, and some checks have no result": {never, time.Minute, never},
		"nobody comes, and all checks prove nothing":   {never, never, never},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				start := time.Now()
				restarted := errors.New("the process is started anew")
				read := Gates{gate.Gates{
					Cluster: "gpu", Region: "eu-central-1", Account: "111122223333", REST: &rest.Config{}, AWS: aws.Config{Region: "eu-central-1"},
					Kube: around{
						leads: func() bool { return time.Since(start) >= c.leads },
						fails: func() bool { return time.Since(start) < c.fails },
					},
				}, New(Config{Restart: func() { cancel(restarted) }}, Desired{}, start)}.watchOthers()
				ended := make(chan error, 1)
				go func() { ended <- read.Start(ctx) }()
				select {
				case <-ctx.Done():
				case <-time.After(never - time.Second):
				}
				lived, cause := time.Since(start), context.Cause(ctx)
				if c.ends == never {
					if cause != nil {
						t.Errorf("it ended after %s: %v", lived, cause)
					}
				} else if !errors.Is(cause, restarted) || lived < c.leads || lived > c.ends {
					t.Errorf("after %s it has ended because of %v, want it after %s, by %s", lived, cause, c.leads, c.ends)
				}
				cancel(nil)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// away is an AWS that cannot be reached.
type away struct{}

func (away) Do(*http.Request) (*http.Response, error) { return nil, errors.New("no route to host") }

// The gates are checked again under a running engine: one that is found closed ends the process at once, and
// ones that cannot be checked the third time in a row.
func TestAGateThatClosesUnderARunningEngineEndsTheProcess(t *testing.T) {
	for name, c := range map[string]struct {
		leads           bool
		after, atLatest time.Duration
	}{
		"another Karpenter leads": {true, 0, blockedRetry},
		"no gate can be checked":  {false, 2 * blockedRetry, gateInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				start := time.Now()
				restarted := errors.New("the process is started anew")
				gates := Gates{gate.Gates{
					Cluster: "gpu", Region: "eu-central-1", Account: "111122223333", REST: &rest.Config{},
					AWS:  aws.Config{Region: "eu-central-1", HTTPClient: away{}, Credentials: aws.AnonymousCredentials{}},
					Kube: around{leads: func() bool { return c.leads }, fails: func() bool { return !c.leads }},
				}, New(Config{Restart: func() { cancel(restarted) }}, Desired{}, start)}
				ended := make(chan error, 1)
				go func() { ended <- gates.recheck().Start(ctx) }()
				select {
				case <-ctx.Done():
				case <-time.After(24 * time.Hour):
				}
				if lived, cause := time.Since(start), context.Cause(ctx); !errors.Is(cause, restarted) || lived < c.after || lived > c.atLatest {
					t.Errorf("after %s it has ended because of %v, want it after %s, by %s", lived, cause, c.after, c.atLatest)
				}
				cancel(nil)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// added counts what is put on a manager.
type added struct {
	manager.Manager
	runnables int
}

func (a *added) Add(manager.Runnable) error {
	a.runnables++
	return nil
}

func TestAManagerChecksAllGatesAndOtherKarpenters(t *testing.T) {
	var to added
	if err := (Gates{}).AddTo(&to); err != nil || to.runnables != 2 {
		t.Errorf("%d were added, %v", to.runnables, err)
	}
}

// Gates that were not checked are not open.
func TestGatesThatCannotBeCheckedBlockTheEngine(t *testing.T) {
	got := (Gates{supervisor: New(Config{}, Desired{}, time.Now())}).Blocking(t.Context())
	if got == nil || got.Reason != "GatesUnchecked" || got.Message == "" {
		t.Errorf("blocked by %+v", got)
	}
}
