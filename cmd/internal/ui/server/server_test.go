package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/ui/page"
	"github.com/poolwright/poolwright/reconciler/causes"
	"github.com/poolwright/poolwright/reconciler/history"
)

const host = "127.0.0.1:8090"

// documents are those of a cluster that is always the same.
type documents struct {
	changed     chan struct{}
	reports     atomic.Int32
	pending     atomic.Int32
	explained   atomic.Int32
	err         error
	interrupted *page.Interruption
	history     history.History
	historyErr  error
	// nodes are those of the report.
	nodes []get.Node
}

func (d *documents) Report(context.Context) (get.Report, error) {
	d.reports.Add(1)
	if d.err != nil {
		return get.Report{}, d.err
	}
	pending := int(d.pending.Load())
	r := get.Report{
		TypeMeta: metav1.TypeMeta{APIVersion: "report.poolwright.dev/v1alpha1", Kind: "Overview"}, Time: metav1.NewTime(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)),
		Summary: &get.Summary{Cluster: "dev", Region: "eu-west-1", PendingGPUPods: &pending}, Nodes: d.nodes,
	}
	if len(d.nodes) == 1 {
		r.Summary.Nodes, r.Summary.USDPerHour = &get.NodeCounts{Total: 1}, d.nodes[0].USDPerHour
	}
	return r, nil
}

func (d *documents) Explain(_ context.Context, o explain.Object) (explain.Explanation, error) {
	d.explained.Add(1)
	if o.Name == "missing" {
		return explain.Explanation{}, explain.NotFound{Message: "there is neither a node nor a NodeClaim"}
	}
	return explain.Explanation{
		TypeMeta: metav1.TypeMeta{APIVersion: "report.poolwright.dev/v1alpha1", Kind: "Explanation"}, Object: o.Kind + "/" + o.Namespace + "/" + o.Name, Causes: []causes.Cause{{Reason: "NotEmpty"}},
	}, d.err
}

func (d *documents) History(context.Context) (history.History, error) { return d.history, d.historyErr }

func (d *documents) Interrupted() *page.Interruption { return d.interrupted }

func newDocuments() *documents { return &documents{changed: make(chan struct{}, 1)} }

