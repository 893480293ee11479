package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/ui/server"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
)

const system = "poolwright-system"

// spotNode is the NodeClaim of a spot instance and its Node, which advertises a GPU.
func spotNode(name, pool string) (claim, node string) {
	labels := fmt.Sprintf(`{"karpenter.sh/nodepool":%q,"karpenter.sh/capacity-type":"spot","node.kubernetes.io/instance-type":"g4dn.xlarge","topology.kubernetes.io/region":"us-east-1","topology.kubernetes.io/zone":"us-east-1a"}`, pool)
	condition := func(kind string) string {
		return fmt.Sprintf(`{"type":%q,"status":"True","reason":"a","lastTransitionTime":"2026-11-26T11:00:00Z"}`, kind)
	}
	claim = fmt.Sprintf(`{"kind":"NodeClaim","apiVersion":"karpenter.sh/v1","metadata":{"name":%q,"uid":%q,"resourceVersion":"2","creationTimestamp":"2026-11-26T11:00:00Z","labels":%s},"status":{"nodeName":"ip-%s","conditions":[%s,%s,%s]}}`,
		name, name, labels, name, condition("Launched"), condition("Registered"), condition("Initialized"))
	node = fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"ip-%s","uid":"node-%s","resourceVersion":"2","creationTimestamp":"2026-11-26T11:00:00Z","labels":%s},"status":{"allocatable":{"nvidia.com/gpu":"1"},"conditions":[%s]}}`, name, name, labels, condition("Ready"))
	return claim, node
}

// overviewOf is what /api/v1/overview of poolwright ui serves.
func overviewOf(t *testing.T, cfg *rest.Config, now func() time.Time, ready func(*Cache) bool) (r get.Report) {
	t.Helper()
	w, err := Start(t.Context(), cfg, Options{SyncNamespace: system, HistoryNamespace: system}, now)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return ready(w) })
	const host = "127.0.0.1:8090"
	s, token, err := server.New(t.Context(), server.Config{Documents: w, Namespace: system, Changed: w.Changed(), Hosts: []string{host}, Port: "8090", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Handler()
	if err != nil {
		t.Fatal(err)
	}
	var cookies []*http.Cookie
	request := func(target string) *http.Response {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+target, nil)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		out := httptest.NewRecorder()
		h.ServeHTTP(out, r)
		return out.Result()
	}
	cookies = request("/login?token=" + token).Cookies()
	response := request("/api/v1/overview")
	content, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", response.Status, content, err)
	}
	return r
}

// printedBy is what poolwright get prints of a section; an empty one is all.
func printedBy(t *testing.T, cfg *rest.Config, now func() time.Time, section ...string) (r get.Report) {
	t.Helper()
	var out bytes.Buffer
	cmd := get.NewCommand(get.Environment{
		Config: func() (*rest.Config, error) { return cfg, nil }, Namespace: func() string { return system }, Out: &out, Err: io.Discard, Now: now,
	})
	cmd.SetArgs(append(section, "-o", "json"))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Page and command have one source of prices, on the same objects: what the controller has recorded, and else the catalog.
func TestThePageAndTheCommandHaveTheSamePrices(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	now := func() time.Time { return at }
	running := recorder.Observation{NodeClaim: history.NodeClaim{
		Name: "gpu-a", UID: "gpu-a", NodePool: "gpu", GPUs: 1, USDPerHour: new(0.21), PriceBasis: history.PriceSpotHistory,
		Lifecycle: history.Lifecycle{Created: metav1.NewTime(at.Add(-time.Hour)), Launched: metav1.NewTime(at.Add(-time.Hour))},
	}}
	recorded := recordedAt(t, 2, at, running)
	decoded := func(w *Cache) bool { h, err := w.History(t.Context()); return err == nil && len(h.NodeClaims) == 1 }
	always := func(*Cache) bool { return true }
	catalogs := get.USD{Min: 0.0526, Max: 0.526}
	for name, test := range map[string]struct {
		configMaps []string
		forbidden  []string
		// ready is when the page has read the history.
		ready func(*Cache) bool
		want  get.USD
	}{
		"a recorded price":              {[]string{recorded}, nil, decoded, get.USD{Min: 0.21, Max: 0.21}},
		"nothing is recorded":           {nil, nil, always, catalogs},
		"no permission for the history": {[]string{recorded}, []string{"configmaps"}, always, catalogs},
		"a history that is damaged": {
			[]string{strings.Replace(recorded, `"history.json.gz":"`, `"history.json.gz":"AAAA`, 1)}, nil, func(w *Cache) bool { _, err := w.History(t.Context()); return err != nil }, catalogs,
		},
	} {
		t.Run(name, func(t *testing.T) {
			api, cfg := newAPIServer(t)
			api.forbidden = test.forbidden
			api.objects["nodepools"] = []string{nodePool("gpu"), nodePool("other")}
			for _, of := range [][2]string{{"gpu-a", "gpu"}, {"gpu-b", "gpu"}, {"other-a", "other"}} {
				claim, node := spotNode(of[0], of[1])
				api.objects["nodeclaims"], api.objects["nodes"] = append(api.objects["nodeclaims"], claim), append(api.objects["nodes"], node)
			}
			api.objects["configmaps"] = test.configMaps
			page, all := overviewOf(t, cfg, now, test.ready), printedBy(t, cfg, now)
			// Which permission is missing differs, since the command reads by name what the page watches.
			for _, r := range []get.Report{page, all} {
				for i := range r.IncompleteKinds {
					r.IncompleteKinds[i].Message = ""
				}
			}
			if diff := cmp.Diff(page, all); diff != "" {
				t.Errorf("poolwright get differs from the page (-page +get):\n%s", diff)
			}
			if diff := cmp.Diff(page.Nodes, printedBy(t, cfg, now, "nodes").Nodes); diff != "" {
				t.Errorf("poolwright get nodes differs from the page (-page +get):\n%s", diff)
			}
			if diff := cmp.Diff(page.Pools, printedBy(t, cfg, now, "pools").Pools); diff != "" {
				t.Errorf("poolwright get pools differs from the page (-page +get):\n%s", diff)
			}
			sum := get.USD{Min: test.want.Min + catalogs.Min, Max: test.want.Max + catalogs.Max}
			for of, prices := range map[string][2]*get.USD{"the node": {&test.want, all.Nodes[0].USDPerHour}, "its pool": {&sum, all.Pools[0].USDPerHour}} {
				if diff := cmp.Diff(prices[0], prices[1], cmpopts.EquateApprox(0, 1e-9)); diff != "" {
					t.Errorf("%s costs (-want +got):\n%s", of, diff)
				}
			}
		})
	}
}
