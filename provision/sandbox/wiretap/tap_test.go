package wiretap

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// wired is a server behind a tap, which counts what reaches it.
type wired struct {
	*Tap
	listener *Listener
	served   atomic.Int64
}

func newWired(t *testing.T) *wired {
	t.Helper()
	w := &wired{Tap: New(time.Now)}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.served.Add(1)
		if r.URL.Query().Get("watch") != "" {
			fmt.Fprintln(rw, "a first line")
			if err := http.NewResponseController(rw).Flush(); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
			return
		}
		rw.WriteHeader(http.StatusCreated)
		fmt.Fprintf(rw, `{"metadata":{"uid":"uid-%d"}}`, w.served.Load())
	}))
	t.Cleanup(server.Close)
	var err error
	w.listener, err = w.Listen(Config{Server: server.URL, Client: "first", Protocol: Kubernetes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.listener.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

const configMaps = "/api/v1/namespaces/apps/configmaps"

// post sends a creation; the status is 0 where the connection ended without a response.
func (w *wired) post(t *testing.T, name string) (status int, content string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Post(w.listener.URL()+configMaps, "application/json", strings.NewReader(fmt.Sprintf(`{"metadata":{"name":%q}}`, name)))
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(read)
}

// The first of the two may be the one that creates the object, and the second be refused.
func TestBothRequestsOfADuplicateAreInTheRecord(t *testing.T) {
	w := newWired(t)
	w.Arm(Fault{Do: Duplicate})
	w.post(t, "one")
	var uids []string
	for _, r := range w.Records() {
		uids = append(uids, r.Request.UID)
	}
	if diff := cmp.Diff([]string{"uid-1", "uid-2"}, uids); diff != "" {
		t.Error(diff)
	}
}

func TestAFaultHappensAtItsRequestAndOnItsSide(t *testing.T) {
	second := Point{Wire: trace.Kubernetes, Verb: "create", Kind: "configmaps"}
	for _, c := range []struct {
		name  string
		fault Fault
		// status and served are those after the second of two requests.
		status int
		served int64
		// third is the status of one more request.
		third int
		uid   string
	}{
		{"without a fault the response passes", Fault{At: Point{Verb: "delete"}}, 201, 2, 201, "uid-2"},
		{"killed before, the server gets nothing and the client sends nothing more", Fault{Do: Kill}, 0, 1, 0, ""},
		{"killed after, the server gets it and the client sends nothing more", Fault{After: true, Do: Kill}, 0, 2, 0, "uid-2"},
		{"dropped before, the server gets nothing", Fault{Do: Drop}, 0, 1, 201, ""},
		{"dropped after, the client gets no response", Fault{After: true, Do: Drop}, 0, 2, 201, "uid-2"},
		{"another response is returned in place of the server's", Fault{Do: Respond, Status: 503}, 503, 1, 201, ""},
		{"another response is returned once the server has done its work", Fault{After: true, Do: Respond, Status: 504}, 504, 2, 201, "uid-2"},
		{"a duplicate reaches the server twice", Fault{Do: Duplicate}, 201, 3, 201, "uid-2"},
		{"a delay changes nothing but the time", Fault{After: true, Do: Delay, Wait: time.Nanosecond}, 201, 2, 201, "uid-2"},
		{"a call happens before the server gets it", Fault{Do: Call}, 201, 2, 201, "uid-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWired(t)
			var called trace.Request
			var servedAtCall int64
			c.fault.Call = func(q trace.Request) { called, servedAtCall = q, w.served.Load() }
			if c.fault.At == (Point{}) {
				c.fault.At = second
			}
			c.fault.Nth = 2
			armed := w.Arm(c.fault)
			if status, _ := w.post(t, "one"); status != 201 || w.Records()[0].Request.Fault != "" {
				t.Fatalf("the first request has status %d and fault %q", status, w.Records()[0].Request.Fault)
			}
			if status, _ := w.post(t, "two"); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			if n := w.served.Load(); n != c.served {
				t.Errorf("%d requests reached the server, want %d", n, c.served)
			}
			record := w.Records()[1]
			if record.Request.UID != c.uid || record.Request.Name != "two" || record.Done <= record.N {
				t.Errorf("recorded as %+v %+v, want UID %q", record, record.Request, c.uid)
			}
			if met := c.fault.At == second; armed.Disarm() != met || met && record.Request.Fault != c.fault.String() {
				t.Errorf("not met, or recorded as %q", record.Request.Fault)
			}
			if c.fault.Do == Kill || c.fault.Do == Call {
				before := map[bool]int64{false: 1, true: 2}[c.fault.After]
				if called.Name != "two" || servedAtCall != before {
					t.Errorf("called for %+v after %d requests, want %d", called, servedAtCall, before)
				}
			}
			if status, _ := w.post(t, "three"); status != c.third {
				t.Errorf("one more request has status %d, want %d", status, c.third)
			}
		})
	}
}

func TestWhatHappensBeforeARequestIsSentOnHasAnEarlierPlace(t *testing.T) {
	w := newWired(t)
	w.Arm(Fault{Do: Call, Call: func(trace.Request) { w.Record(trace.Event{Kind: trace.PruneDisabled}) }})
	w.post(t, "a")
	if r := w.Records(); len(r) != 2 || r[0].Event == nil || r[1].Request == nil || r[1].N <= r[0].N {
		t.Errorf("recorded as %+v", r)
	}
}

func TestAfterAWatchIsAfterItsFirstLine(t *testing.T) {
	w := newWired(t)
	killed := make(chan struct{})
	w.Arm(Fault{At: Point{Verb: "watch"}, After: true, Do: Kill, Call: func(trace.Request) { close(killed) }})
	response, err := http.Get(w.listener.URL() + configMaps + "?watch=true")
	if err == nil {
		response.Body.Close()
		t.Errorf("the client got %s", response.Status)
	}
	<-killed
}

func TestAClientThatIsCutOffIsAloneInThat(t *testing.T) {
	w := newWired(t)
	ended := make(chan error, 1)
	response, err := http.Get(w.listener.URL() + configMaps + "?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	go func() {
		_, err := io.ReadAll(response.Body)
		ended <- err
	}()
	w.Cut("first", true)
	if err := <-ended; err == nil {
		t.Error("its watch ended as if there were no more to come")
	}
	if status, _ := w.post(t, "a"); status != 0 {
		t.Errorf("status %d while it was cut off", status)
	}
	w.listener.SetClient("second")
	if status, _ := w.post(t, "b"); status != 201 {
		t.Errorf("another client's request has status %d", status)
	}
	w.Cut("first", false)
	w.listener.SetClient("first")
	if status, _ := w.post(t, "c"); status != 201 {
		t.Errorf("status %d after it was connected again", status)
	}
	var clients []string
	for _, r := range w.Records() {
		clients = append(clients, r.Request.Client+" "+r.Request.Name+" "+r.Request.Fault)
	}
	want := []string{"first  ", "first a cut off", "second b ", "first c "}
	if diff := cmp.Diff(want, clients); diff != "" {
		t.Error(diff)
	}
}

func TestClientsOfOneWireAreDistinguishedByTheirConnections(t *testing.T) {
	tap := New(time.Now)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "{}") }))
	t.Cleanup(server.Close)
	named := map[string]string{} // remote address to client
	var mu sync.Mutex
	l, err := tap.Listen(Config{Server: server.URL, Client: "nobody", Protocol: Kubernetes(), ClientOf: func(remote net.Addr) string {
		mu.Lock()
		defer mu.Unlock()
		return named[remote.String()]
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	dial := func(name string) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil {
				named[c.LocalAddr().String()] = name
			}
			return c, err
		}}}
	}
	first, second, unnamed := dial("first"), dial("second"), dial("")
	get := func(c *http.Client) (passed bool) {
		response, err := c.Get(l.URL() + configMaps)
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	}
	for _, c := range []*http.Client{first, second, unnamed} {
		if !get(c) {
			t.Error("a request got no response")
		}
	}
	tap.Cut("first", true)
	if get(first) || !get(second) {
		t.Error("the client that is cut off is not the first one")
	}
	var clients []string
	for _, r := range tap.Records() {
		if !slices.Contains(clients, r.Request.Client) {
			clients = append(clients, r.Request.Client)
		}
	}
	if diff := cmp.Diff([]string{"first", "second", "nobody"}, clients); diff != "" {
		t.Error(diff)
	}
}

