package remote

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAProxyNeverGetsCredentials(t *testing.T) {
	var mu sync.Mutex
	var observed []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		observed = append(observed, r.Method+" "+r.Host+" "+r.Header.Get("Authorization")+r.Header.Get("Proxy-Authorization"))
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer proxy.Close()
	u := &url.URL{Scheme: "https", Host: "git.example.com", Path: "/x/info/refs"}
	client, err := newHTTPClient(u, Credentials{}, Limits{PackBytes: 256 << 20, IdleTimeout: 30 * time.Second})
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
	req.SetBasicAuth("git", secret)
	res, err := client.Do(req)
	if err == nil {
		_ = res.Body.Close()
		t.Error("the proxy refused, and there is an answer")
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"CONNECT git.example.com:443 "}, observed); diff != "" {
		t.Errorf("the proxy saw (-want +got):\n%s", diff)
	}
}