// started is a server with its token.
func started(t *testing.T, d *documents) (http.Handler, *Server, string) {
	t.Helper()
	s, token, err := New(t.Context(), Config{Documents: d, Changed: d.changed, Hosts: []string{host, "localhost:8090"}, Port: "8090", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Handler()
	if err != nil {
		t.Fatal(err)
	}
	return h, s, token
}

// do sends a request.
func do(h http.Handler, method, target string, change ...func(*http.Request)) *http.Response {
	// A stream that is not refused ends with it.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r := httptest.NewRequest(method, "http://"+host+target, nil).WithContext(ctx)
	r.Host = host
	for _, ch := range change {
		ch(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// loggedIn exchanges the token, and returns what adds the cookie.
func loggedIn(t *testing.T, h http.Handler, token string) func(*http.Request) {
	t.Helper()
	r := do(h, http.MethodGet, "/login?token="+token)
	if r.StatusCode != http.StatusOK || len(r.Cookies()) != 1 {
		t.Fatalf("the login returned %s and %d cookies", r.Status, len(r.Cookies()))
	}
	return func(req *http.Request) { req.AddCookie(r.Cookies()[0]) }
}

func TestTheTokenIsExchangedOnceAndIsGoneFromTheAddress(t *testing.T) {
	h, s, token := started(t, newDocuments())
	for name, target := range map[string]string{"a wrong token": "/login?token=x", "no token": "/login", "an empty token": "/login?token=", "the token of another path": "/?token=" + token} {
		if r := do(h, http.MethodGet, target); r.StatusCode != http.StatusUnauthorized || len(r.Cookies()) > 0 {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
	r := do(h, http.MethodGet, "/login?token="+token)
	// A redirect would be requested without the cookie where another site has the link.
	if got := body(t, r); r.StatusCode != http.StatusOK || !strings.Contains(got, `content="0;url=/"`) || strings.Contains(got, token) {
		t.Fatalf("the login returned %s: %s", r.Status, got)
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Value == token || len(c.Value) < 20 || c.Name != "poolwright-8090" {
		t.Errorf("the cookie is %+v", c)
	}
	withCookie := func(r *http.Request) { r.AddCookie(c) }
	if r := do(h, http.MethodGet, "/", withCookie); r.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %s", r.Status)
	}
	if r := do(h, http.MethodGet, "/login?token="+token, withCookie); r.StatusCode != http.StatusOK || len(r.Cookies()) > 0 {
		t.Errorf("the browser that has the cookie got %s and %d more", r.Status, len(r.Cookies()))
	}
	select {
	case <-s.Reused():
		t.Error("one browser alone has ended the server")
	default:
	}
}

// Of two who have the token one should not: neither is served any more.
func TestASecondUseOfTheTokenEndsTheSession(t *testing.T) {
	h, s, token := started(t, newDocuments())
	cookie := loggedIn(t, h, token)
	for range 2 {
		if again := do(h, http.MethodGet, "/login?token="+token); again.StatusCode != http.StatusUnauthorized || len(again.Cookies()) > 0 {
			t.Errorf("a second use returned %s", again.Status)
		}
	}
	<-s.Reused()
	<-s.hub.ctx.Done()
	for _, target := range []string{"/", "/updates/", "/api/v1/overview"} {
		if r := do(h, http.MethodGet, target, cookie); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s with the cookie of the first: %s", target, r.Status)
		}
	}
}

func TestOnlyGetUsesTheTokenUp(t *testing.T) {
	h, _, token := started(t, newDocuments())
	if r := do(h, http.MethodHead, "/login?token="+token); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != http.MethodGet || len(r.Cookies()) > 0 {
		t.Errorf("HEAD: %s", r.Status)
	}
	loggedIn(t, h, token)
}

func TestNothingIsServedWithoutTheCookie(t *testing.T) {
	d := newDocuments()
	h, _, token := started(t, d)
	loggedIn(t, h, token)
	for _, target := range []string{"/", "/assets/style.css", "/favicon.svg", "/updates/", "/updates/savings", "/api/v1/overview", "/api/v1/pods/a/b", "/api/v1/history", "/api/v1/events", "/api/v1/savings.csv", "/pods/a/b", "/nodes/a", "/pulls/1", "/savings", "/events", "/nothing"} {
		for name, change := range map[string]func(*http.Request){
			"no cookie":           func(*http.Request) {},
			"a wrong cookie":      func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "poolwright-8090", Value: "x"}) },
			"an empty cookie":     func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "poolwright-8090"}) },
			"the token as one":    func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "poolwright-8090", Value: token}) },
			"the token, a header": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) },
		} {
			if r := do(h, http.MethodGet, target, change); r.StatusCode != http.StatusUnauthorized || strings.Contains(body(t, r), "dev") {
				t.Errorf("%s with %s: %s", target, name, r.Status)
			}
		}
	}
	if n := d.reports.Load(); n > 0 {
		t.Errorf("the cluster was read %d times for nobody", n)
	}
}

// A site whose name resolves to 127.0.0.1 has its own Host in the requests of its scripts.
func TestAnotherHostIsRefused(t *testing.T) {
	h, _, token := started(t, newDocuments())
	cookie := loggedIn(t, h, token)
	for _, other := range []string{"evil.example", "evil.example:8090", "127.0.0.1", "127.0.0.1:80", "localhost", "", "127.0.0.1:8090.evil.example", "[::1]:8090"} {
		for _, target := range []string{"/", "/login?token=" + token, "/updates/", "/api/v1/overview"} {
			r := do(h, http.MethodGet, target, cookie, func(r *http.Request) { r.Host = other })
			if r.StatusCode != http.StatusMisdirectedRequest || len(r.Cookies()) > 0 {
				t.Errorf("%s of host %q: %s", target, other, r.Status)
			}
		}
	}
	if r := do(h, http.MethodGet, "/", cookie, func(r *http.Request) { r.Host = "localhost:8090" }); r.StatusCode != http.StatusOK {
		t.Errorf("localhost: %s", r.Status)
	}
}

