package ui

import (
	"bufio"
	"context"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/ui/page"
	"github.com/poolwright/poolwright/cmd/internal/ui/server"
	"github.com/poolwright/poolwright/reconciler/history"
)

// The page is served with the permissions of its user: no other machine may reach it.
func TestOnlyLoopbackAddressesAreServed(t *testing.T) {
	reached := errors.New("the configuration is loaded")
	for address, allowed := range map[string]bool{
		"127.0.0.1": true, "127.0.0.2": true, "::1": true,
		"0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost": false, "example.com": false, "": false, "127.0.0.1:80": false, "169.254.1.1": false,
	} {
		cmd := NewCommand(get.Environment{Config: func() (*rest.Config, error) { return nil, reached }, Namespace: func() string { return "" }, Out: io.Discard, Err: io.Discard, Now: time.Now})
		cmd.SetArgs([]string{"--address", address})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || errors.Is(err, reached) != allowed {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// nothing are the documents of a cluster in which there is nothing.
type nothing struct{}

func (nothing) Report(context.Context) (get.Report, error) { return get.Report{}, nil }
func (nothing) Explain(context.Context, explain.Object) (explain.Explanation, error) {
	return explain.Explanation{}, explain.NotFound{Message: "there is nothing"}
}
func (nothing) Interrupted() *page.Interruption                  { return nil }
func (nothing) History(context.Context) (history.History, error) { return history.History{}, nil }

// The page and its stream are served over a real connection, until the context ends.
func TestItServesUntilTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	s, token, err := server.New(ctx, server.Config{Documents: nothing{}, Hosts: []string{address}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(ctx, s, listener) }()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{Jar: jar}
	fetch := func(path string) *http.Response {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := browser.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Body.Close() })
		return r
	}
	if r := fetch("/login?token=" + token); r.StatusCode != http.StatusOK {
		t.Errorf("the login returned %s", r.Status)
	}
	line, err := bufio.NewReader(fetch("/updates/").Body).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "event: status" {
		t.Errorf("the stream begins with %q, %v", line, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Whoever is first, somebody else has the token: the command ends with an error, and the page is served to neither.
func TestASecondUseOfTheTokenEndsTheCommandWithAnError(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	s, token, err := server.New(t.Context(), server.Config{Documents: nothing{}, Hosts: []string{address}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(t.Context(), s, listener) }()
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/login?token="+token, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("it returned %s, not %d", r.Status, want)
		}
	}
	if err := <-done; err == nil {
		t.Error("it ended without an error")
	}
}

// Every user of a machine can read the command lines of all.
func TestTheBrowserIsStartedWithoutTheTokenAndInItsOwnSession(t *testing.T) {
	const address = "http://127.0.0.1:8090/login?token=SECRET&x=\"><script>"
	file, err := redirectFile(t.TempDir(), address)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("the file has the mode %o", mode)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(content); !strings.Contains(text, "0;url="+html.EscapeString(address)) || strings.Contains(text, "<script>") {
		t.Errorf("the file has %s", text)
	}
	for system, name := range map[string]string{"linux": "xdg-open", "darwin": "open"} {
		cmd := openCommand(system, file)
		if diff := cmp.Diff([]string{name, file}, cmd.Args); diff != "" {
			t.Errorf("%s (-want +got):\n%s", system, diff)
		}
		if cmd.SysProcAttr == nil || !cmd.SysProcAttr.Setsid || cmd.Cancel != nil {
			t.Errorf("on %s the browser ends with the terminal or the command: %+v", system, cmd.SysProcAttr)
		}
	}
}

func TestTheHostsAreThoseThatBrowsersSend(t *testing.T) {
	for listens, want := range map[string][]string{
		"127.0.0.1:8090":          {"127.0.0.1:8090", "localhost:8090"},
		"[0:0:0:0:0:0:0:1]:8090":  {"[::1]:8090", "localhost:8090"},
		"[::ffff:127.0.0.1]:8090": {"127.0.0.1:8090", "localhost:8090"},
		"127.0.0.1:80":            {"127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"},
		"[::1]:80":                {"[::1]:80", "localhost:80", "[::1]", "localhost"},
	} {
		got, _, err := hostsOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(listens)))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", listens, err, diff)
		}
	}
}
