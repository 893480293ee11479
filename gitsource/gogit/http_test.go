package gogit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
)

func TestRedirectsHaveAnEnd(t *testing.T) {
	srv := newGitServer(t)
	srv.push("a.yaml", "one\n")
	asked := atomic.Int32{}
	srv.during(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, fmt.Sprintf("/%d%s", asked.Add(1), r.URL.Path), http.StatusFound)
	})
	fails(t, srv.source(Ref{}, login("git", password)), gitsource.ErrUnreachable)
	if asked.Load() != 10 {
		t.Errorf("%d requests", asked.Load())
	}
}

func TestAProxyNeverSeesCredentials(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Method+" "+r.Host+" "+r.Header.Get("Authorization")+r.Header.Get("Proxy-Authorization"))
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer proxy.Close()
	u := &url.URL{Scheme: "https", Host: "git.example.com", Path: "/x/info/refs"}
	client, err := newHTTPClient(u, nil, Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	// net/http reads the environment once for a process.
	client.Transport.(*boundedTransport).base.Proxy = http.ProxyURL(to)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("git", password)
	res, err := client.Do(req)
	if err == nil {
		_ = res.Body.Close()
		t.Error("the proxy refused, and there is an answer")
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"CONNECT git.example.com:443 "}, seen); diff != "" {
		t.Errorf("the proxy saw (-want +got):\n%s", diff)
	}
}
