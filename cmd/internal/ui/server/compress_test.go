package server

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestADocumentIsCompressedForWhoAcceptsIt(t *testing.T) {
	h, _, token := started(t, newDocuments())
	cookie := loggedIn(t, h, token)
	accepting := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Accept-Encoding", value) }
	}
	for _, path := range []string{"/", "/nodes/missing", "/api/v1/overview", "/api/v1/savings.csv"} {
		plain := do(h, http.MethodGet, path, cookie)
		want := body(t, plain)
		if plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: the headers without Accept-Encoding are %v", path, plain.Header)
		}
		r := do(h, http.MethodGet, path, cookie, accepting("gzip, deflate, br"))
		if r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Content-Type") != plain.Header.Get("Content-Type") || r.StatusCode != plain.StatusCode {
			t.Fatalf("%s: %s with %v", path, r.Status, r.Header)
		}
		in, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v: it is not what it is without compression:\n%s", path, err, got)
		}
	}
	for value, want := range map[string]string{"": "", "br": "", "gzip": "gzip", "br;q=1.0, GZIP;q=0.8": "gzip", "gzip;q=0": "", "gzip; q=0.000": "", "gzipped": ""} {
		if got := do(h, http.MethodGet, "/", cookie, accepting(value)).Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding: %s: the content has the encoding %q", value, got)
		}
	}
}

func TestAStreamIsNotCompressed(t *testing.T) {
	h, _, token := started(t, newDocuments())
	r := do(h, http.MethodGet, "/updates/", loggedIn(t, h, token), func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	if got := body(t, r); r.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(got, "event: ") {
		t.Errorf("it is %v: %s", r.Header, got)
	}
}
