package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// resourceAPI is an API server that serves resource.k8s.io/v1 once served is true, and allows everything.
type resourceAPI struct{ served bool }

func (a *resourceAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	text := `{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": {"allowed": true}}`
	if r.URL.Path == "/apis/resource.k8s.io/v1" {
		if !a.served {
			http.NotFound(w, r)
			return
		}
		text = `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "resource.k8s.io/v1", "resources": [{"name": "deviceclasses"}, {"name": "resourceclaims"}, {"name": "resourceslices"}]}`
	}
	_, _ = w.Write([]byte(text))
}

// One line in Git must not end all provisioning: Karpenter's manager ends where the cache of a kind that it watches is
// never filled.
func TestTheEngineRunsWithoutAGateThatTheAPIServerCannotServe(t *testing.T) {
	for name, c := range map[string]struct {
		gate, served bool // as declared, and as the API server is at the start
		upgraded     bool // the API server serves the kinds later
		off          bool
	}{
		"no gate is declared":                   {},
		"the kinds are served":                  {gate: true, served: true},
		"the kinds are not served":              {gate: true, off: true},
		"the kinds are served after an upgrade": {gate: true, off: true, upgraded: true},
	} {
		t.Run(name, func(t *testing.T) {
			declared := reconcilertest.Cluster(func(c2 *v1alpha1.Cluster) {
				c2.Name = "one"
				if c.gate {
					c2.Spec.Engine.FeatureGates = map[string]bool{engine.GateDRA: true}
				}
			})
			api := &resourceAPI{served: c.served}
			server := httptest.NewServer(api)
			t.Cleanup(server.Close)
			restarts := 0
			config := Config{REST: &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, Restart: func() { restarts++ }}
			s := New(config, desiredOf(declared), time.Now())

			settings := s.SettingsInEffect(t.Context())

			if got, want := settings.EffectiveFeatureGates()[engine.GateDRA], c.gate && !c.off; got != want {
				t.Errorf("the gate is on: %v", got)
			}
			if !s.Running() || s.Desired.Settings.EffectiveFeatureGates()[engine.GateDRA] != c.gate {
				t.Errorf("the engine runs: %v, and what is desired has become %v", s.Running(), s.Desired.Settings.FeatureGates)
			}
			api.served = api.served || c.upgraded
			live := fake.NewClientBuilder().WithScheme(reconcilertest.Client(t).Scheme()).WithObjects(declared).WithStatusSubresource(&v1alpha1.Cluster{}).Build()
			elected := make(chan struct{})
			close(elected)
			w := &reconciler{Supervisor: s, reader: live, writer: live, elected: elected, triedAt: time.Now().Add(-gateRetry)}
			if _, err := w.Reconcile(t.Context(), ctrl.Request{}); err != nil {
				t.Fatal(err)
			}
			if (restarts > 0) != c.upgraded {
				t.Errorf("the controller restarted %d times", restarts)
			}
			reported := &v1alpha1.Cluster{}
			if err := live.Get(t.Context(), client.ObjectKey{Name: "one"}, reported); err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(reported.Status.Conditions, "Ready")
			blocked := meta.FindStatusCondition(reported.Status.Conditions, "EngineBlocked")
			want := "NotBlocked"
			if c.off {
				want = gateOff
			}
			if ready.Status != metav1.ConditionTrue || ready.Reason != EngineRunning || blocked.Status != metav1.ConditionFalse || blocked.Reason != want {
				t.Errorf("the conditions are %+v and %+v", ready, blocked)
			}
		})
	}
}

// What is not known yet is asked again, not at each reconciliation.
func TestAGateThatIsOffIsCheckedAgainLater(t *testing.T) {
	w := &reconciler{Supervisor: &Supervisor{gateOff: &Blocked{Reason: gateOff}}, triedAt: time.Now()}
	if got := w.retryGate(t.Context()); got.RequeueAfter <= 0 || got.RequeueAfter > gateRetry {
		t.Errorf("it is checked again in %s", got.RequeueAfter)
	}
}
