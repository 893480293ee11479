package wiretap

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// listen puts a wire before a handler.
func listen(t *testing.T, tap *Tap, client string, protocol Protocol, handle http.HandlerFunc) *Listener {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	l, err := tap.Listen(Config{Server: server.URL, Client: client, Protocol: protocol})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// send returns the status and the content, 0 where the connection ended without a response.
func send(t *testing.T, method, url, content string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
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

func TestTheWiresHaveOneOrder(t *testing.T) {
	tap := New(time.Now)
	respond := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":7}`) }
	kubernetes := listen(t, tap, "leader", Kubernetes(), respond)
	forge := listen(t, tap, "leader", Forge(), respond)
	send(t, http.MethodGet, kubernetes.URL()+configMaps, "")
	send(t, http.MethodPost, forge.URL()+"/api/v1/repos/team/nodes/issues/7/comments", "{}")
	tap.Record(trace.Event{Kind: trace.Committed, Revision: "main@sha1:1"})
	send(t, http.MethodGet, forge.URL()+"/team/nodes.git/info/refs?service=git-upload-pack", "")
	var got []string
	for _, r := range tap.Records() {
		if r.Event != nil {
			got = append(got, r.Event.Kind)
			continue
		}
		got = append(got, strings.Join([]string{string(r.Request.Wire), r.Request.Verb, r.Request.Kind, r.Request.Name, r.Request.UID}, " "))
	}
	want := []string{"kubernetes list configmaps  ", "forge post issues/comments team/nodes#7 7", "committed", "git get info/refs team/nodes "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRequestsAtTheSameTimeHavePlacesOfTheirOwn(t *testing.T) {
	tap := New(time.Now)
	l := listen(t, tap, "leader", Kubernetes(), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	var senders sync.WaitGroup
	for i := range 20 {
		senders.Go(func() { send(t, http.MethodPost, l.URL()+configMaps, fmt.Sprintf(`{"metadata":{"name":"m-%d"}}`, i)) })
	}
	senders.Wait()
	places, names := map[int]bool{}, map[string]bool{}
	last := 0
	for _, r := range tap.Records() {
		if r.N <= last || r.Done <= r.N {
			t.Errorf("place %d after %d, done at %d", r.N, last, r.Done)
		}
		last = r.N
		places[r.N], places[r.Done] = true, true
		names[r.Request.Name] = true
	}
	if len(places) != 40 || len(names) != 20 {
		t.Errorf("%d places of %d requests", len(places), len(names))
	}
}

func TestAServerThatIsGoneIsGoneForTheClient(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			tap := New(time.Now)
			server := httptest.NewServer(http.NotFoundHandler())
			address := server.URL
			server.Close()
			l, err := tap.Listen(Config{Server: address, Client: "leader", Protocol: Kubernetes()})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if status, _ := send(t, method, l.URL()+configMaps, "{}"); status != 0 {
				t.Errorf("status %d", status)
			}
			for _, r := range tap.Records() { // a client may send a request again that had no response
				if r.Request.Status != 0 || r.Done == 0 {
					t.Errorf("recorded as %+v", r.Request)
				}
			}
		})
	}
}

// lastRecord is a response writer that notes, when the connection is taken from it, whether
// the newest request has an end in the record.
type lastRecord struct {
	http.ResponseWriter
	tap   *Tap
	ended []bool
}

// Hijack implements http.Hijacker, without a connection.
func (l *lastRecord) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	records := l.tap.Records()
	l.ended = append(l.ended, len(records) > 0 && records[len(records)-1].Done > 0)
	return nil, nil, errors.New("there is no connection")
}

func TestARequestWithoutAResponseIsRecordedBeforeItsClientLearnsOfThat(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for name, arm := range map[string]func(*Tap){
			"the server is gone":    func(*Tap) {},
			"the client is cut off": func(tap *Tap) { tap.Cut("leader", true) },
			"it is dropped":         func(tap *Tap) { tap.Arm(Fault{Do: Drop}) },
			"its response is lost":  func(tap *Tap) { tap.Arm(Fault{After: true, Do: Drop}) },
			"the client is killed":  func(tap *Tap) { tap.Arm(Fault{Do: Kill, Call: func(trace.Request) {}}) },
			"it is sent twice":      func(tap *Tap) { tap.Arm(Fault{Do: Duplicate}) },
		} {
			t.Run(method+": "+name, func(t *testing.T) {
				tap := New(time.Now)
				l, err := tap.Listen(Config{Server: gone.URL, Client: "leader", Protocol: Kubernetes()})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				arm(tap)
				w := &lastRecord{ResponseWriter: httptest.NewRecorder(), tap: tap}
				l.ServeHTTP(w, httptest.NewRequest(method, configMaps, strings.NewReader("{}")))
				if diff := cmp.Diff([]bool{true}, w.ended); diff != "" {
					t.Errorf("ended in the record when the client was hung up on: %s", diff)
				}
			})
		}
	}
}

