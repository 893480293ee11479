package e2e

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/poolwright/poolwright/provision/pricelist/published"
)

// apiProxy stands between one controller and the API server. It writes down
// every write, and can kill the controller at a chosen one.
type apiProxy struct {
	// system is the controller's namespace.
	system     string
	kubeconfig string
	forward    http.Handler
	server     *httptest.Server

	mu     sync.Mutex
	writes []string
	trap   *trap
	cut    bool
	// keeps is whether all is kept: every request, as its method and path, with " watch" behind that of a watch.
	keeps bool
	all   []string
}

// trap kills at the k-th write from when it was set, or at the first one of a kind.
type trap struct {
	k    int
	kind string // "" for any
	// after lets the write through first; otherwise the API server never sees it.
	after bool
	kill  func()

	observed int
	sprung   string
	done     chan struct{}
}

// at reports whether the trap springs at this write, the newest that it has seen.
func (t *trap) at(write string) bool {
	if t.kind != "" {
		return kindOf(write) == t.kind
	}
	return t.observed == t.k
}

// newAPIProxy lets the controller in as the given user, or as the administrator.
func newAPIProxy(t *testing.T, system, user string) *apiProxy {
	t.Helper()
	cfg := sharedEnv.REST()
	cfg.Impersonate.UserName = user
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &apiProxy{system: system, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // as the API server's own end would look
		},
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.Start()
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["proxy"] = &clientcmdapi.Cluster{Server: p.server.URL}
	kubeconfig.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	kubeconfig.CurrentContext = "proxy"
	if err := clientcmd.WriteToFile(*kubeconfig, p.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return p
}

// written is a request that changes something, "" for any other. Leases and
// events are the process's breath: they say nothing of what it does. Nor do the
// refusals of other tests' Syncs.
func (p *apiProxy) written(r *http.Request) string {
	reads := r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != ""
	for _, breath := range []string{"/leases", "/events", "/selfsubject"} {
		reads = reads || strings.Contains(r.URL.Path, breath)
	}
	foreign := strings.Contains(r.URL.Path, "/syncs/") && !strings.Contains(r.URL.Path, "/namespaces/"+p.system+"/")
	if reads || foreign {
		return ""
	}
	path := r.URL.Path
	if r.Method == http.MethodPost && strings.HasSuffix(path, "/configmaps") {
		// The path of a creation does not have the name.
		content, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(content))
		for _, record := range records {
			if bytes.Contains(content, []byte(record)) {
				path += "/" + record
			}
		}
	}
	return r.Method + " " + path
}

func (p *apiProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	cut := p.cut || r.Context().Err() != nil // who asked is dead
	if p.keeps {
		p.all = append(p.all, requested(r))
	}
	p.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler)
	}
	write := p.written(r)
	if write == "" {
		p.forward.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	p.writes = append(p.writes, write)
	t := p.trap
	if t == nil || ofHistory(write) {
		p.mu.Unlock()
		p.forward.ServeHTTP(w, r)
		return
	}
	// One write at a time, so that exactly those before the k-th were made.
	defer p.mu.Unlock()
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	t.observed++
	switch {
	case t.sprung != "":
	case t.at(write):
		if t.after {
			p.forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		t.sprung = write
		t.kill()
		close(t.done)
	default:
		p.forward.ServeHTTP(w, r)
		return
	}
	panic(http.ErrAbortHandler) // nobody is there to hear an answer
}

// away takes the API server from the controller, or gives it back: requests
// and watches break off without an answer.
func (p *apiProxy) away(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
	if cut {
		p.server.CloseClientConnections()
	}
}

// set arms a trap and drops the writes so far.
func (p *apiProxy) set(t *trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.done = make(chan struct{})
	p.trap, p.writes = t, nil
}

// disarm takes the trap away and tells at which write it has sprung, or "".
func (p *apiProxy) disarm() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trap
	p.trap = nil
	return t.sprung
}

// take returns and drops the writes so far.
func (p *apiProxy) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.writes
	p.writes = nil
	return out
}

// keepRequests has every request kept from now on.
func (p *apiProxy) keepRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeps = true
}

// requests are those that were kept.
func (p *apiProxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

// requested is a request as it is kept.
func requested(r *http.Request) string {
	out := r.Method + " " + r.URL.Path
	if r.URL.Query().Get("watch") != "" {
		out += " watch"
	}
	return out
}

// beyond lists the writes that are not of the given kind.
func beyond(writes []string, expected func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(writes), expected)
}

// routine reports whether a write is made although nothing differs: the status of the Sync, and the history.
func routine(sync string) func(string) bool {
	end := fmt.Sprintf("/syncs/%s/status", sync)
	return func(write string) bool {
		return strings.HasPrefix(write, "PATCH ") && strings.HasSuffix(write, end) || ofHistory(write)
	}
}

// records begin the names of the ConfigMaps with the history and with published prices.
var records = []string{"poolwright-history", published.Name}

// ofHistory reports whether a write is of the history or of published prices, whose time is the clock's.
func ofHistory(write string) bool {
	return slices.ContainsFunc(records, func(record string) bool { return strings.Contains(write, "/configmaps/"+record) })
}