func TestOnlyGetAndHeadAreAllowed(t *testing.T) {
	h, _, token := started(t, newDocuments())
	cookie := loggedIn(t, h, token)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace, "PROPFIND"} {
		for _, target := range []string{"/", "/login?token=" + token, "/updates/", "/api/v1/overview", "/pods/a/b", "/assets/page.js"} {
			r := do(h, method, target, cookie)
			if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %s", method, target, r.Status)
			}
		}
	}
	for _, target := range []string{"/", "/updates/", "/api/v1/overview", "/assets/page.js"} {
		if r := do(h, http.MethodHead, target, cookie); r.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: %s", target, r.Status)
		}
	}
}

func TestEveryResponseHasThePolicies(t *testing.T) {
	h, _, token := started(t, newDocuments())
	cookie := loggedIn(t, h, token)
	responses := map[string]*http.Response{
		"a page": do(h, http.MethodGet, "/", cookie), "a file": do(h, http.MethodGet, "/assets/page.js", cookie), "a document": do(h, http.MethodGet, "/api/v1/overview", cookie),
		"no page": do(h, http.MethodGet, "/x", cookie), "no cookie": do(h, http.MethodGet, "/"), "a login": do(h, http.MethodGet, "/login"), "another method": do(h, http.MethodPost, "/", cookie),
		"another host": do(h, http.MethodGet, "/", func(r *http.Request) { r.Host = "x" }),
	}
	for name, r := range responses {
		for header, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "", "X-Robots-Tag": "noindex",
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
		} {
			if got := r.Header.Get(header); got != want {
				t.Errorf("%s has the header %s: %q", name, header, got)
			}
		}
	}
}

func TestThePagesAndDocuments(t *testing.T) {
	d := newDocuments()
	h, _, token := started(t, d)
	cookie := loggedIn(t, h, token)
	var overview bytes.Buffer
	report, err := d.Report(t.Context())
	if err == nil {
		err = report.WriteJSON(&overview)
	}
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]struct {
		code    int
		content string
	}{
		"/":                     {http.StatusOK, "<bdi>dev</bdi>"},
		"/?hours=24":            {http.StatusOK, `href="/?hours=24#nodes" aria-current="true"`},
		"/?hours=5":             {http.StatusOK, `href="/?hours=1#nodes" aria-current="true"`},
		"/?hours=x":             {http.StatusOK, `href="/?hours=1#nodes" aria-current="true"`},
		"/pods/ml/train":        {http.StatusOK, "pod/ml/train"},
		"/pods/ml/a%2Fb":        {http.StatusOK, "pod/ml/a/b"},
		"/nodes/ip-1":           {http.StatusOK, "node//ip-1"},
		"/pools/nodes":          {http.StatusOK, "pool//nodes"},
		"/api/v1/overview":      {http.StatusOK, overview.String()},
		"/api/v1/pods/ml/train": {http.StatusOK, `"object": "pod/ml/train"`},
		"/api/v1/nodes/a":       {http.StatusOK, `"object": "node//a"`},
		"/api/v1/pools/a":       {http.StatusOK, `"object": "pool//a"`},
		"/favicon.svg":          {http.StatusOK, "<svg"},
		"/assets/style.css":     {http.StatusOK, "prefers-color-scheme"},
		"/assets/nothing":       {http.StatusNotFound, ""},
		"/nothing":              {http.StatusNotFound, "There is no such page"},
		"/api/v1/secrets":       {http.StatusNotFound, ""},
		"/nodes/missing":        {http.StatusNotFound, "Not found"},
		"/api/v1/nodes/missing": {http.StatusNotFound, "neither"},
	} {
		r := do(h, http.MethodGet, target, cookie)
		if got := body(t, r); r.StatusCode != want.code || !strings.Contains(got, want.content) {
			t.Errorf("%s: %s: %s", target, r.Status, got)
		}
	}
}

