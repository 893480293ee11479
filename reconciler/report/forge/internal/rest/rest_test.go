package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

func TestForeignErrorTextIsOneLineWithoutSecrets(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain text stays", "Resource not accessible by integration", "Resource not accessible by integration"},
		{"our own token", "you sent 0123abc", "you sent (masked)"},
		{"GitHub's tokens", "ghp_AbC012345 ghs_x.y-z github_pat_11AA_b", "(masked) (masked) (masked)"},
		{"a JSON web token", "got eyJhbGciOi.eyJpc3Mi.c2ln!", "got (masked)!"},
		{"a header", "Authorization: Bearer 0123456789abcdef0123, and more", "Authorization: (masked), and more"},
		{"user and password", "dial https://ada:pa:ss@proxy.example.org/x", "dial https://(masked)@proxy.example.org/x"},
		{"a query", `Get "https://x.example.org/a?access_token=1&b=2": EOF`, `Get "https://x.example.org/a?(masked)": EOF`},
		{"a ?", "really? yes", "really? yes"},
		{"control characters", "a\r\n\tb\x1b[31mc\u202ed", "a b [31mc d"},
		{"a long text", strings.Repeat("é", 400), strings.Repeat("é", 300) + "…"},
	}
	for _, tt := range tests {
		if got := rest.Clean(tt.text, "", "0123abc"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestErrorsOfTheNetworkNameTheCauseAndNoAddress(t *testing.T) {
	at := func(err error) error {
		return &url.Error{Op: "Get", URL: "https://git.example.org/?token=secret", Err: err}
	}
	tests := []struct {
		name string
		err  error
		want string
		is   error
	}{
		{"no host", at(&net.OpError{Op: "dial", Err: &net.DNSError{Name: "git.example.org", IsNotFound: true}}), `no such host "git.example.org"`, nil},
		{"refused", at(errors.New("dial tcp 127.0.0.1:1: connect: connection refused")), "connection refused", nil},
		{"cancelled", at(context.Canceled), "context canceled", context.Canceled},
		{"late", at(context.DeadlineExceeded), "deadline", context.DeadlineExceeded},
	}
	for _, tt := range tests {
		err := rest.Explain("listing", tt.err, rest.Response{})
		if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "token") || err.Code != 0 || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
	limited := &forge.Error{Code: 429}
	if err := rest.Explain("listing", fmt.Errorf("x: %w", at(limited)), rest.Response{}); err.Operation != "listing" || err.Code != 429 || limited.Operation != "" {
		t.Errorf("a known error became %+v", err)
	}
}

func TestAddressesThatLeakAreRefused(t *testing.T) {
	good := map[string]string{
		"https://git.example.org/":           "https://git.example.org",
		"https://git.example.org/forge/":     "https://git.example.org/forge",
		"http://127.0.0.1:3000":              "http://127.0.0.1:3000",
		"http://[::1]:3000/":                 "http://[::1]:3000",
		"http://localhost:3000":              "http://localhost:3000",
		"https://ghe.example.org:444/api/v3": "https://ghe.example.org:444/api/v3",
	}
	for raw, want := range good {
		if got, err := rest.Address(raw); err != nil || got != want {
			t.Errorf("%s: got %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{
		"", "git.example.org", "http://git.example.org", "http://10.0.0.1", "http://localhost.example.org", "ftp://git.example.org", "https://",
		"https://u:s3cret@git.example.org", "https://git.example.org/?token=s3cret", "https://git.example.org/#s3cret", "https://u:s3cret@[::1", "https://git.example.org/%zz?s3cret",
	} {
		if got, err := rest.Address(raw); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %q, %v", raw, got, err)
		}
	}
}

func TestRepositoriesAndHashesAreSafeInPaths(t *testing.T) {
	for full, ok := range map[string]bool{
		"ada/nodes": true, "a.b/c_d-e": true, "ada/.github": true, "ada": false, "ada/": false, "/nodes": false, "ada/nodes/x": false,
		"../nodes": false, "ada/..": false, "ada/.": false, "ada/a b": false, "ada/%2e": false, "ada/nodes?x": false, "": false,
	} {
		if _, _, err := rest.Repository(full); (err == nil) != ok {
			t.Errorf("%q: got %v", full, err)
		}
	}
	hash := strings.Repeat("aB", 20)
	for s, want := range map[string]string{hash: strings.ToLower(hash), hash[1:]: "", hash + "/": "", strings.Repeat("0", 64): strings.Repeat("0", 64), "main": ""} {
		if got := rest.SHA(s); got != want {
			t.Errorf("%q: got %q", s, got)
		}
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (a roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

type endless struct{}

func (endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(zeros{})}, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestAResponseThatIsTooLongIsKnownAsSuch(t *testing.T) {
	response, err := rest.NewClient(rest.NewTransport(endless{}, time.Now)).Get("https://git.example.org/")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, response.Body); !errors.Is(err, rest.ErrTooLong) || n != 32<<20 {
		t.Errorf("%d bytes were read: %v", n, err)
	}
}

func TestALimitHoldsBackRequestsThatNeverLeave(t *testing.T) {
	requested := 0
	transport := rest.NewTransport(roundTripFunc(func(r *http.Request) (*http.Response, error) {
		requested++
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}, Body: http.NoBody, Request: r}, nil
	}), time.Now)
	client := rest.NewClient(transport)
	for range 3 {
		response, err := client.Post("https://git.example.org", "text/plain", strings.NewReader("x"))
		var known *forge.Error
		if err == nil || !errors.As(err, &known) || known.Until.IsZero() {
			t.Errorf("got %v, %v", response, err)
		}
	}
	if requested != 1 {
		t.Errorf("%d requests", requested)
	}
}