func TestAPointIsOfOneNamespaceOrOfNone(t *testing.T) {
	in := trace.Request{Wire: trace.Kubernetes, Verb: "list", Kind: "configmaps", Namespace: "apps"}
	all := in
	all.Namespace = ""
	for _, c := range []struct {
		name    string
		at      Point
		in, all bool
	}{
		{"an empty namespace is any", Point{Kind: "configmaps"}, true, true},
		{"a namespace is that one", Point{Kind: "configmaps", Namespace: "apps"}, true, false},
		{"another is another", Point{Kind: "configmaps", Namespace: "system"}, false, false},
		{"none is none, or all", Point{Kind: "configmaps", Namespace: NoNamespace}, false, true},
		{"another verb is another", Point{Verb: "get"}, false, false},
		{"another wire is another", Point{Wire: trace.Git}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.at.matches(&in); got != c.in {
				t.Errorf("in a namespace: %v", got)
			}
			if got := c.at.matches(&all); got != c.all {
				t.Errorf("in all namespaces: %v", got)
			}
		})
	}
}

func TestAPlantedSecretIsFoundInEveryForm(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	for _, c := range []struct {
		name string
		send func(*http.Request)
		want []string
	}{
		{"not in a request without it", func(*http.Request) {}, nil},
		{"in the address", func(r *http.Request) { r.URL.RawQuery = "token=" + secret }, []string{"git token"}},
		{"in a header", func(r *http.Request) { r.Header.Set("X-Token", secret) }, []string{"git token"}},
		{"as a password", func(r *http.Request) { r.SetBasicAuth("team", secret) }, []string{"git token"}},
		{"in base64", func(r *http.Request) {
			r.Header.Set("X-Data", base64.StdEncoding.EncodeToString([]byte("team:"+secret)))
		}, []string{"git token"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWired(t)
			w.Plant("git token", secret, trace.Git)
			request, err := http.NewRequest(http.MethodGet, w.listener.URL()+configMaps, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.send(request)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			records := w.Records()
			if diff := cmp.Diff(c.want, records[len(records)-1].Request.Secrets); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestATraceLosesWhatIsDiscarded(t *testing.T) {
	w := newWired(t)
	w.post(t, "a")
	w.Record(trace.Event{Kind: trace.Converged})
	w.post(t, "b")
	n := w.begin(trace.Request{Name: "c"}) // has not ended
	w.Discard(func(q *trace.Request) bool { return q.Name != "b" })
	w.end(n, http.StatusOK, func(q *trace.Request) { q.UID = "uid-c" })
	var got []string
	for _, r := range w.Records() {
		if r.Event != nil {
			got = append(got, r.Event.Kind)
		} else {
			got = append(got, fmt.Sprintf("%s %d %s", r.Request.Name, r.Request.Status, r.Request.UID))
		}
	}
	if diff := cmp.Diff([]string{trace.Converged, "b 201 uid-2", "c 200 uid-c"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnEncryptedWireCanBeBrokenOff(t *testing.T) {
	w := newWired(t)
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	l, err := w.Listen(Config{Server: w.listener.URL(), Client: "first", Protocol: Kubernetes(), Certificate: &server.TLS.Certificates[0]})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	response, err := client.Get(l.URL() + configMaps)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	w.Arm(Fault{Do: Kill, Call: func(trace.Request) {}})
	if response, err := client.Get(l.URL() + configMaps); err == nil {
		response.Body.Close()
		t.Errorf("status %d", response.StatusCode)
	}
}