// recorded is a history with a node that is gone, a pull request and an hour.
func recorded() history.History {
	at := func(d time.Duration) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 26, 11, 0, 0, 0, time.UTC).Add(d))
	}
	return history.History{
		Time: at(59 * time.Minute),
		NodeClaims: []history.NodeClaim{{
			Name: "gone", UID: "1", Node: "ip-9", NodePool: "gpu", Revision: "main@sha1:e15a32f0000000000000000000000000000000aa", Reason: history.ReasonDrifted,
			Lifecycle: history.Lifecycle{Created: at(0), Launched: at(0), Deleted: at(30 * time.Minute), Terminated: at(31 * time.Minute)},
		}},
		PullRequests: []history.PullRequest{{Sync: "dev", Number: 38, Commit: "e15a32f0000000000000000000000000000000aa", Merged: at(29 * time.Minute), Applied: at(29 * time.Minute), RolledOut: at(31 * time.Minute), Actual: history.NodeChanges{Replaced: 1}}},
		PoolHours:    []history.PoolHour{{NodePool: "gpu", Hour: at(0), NodeSeconds: 1860, USD: history.States{Paid: 1.5}}, {NodePool: "old", Hour: at(-48 * time.Hour), USD: history.States{Paid: 7}}},
	}
}

func TestThePagesAndDocumentsOfTheHistory(t *testing.T) {
	d := newDocuments()
	d.history = recorded()
	s, token, err := New(t.Context(), Config{Documents: d, Hosts: []string{host}, Port: "8090", Now: func() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Handler()
	if err != nil {
		t.Fatal(err)
	}
	cookie := loggedIn(t, h, token)
	for target, want := range map[string]struct {
		code          int
		contains      string
		doesNot, mime string
	}{
		"/events":                         {http.StatusOK, `href="/nodes/gone"`, "", "text/html; charset=utf-8"},
		"/events?hours=1":                 {http.StatusOK, `href="/events?hours=1" aria-current="true"`, "", "text/html; charset=utf-8"},
		"/events?hours=720":               {http.StatusOK, `href="/events?hours=24" aria-current="true"`, "", "text/html; charset=utf-8"},
		"/savings":                        {http.StatusOK, `href="/savings?hours=168" aria-current="true"`, "", "text/html; charset=utf-8"},
		"/savings?hours=24":               {http.StatusOK, "$1.50", "$7", "text/html; charset=utf-8"},
		"/savings?hours=6":                {http.StatusOK, `href="/savings?hours=168" aria-current="true"`, "", "text/html; charset=utf-8"},
		"/pulls/38":                       {http.StatusOK, `href="/nodes/gone"`, "", "text/html; charset=utf-8"},
		"/pulls/7":                        {http.StatusNotFound, "no Sync has a pull request", "", "text/html; charset=utf-8"},
		"/pulls/-1":                       {http.StatusNotFound, "no Sync has a pull request", "", "text/html; charset=utf-8"},
		"/pulls/x":                        {http.StatusNotFound, "no Sync has a pull request", "", "text/html; charset=utf-8"},
		"/pulls/99999999999999999999":     {http.StatusNotFound, "no Sync has a pull request", "", "text/html; charset=utf-8"},
		"/nodes/missing":                  {http.StatusNotFound, "neither", "", "text/html; charset=utf-8"},
		"/api/v1/history":                 {http.StatusOK, `"kind": "History"`, `"old"`, "application/json"},
		"/api/v1/history?hours=168":       {http.StatusOK, `"old"`, "", "application/json"},
		"/api/v1/events":                  {http.StatusOK, `"pullRequest": 38`, "", "application/json"},
		"/api/v1/pulls/38":                {http.StatusOK, `"name": "gone"`, "poolHours", "application/json"},
		"/api/v1/pulls/7":                 {http.StatusNotFound, "no Sync has a pull request", "{", "text/plain; charset=utf-8"},
		"/api/v1/savings":                 {http.StatusOK, `"old"`, "nodeClaims", "application/json"},
		"/api/v1/savings?hours=24":        {http.StatusOK, `"paid": 1.5`, `"old"`, "application/json"},
		"/api/v1/savings.csv?hours=24":    {http.StatusOK, "2026-11-26T11:00:00Z,gpu,1860,", "old", "text/csv; charset=utf-8"},
		"/api/v1/savings.csv?hours=1488":  {http.StatusOK, "\n2026-11-24T11:00:00Z,old,", "", "text/csv; charset=utf-8"},
		"/api/v1/savings.csv?hours=evil%": {http.StatusOK, "hour,nodepool,", "", "text/csv; charset=utf-8"},
	} {
		r := do(h, http.MethodGet, strings.ReplaceAll(target, "evil%", "evil"), cookie)
		got := body(t, r)
		if r.StatusCode != want.code || !strings.Contains(got, want.contains) || want.doesNot != "" && strings.Contains(got, want.doesNot) || r.Header.Get("Content-Type") != want.mime {
			t.Errorf("%s: %s %s: %s", target, r.Status, r.Header.Get("Content-Type"), got)
		}
	}
	d.historyErr = errors.New("Get https://admin:hunter2@10.0.0.1: refused")
	for _, target := range []string{"/api/v1/savings.csv", "/api/v1/history", "/api/v1/events", "/api/v1/pulls/38", "/events", "/savings", "/pulls/38"} {
		r := do(h, http.MethodGet, target, cookie)
		if got := body(t, r); r.StatusCode != http.StatusBadGateway || strings.Contains(got, "hunter2") || r.Header.Get("Content-Disposition") != "" {
			t.Errorf("%s: %s: %s", target, r.Status, got)
		}
	}
}

// Who reads the page as JSON must not get another amount than who reads the page.
func TestTheDocumentOfTheOverviewHasThePagesPrices(t *testing.T) {
	one := int64(1)
	node := get.Node{Name: "ip-1", NodeClaim: "gpu-1", NodePool: "gpu", InstanceType: "g4dn.xlarge", CapacityType: "spot", State: "Ready", GPUs: get.GPUs{Allocatable: &one, Requested: new(int64), Idle: &one}, USDPerHour: &get.USD{Min: 0.05, Max: 0.53}}
	price := 0.21
	for name, test := range map[string]struct {
		history history.History
		want    get.USD
		tile    string
	}{
		"a recorded price":    {history.History{NodeClaims: []history.NodeClaim{{Name: "gpu-1", USDPerHour: &price, PriceBasis: history.PriceList}}}, get.USD{Min: price, Max: price}, `<span class="value">$0.21<span class="unit">/h`},
		"nothing is recorded": {history.History{}, *node.USDPerHour, `<span class="value">$0.05–0.53<span class="unit">/h`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDocuments()
			d.nodes, d.history = []get.Node{node}, test.history
			h, _, token := started(t, d)
			cookie := loggedIn(t, h, token)
			if got := body(t, do(h, http.MethodGet, "/", cookie)); !strings.Contains(got, test.tile) {
				t.Errorf("the page lacks %s: %s", test.tile, got)
			}
			var got get.Report
			if err := json.Unmarshal([]byte(body(t, do(h, http.MethodGet, "/api/v1/overview", cookie))), &got); err != nil {
				t.Fatal(err)
			}
			for of, usd := range map[string]*get.USD{"the sum": got.Summary.USDPerHour, "the node": got.Nodes[0].USDPerHour} {
				if diff := cmp.Diff(&test.want, usd); diff != "" {
					t.Errorf("%s (-want +got):\n%s", of, diff)
				}
			}
			if d.nodes[0].USDPerHour != node.USDPerHour {
				t.Error("the report that others have has changed")
			}
		})
	}
}

// The present is served without the past: one damaged ConfigMap, or one of a newer version, is not the end of the page.
func TestAHistoryThatCannotBeReadFailsItsOwnPagesOnly(t *testing.T) {
	d := newDocuments()
	d.history, d.historyErr = recorded(), errors.New("ConfigMap poolwright-history has the version 9: https://admin:hunter2@10.0.0.1")
	h, _, token := started(t, d)
	cookie := loggedIn(t, h, token)
	for target, want := range map[string]struct {
		code    int
		has     string
		doesNot string
	}{
		"/":                   {http.StatusOK, "Not read: the history: ConfigMap poolwright-history has the version 9", "$1.50"},
		"/nodes/a":            {http.StatusOK, "The history could not be read: ConfigMap poolwright-history", "Its life"},
		"/pods/a/b":           {http.StatusOK, "NotEmpty", "could not be read"},
		"/pools/gpu":          {http.StatusOK, "NotEmpty", "could not be read"},
		"/nodes/missing":      {http.StatusNotFound, "neither a node", "Its life"},
		"/api/v1/overview":    {http.StatusOK, "the history: ConfigMap poolwright-history has the version 9", "$1.50"},
		"/api/v1/nodes/a":     {http.StatusOK, "NotEmpty", "could not be read"},
		"/events":             {http.StatusBadGateway, "has the version 9", "/nodes/gone"},
		"/savings":            {http.StatusBadGateway, "has the version 9", "$1.50"},
		"/pulls/38":           {http.StatusBadGateway, "has the version 9", "/nodes/gone"},
		"/api/v1/history":     {http.StatusBadGateway, "has the version 9", "gone"},
		"/api/v1/events":      {http.StatusBadGateway, "has the version 9", "gone"},
		"/api/v1/pulls/38":    {http.StatusBadGateway, "has the version 9", "gone"},
		"/api/v1/savings":     {http.StatusBadGateway, "has the version 9", "1.5"},
		"/api/v1/savings.csv": {http.StatusBadGateway, "has the version 9", "1.5"},
	} {
		r := do(h, http.MethodGet, target, cookie)
		if got := body(t, r); r.StatusCode != want.code || !strings.Contains(got, want.has) || strings.Contains(got, want.doesNot) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %s: %s", target, r.Status, got)
		}
	}
}

