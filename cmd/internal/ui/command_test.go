package ui

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/ui/page"
	"github.com/poolwright/poolwright/cmd/internal/ui/server"
)

// The page is served with the rights of its user: no other machine may reach it.
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
func (nothing) Interrupted() *page.Interruption { return nil }
func (nothing) Changed() <-chan struct{}        { return nil }

// The page and its stream are served over a real connection, until the context ends.
func TestItServesUntilTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	s, token := server.New(ctx, server.Config{Documents: nothing{}, Hosts: []string{address}, Now: time.Now})
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
	if r := fetch("/login?token=" + token); r.StatusCode != http.StatusOK || r.Request.URL.RawQuery != "" {
		t.Errorf("the login led to %s: %s", r.Request.URL, r.Status)
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
