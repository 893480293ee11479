package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// receiver stands for Flux's notification-controller: it takes events, or hangs until the request ends.
type receiver struct {
	*httptest.Server
	hangs atomic.Bool
	taken atomic.Int64
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		// The server notices that who sent it is gone only once it has read all of it.
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return
		}
		if r.hangs.Load() {
			<-q.Context().Done()
			return
		}
		r.taken.Add(1)
	}))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// outage is something that is away for as long as what it must not slow down is measured.
type outage struct {
	name string
	// begin returns once it is away; end has it back.
	begin, end func()
}

// While Git, what takes notifications, Argo CD or Flux is away, a change by hand is put back, and a node launched for a pending pod, as it is
// while nothing is. One controller has a Sync that reads Git itself, another that applies what source-controller fetched, and the engine;
// Flux and Argo CD apply an object each beside them. No other test runs meanwhile, since this one measures.
func TestInteropDriftIsPutBackAndNodesAreLaunchedDuringEachOutage(t *testing.T) {
	skipWithoutInterop(t)
	const samples, launched = 100, 10
	taker := newReceiver(t)
	e := newEngineFixture(t, "--events-addr="+taker.URL+"/")
	s := newSyncFixtureIn(e.fixture, "outages", engineSystem)
	s.now = &controller{Process: e.now}
	f := newFluxOn(s)
	f.applier = f.program("kustomize-controller")
	a := newArgoCD(s)
	e.addPool(s.name, []string{onDemand}, "c5.large")
	f.declare("v1")
	var direct, byFlux [][]string
	const phases = 5
	for i := range phases {
		direct, byFlux = append(direct, names(fmt.Sprintf("direct%d-", i), samples)), append(byFlux, names(fmt.Sprintf("flux%d-", i), samples))
		for j := range samples {
			f.repo.write("config/"+byFlux[i][j]+".yaml", f.configMap(byFlux[i][j], "v1"))
			f.repo.write("direct/"+direct[i][j]+".yaml", f.configMap(direct[i][j], "v1"))
		}
	}
	for _, by := range []string{"flux", "argocd"} {
		f.repo.write(by+"/own.yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-%s, namespace: %s}\n", by, f.system))
	}
	first := f.repo.commit("Begin")
	f.follows()
	f.syncNamed("direct", every("1h"), func(sync *v1alpha1.Sync) { sync.Spec.Path = "direct" })
	if err := f.hand.Create(t.Context(), f.ownedByFlux("flux", "./flux", true)); err != nil {
		t.Fatal(err)
	}
	app := a.application("argocd", "argocd", nil, automated())
	f.applied(first)
	f.readyAs("direct")
	a.becomes(app, "Synced", "")

	e.addPod(s.name) // The first machine of a type never joins.
	e.eventually("the machine that never joins is launched", func() error {
		if len(e.fleets("c5.large")) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	var usual [4]spread
	for i, phase := range f.outages(taker, a, app) {
		phase.begin()
		claims, fleets := e.launches(s.name, "c5.large", names(fmt.Sprintf("pod%d-", i), launched)...)
		for k, measured := range []struct {
			what  string
			times []time.Duration
			limit time.Duration
		}{
			{"a change of an object of the Sync that follows Flux is put back", f.corrections("v1", byFlux[i]...), eventTimeout},
			{"a change of an object of the Sync that reads Git is put back", f.corrections("v1", direct[i]...), eventTimeout},
			{"a pending pod has a NodeClaim", claims, launchLimit}, {"a node is requested of EC2 for a pending pod", fleets, launchLimit},
		} {
			usual[k] = e.isAsFast(phase.name, measured.what, measured.times, usual[k], measured.limit)
		}
		phase.end()
	}
}

// outages are what is away, one after another, after a time in which nothing is.
func (f *flux) outages(taker *receiver, a *argoCD, app *unstructured.Unstructured) []outage {
	none := func() {}
	return []outage{
		{"nothing is away", none, none},
		{"Git is away", func() {
			f.git.down()
			f.reconcileNamed("direct")
			f.eventually("the Sync that reads Git reports it", func() error {
				if sync, err := f.read("direct"); err != nil || conditions.GetReason(sync, fluxmeta.ReadyCondition) != "SourceUnavailable" {
					return fmt.Errorf("%w: %+v", err, sync.Status.Conditions)
				}
				return nil
			})
		}, f.git.up},
		{"notifications are not taken", func() {
			if taker.taken.Load() == 0 {
				f.Error("no notification was taken before")
			}
			taker.hangs.Store(true)
		}, func() { taker.hangs.Store(false) }},
		{"Argo CD is away", a.end, func() {
			a.run()
			a.refresh(app, "normal")
		}},
		{"Flux is away", func() {
			for _, p := range []interface{ Kill() error }{f.source, f.applier} {
				if err := p.Kill(); err != nil {
					f.Fatal(err)
				}
			}
		}, none},
	}
}

// slower is how much longer than usual the median may take during an outage. It is far from what any outage does, and from the timeouts
// of a controller that waits for what is away, on a machine with much other work.
const slower = 10

// launchLimit is how long a pod may wait once: Karpenter leaves one for ten seconds where its own state is not synced yet.
const launchLimit = 30 * time.Second

// spread is how long something took.
type spread struct{ median, p90, longest time.Duration }

// isAsFast logs and checks how long something took meanwhile, and returns what is usual: how long it took while nothing was away. The
// longest time is below the limit, or twice the usual one.
func (f fixture) isAsFast(meanwhile, what string, times []time.Duration, usual spread, limit time.Duration) spread {
	f.Helper()
	slices.Sort(times)
	now := spread{times[len(times)/2], times[len(times)*9/10-1], times[len(times)-1]}
	if usual == (spread{}) {
		usual = now
	}
	ratio := float64(now.median) / float64(usual.median)
	f.Logf("while %s, %s: p50 %s (%.2f of the usual), p90 %s, longest %s of %d", meanwhile, what, now.median.Round(100*time.Microsecond), ratio, now.p90.Round(100*time.Microsecond),
		now.longest.Round(100*time.Microsecond), len(times))
	// A controller that waits for what is away waits for its timeout, each time or once.
	if ratio > slower || now.longest >= max(limit, 2*usual.longest) {
		f.Errorf("while %s, %s: %+v, and usually %+v", meanwhile, what, now, usual)
	}
	return usual
}

// launches creates pods one after another, each of which needs a node of its own, and returns how long after it the pod has its NodeClaim,
// and CreateFleet is called. The next one waits for the node: while one is on its way, Karpenter may leave a pod for ten seconds.
func (s engineSuite) launches(pool, kind string, pods ...string) (claims, fleets []time.Duration) {
	s.Helper()
	known := map[string]bool{}
	all, err := s.claims(pool)
	if err != nil {
		s.Fatal(err)
	}
	for i := range all {
		known[all[i].Name] = true
	}
	// Longer than any launch, so that one that never ends is a failure of the pod that waits for it.
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute)
	defer cancel()
	events, err := s.hand.Watch(ctx, &karpv1.NodeClaimList{}, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	if err != nil {
		s.Fatal(err)
	}
	defer events.Stop()
	for _, name := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: podSpec(pool)}
		created, claimed, ready := time.Now(), time.Time{}, false
		if err := s.hand.Create(s.Context(), pod); err != nil {
			s.Fatal(err)
		}
		for event := range events.ResultChan() {
			claim, ok := event.Object.(*karpv1.NodeClaim)
			if !ok {
				s.Fatalf("the watch ended: %+v", event.Object)
			}
			if known[claim.Name] {
				continue
			}
			if claimed.IsZero() {
				claimed = time.Now()
			}
			if claim.StatusConditions().Root().IsTrue() {
				known[claim.Name], ready = true, true
				break
			}
		}
		if !ready {
			s.Fatalf("pod %s has no NodeClaim that is ready in time; these are there: %v", name, known)
		}
		tried := s.fleets(kind)
		claims, fleets = append(claims, claimed.Sub(created)), append(fleets, tried[len(tried)-1].Time.Sub(created))
	}
	return claims, fleets
}

// reconcileNamed requests a run of a Sync and does not wait for it.
func (s *syncFixture) reconcileNamed(name string) {
	s.Helper()
	sync := &v1alpha1.Sync{}
	sync.Namespace, sync.Name = s.system, name
	if err := s.hand.Patch(s.Context(), sync, mergePatch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fluxmeta.ReconcileRequestAnnotation, time.Now().Format(time.RFC3339Nano)))); err != nil {
		s.Fatal(err)
	}
}