// A node that is gone has what is recorded of it.
func TestANodeThatIsGoneHasItsLife(t *testing.T) {
	d := newDocuments()
	d.history = recorded()
	d.history.NodeClaims[0].Name = "missing"
	h, _, token := started(t, d)
	r := do(h, http.MethodGet, "/nodes/missing", loggedIn(t, h, token))
	if got := body(t, r); r.StatusCode != http.StatusOK || !strings.Contains(got, "Its life") || strings.Contains(got, "/api/v1/nodes/missing") {
		t.Errorf("%s: %s", r.Status, got)
	}
}

func TestAClusterThatCannotBeReadIsReportedWithoutItsSecrets(t *testing.T) {
	d := newDocuments()
	h, _, token := started(t, d)
	cookie := loggedIn(t, h, token)
	d.err = errors.New("Get https://admin:hunter2@10.0.0.1: Authorization: Bearer abcdefghijklmnop <script>")
	for _, target := range []string{"/", "/pods/a/b", "/api/v1/overview", "/api/v1/nodes/a", "/favicon.svg"} {
		got := body(t, do(h, http.MethodGet, target, cookie))
		if strings.Contains(got, "hunter2") || strings.Contains(got, "abcdefghijklmnop") || strings.Contains(got, "<script>") && strings.HasPrefix(got, "<!") {
			t.Errorf("%s has what it must not have: %s", target, got)
		}
	}
	if r := do(h, http.MethodGet, "/", cookie); r.StatusCode != http.StatusBadGateway {
		t.Errorf("%s", r.Status)
	}
}

func TestNoResponseHasTheTokenOrTheCookie(t *testing.T) {
	h, _, token := started(t, newDocuments())
	cookie := loggedIn(t, h, token)
	probe := httptest.NewRequest(http.MethodGet, "/", nil)
	cookie(probe)
	for _, target := range []string{"/", "/?token=" + token, "/login?token=" + token, "/nothing?x=" + token, "/api/v1/overview", "/pods/a/b"} {
		r := do(h, http.MethodGet, target, cookie)
		got := body(t, r)
		for name, values := range r.Header {
			got += name + strings.Join(values, " ")
		}
		if strings.Contains(got, token) || strings.Contains(got, probe.Cookies()[0].Value) {
			t.Errorf("%s has a secret", target)
		}
	}
}