func TestAResponsePassesUnchanged(t *testing.T) {
	content := strings.Repeat("a line of a long list\n", 20000)
	l := listen(t, New(time.Now), "leader", Kubernetes(), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Kind", r.Method)
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, content)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusConflict)
		packed := gzip.NewWriter(w)
		if _, err := packed.Write([]byte(content)); err != nil {
			t.Error(err)
		}
		if err := packed.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if status, got := send(t, method, l.URL()+configMaps, "{}"); status != http.StatusConflict || got != content {
			t.Errorf("%s: status %d and %d bytes, want %d", method, status, len(got), len(content))
		}
	}
}

func TestTwoFaultsHappenAtTheirOwnRequests(t *testing.T) {
	tap := New(time.Now)
	l := listen(t, tap, "leader", Kubernetes(), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	first := tap.Arm(Fault{At: Point{Verb: "create"}, Do: Respond, Status: http.StatusTooManyRequests})
	third := tap.Arm(Fault{At: Point{Verb: "create"}, Nth: 2, Do: Respond, Status: http.StatusInternalServerError})
	never := tap.Arm(Fault{At: Point{Verb: "delete"}, Do: Respond, Status: http.StatusInternalServerError})
	var got []int
	for range 4 {
		status, _ := send(t, http.MethodPost, l.URL()+configMaps, "{}")
		got = append(got, status)
	}
	// What the first fault took does not count for the second.
	if want := []int{429, 200, 500, 200}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	<-first.Done()
	<-third.Done()
	if !first.Disarm() || !third.Disarm() || never.Disarm() {
		t.Error("a fault that happened is not reported, or one that did not is")
	}
	if status, _ := send(t, http.MethodDelete, l.URL()+configMaps+"/a", ""); status != http.StatusOK {
		t.Errorf("a fault that was taken back happened: status %d", status)
	}
}

func TestAWriteUnderWayIsRecordedAlsoWhereItsClientHasEnded(t *testing.T) {
	tap := New(time.Now)
	arrived, finish := make(chan struct{}), make(chan struct{})
	l := listen(t, tap, "leader", Kubernetes(), func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-finish
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"metadata":{"uid":"a-b"}}`)
	})
	ended := make(chan int, 1)
	go func() {
		status, _ := send(t, http.MethodPost, l.URL()+configMaps, "{}")
		ended <- status
	}()
	<-arrived
	tap.Cut("leader", true)
	close(finish)
	if status := <-ended; status != 0 {
		t.Errorf("a client that is cut off got status %d", status)
	}
	if r := tap.Records()[0]; r.Request.Status != http.StatusCreated || r.Request.UID != "a-b" {
		t.Errorf("recorded as %+v", r.Request)
	}
}

func TestARecordHasNoContent(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	tap := New(time.Now)
	l := listen(t, tap, "leader", Kubernetes(), func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, secret) })
	tap.Plant("a password", secret, trace.Git)
	send(t, http.MethodPost, l.URL()+configMaps, `{"metadata":{"name":"a"},"data":{"password":"`+secret+`"}}`)
	content, err := json.Marshal(tap.Records())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte(secret)) || !bytes.Contains(content, []byte(`"secrets":["a password"]`)) {
		t.Errorf("recorded as %s", content)
	}
}

func TestASecretIsFoundInWhatAForgeShowsOfAComment(t *testing.T) {
	const secret = "correct-horse@battery/staple"
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{"as it is", secret, []string{"a password"}},
		{"in a list of texts", `{"labels":[{"name":"correct-horse@battery\/staple"}]}`, []string{"a password"}},
		{"as JSON escapes it", `{"body":"correct\u002dhorse@battery\u002fstaple"}`, []string{"a password"}},
		{"with entities and characters without width", `{"body":"correct&#045;horse&#064;\u200bbattery&#047;staple"}`, []string{"a password"}},
		{"with entities as JSON escapes them", `{"body":"correct\u0026#045;horse\u0026#064;battery/staple"}`, []string{"a password"}},
		{"with the backslashes of Markdown", `{"body":"correct\\-horse\\@battery/staple"}`, []string{"a password"}},
		{"another text", `{"body":"correct&#045;horse&#064;battery"}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			tap := New(time.Now)
			l := listen(t, tap, "leader", Forge(), func(http.ResponseWriter, *http.Request) {})
			tap.Plant("a password", secret, trace.Kubernetes)
			send(t, http.MethodPost, l.URL()+"/api/v1/repos/team/nodes/issues/7/comments", c.body)
			records := tap.Records()
			if diff := cmp.Diff(c.want, records[len(records)-1].Request.Secrets); diff != "" {
				t.Error(diff)
			}
		})
	}
}
