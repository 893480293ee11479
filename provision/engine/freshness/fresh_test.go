package freshness

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// api is an API server that tells only resource versions, and its caches.
type api struct {
	version string
	down    error
	lists   int
	caches  map[string]*cache
}

type cache struct {
	filled  bool
	version string
}

func (c *cache) HasSynced() bool                 { return c.filled }
func (c *cache) LastSyncResourceVersion() string { return c.version }

func (a *api) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("unexpected Get")
}

func (a *api) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	a.lists++
	if a.down != nil {
		return a.down
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	if o.Limit != 1 {
		return errors.New("a look must list one object only")
	}
	list.(*metav1.PartialObjectMetadataList).ResourceVersion = a.version
	return nil
}

func setup() (*api, *Monitor, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	a := &api{version: "100", caches: map[string]*cache{"Pod": {true, "90"}, "Node": {true, "80"}}}
	m := New(clock)
	m.Bind(a, []WatchedKind{
		{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Cache: a.caches["Pod"]},
		{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Node"}, Cache: a.caches["Node"]},
	})
	return a, m, clock
}

func refuses(t *testing.T, m *Monitor, part string) {
	t.Helper()
	if err := m.Check(t.Context()); err == nil || !strings.Contains(err.Error(), part) {
		t.Fatalf("got %v, want a refusal that says %q", err, part)
	}
}

func allows(t *testing.T, m *Monitor) {
	t.Helper()
	if err := m.Check(t.Context()); err != nil {
		t.Fatalf("refused: %v", err)
	}
}

func TestNothingIsAllowedBeforeTheCachesAreThere(t *testing.T) {
	refuses(t, New(clocktesting.NewFakePassiveClock(time.Unix(0, 0))), "not set up")
	a, m, _ := setup()
	a.caches["Node"].filled = false
	refuses(t, m, "caches of Node are not filled")
}

func TestAHealthyViewIsAllowedAtTheCostOfOneListAHalfSecond(t *testing.T) {
	a, m, clock := setup()
	for range 3 {
		allows(t, m)
	}
	if a.lists != 1 {
		t.Errorf("%d lists for three checks at one moment", a.lists)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	allows(t, m)
	if a.lists != 2 {
		t.Errorf("%d lists after another second", a.lists)
	}
}

func TestAnUnreachableAPIServerIsRefusedAtOnce(t *testing.T) {
	a, m, clock := setup()
	allows(t, m)
	a.down = errors.New("connection refused")
	clock.SetTime(clock.Now().Add(time.Second))
	refuses(t, m, "connection refused")
}

func TestAfterAnOutageEveryCacheMustCatchUpFirst(t *testing.T) {
	a, m, _ := setup()
	allows(t, m)
	a.down = errors.New("down")
	m.Suspect()
	refuses(t, m, "does not respond")
	a.down = nil
	refuses(t, m, "caches of Node, Pod are not yet proven newer")
	a.caches["Pod"].version = "101"
	a.version = "500" // what happens later is not waited for
	refuses(t, m, "caches of Node are not yet proven newer")
	a.caches["Node"].version = "100"
	allows(t, m)
}

func TestAFailureDuringTheProofStartsItAnew(t *testing.T) {
	a, m, _ := setup()
	m.Suspect()
	refuses(t, m, "not yet proven newer")
	a.version = "200"
	m.Suspect()
	a.caches["Pod"].version, a.caches["Node"].version = "150", "150"
	refuses(t, m, "not yet proven newer")
	a.caches["Pod"].version, a.caches["Node"].version = "200", "201"
	allows(t, m)
}

func TestAVersionThatIsNoNumberProvesNothing(t *testing.T) {
	a, m, _ := setup()
	a.caches["Pod"].version, a.caches["Node"].version = "", "100"
	m.Suspect()
	refuses(t, m, "caches of Pod are not yet proven newer")
}

func TestTransport(t *testing.T) {
	for _, test := range []struct {
		name    string
		method  string
		path    string
		status  int
		err     error
		suspect bool
	}{
		{name: "a read with a response is fine", method: http.MethodGet, status: 200},
		{name: "a read that is not found is fine", method: http.MethodGet, status: 404},
		{name: "throttling is a response", method: http.MethodGet, status: 429},
		{name: "a failed read is suspect", method: http.MethodGet, status: 503, suspect: true},
		{name: "a failed read of a custom kind is suspect", method: http.MethodGet, path: "/apis/karpenter.sh/v1/nodeclaims", status: 500, suspect: true},
		{name: "an aggregated API that is away is not", method: http.MethodGet, path: "/apis/metrics.k8s.io/v1beta1", status: 503},
		{name: "a failed write may be a webhook's", method: http.MethodPost, status: 500},
		{name: "a broken connection is suspect", method: http.MethodPatch, err: io.ErrUnexpectedEOF, suspect: true},
		{name: "our own timeout is suspect", method: http.MethodGet, err: context.DeadlineExceeded, suspect: true},
		{name: "our own cancelling is not", method: http.MethodGet, err: context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, m, clock := setup()
			allows(t, m)
			clock.SetTime(clock.Now().Add(time.Second))
			transport := m.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: test.status, Body: http.NoBody}, test.err
			}))
			request, err := http.NewRequest(test.method, "https://x"+cmp.Or(test.path, "/api/v1/pods"), nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if !errors.Is(err, test.err) {
				t.Errorf("the error became %v", err)
			}
			if err == nil {
				response.Body.Close()
			}
			if test.suspect {
				refuses(t, m, "not yet proven newer")
				return
			}
			allows(t, m)
		})
	}
}
