package githubapp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// hub is GitHub as far as the manifest flow goes: the page for browsers, the exchange of the code, and the installation.
type hub struct {
	*httptest.Server
	key string

	mu        sync.Mutex
	manifests []manifest
	paths     []string
	codes     map[string]bool // good for one exchange
	exchanged int
	status    int // of an exchange, where not 0
	installed bool
	polls     int
}

// appKey is one key for all tests.
var appKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newHub(t *testing.T) *hub {
	t.Helper()
	key, err := appKey()
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{key: string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})), codes: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /organizations/{org}/settings/apps/new", h.register)
	mux.HandleFunc("POST /settings/apps/new", h.register)
	mux.HandleFunc("POST /api/v3/app-manifests/{code}/conversions", func(w http.ResponseWriter, r *http.Request) {
		code := r.PathValue("code")
		switch {
		case h.status != 0:
			http.Error(w, `{"message": "Not Found"}`, h.status)
		case !h.codes[code] || r.Header.Get("Authorization") != "":
			http.Error(w, `{"message": "Not Found"}`, http.StatusNotFound)
		default:
			delete(h.codes, code)
			h.exchanged++
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]any{
				"id": 41, "slug": "poolwright-team", "html_url": h.URL + "/apps/poolwright-team", "pem": h.key, "webhook_secret": "s3cret-hook", "client_secret": "s3cret-client",
			})
		}
	})
	mux.HandleFunc("GET /apps/poolwright-team/installations/new", func(http.ResponseWriter, *http.Request) { h.installed = true })
	mux.HandleFunc("GET /api/v3/repos/team/nodes/installation", func(w http.ResponseWriter, r *http.Request) {
		h.polls++
		if !h.installed || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ey") {
			http.Error(w, `{"message": "Not Found"}`, http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": 4242, "app_id": 41})
	})
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// register is what GitHub does where a person presses Create GitHub App.
func (h *hub) register(w http.ResponseWriter, r *http.Request) {
	var m manifest
	if err := json.Unmarshal([]byte(r.PostFormValue("manifest")), &m); err != nil || m.URL == "" || m.Hook.URL == "" {
		http.Error(w, "the manifest is invalid", http.StatusUnprocessableEntity)
		return
	}
	h.manifests, h.paths = append(h.manifests, m), append(h.paths, r.URL.Path)
	code := fmt.Sprintf("a180b1a3d263c81b%d", len(h.manifests))
	h.codes[code] = true
	http.Redirect(w, r, m.RedirectURL+"?"+url.Values{"code": {code}, "state": {r.URL.Query().Get("state")}}.Encode(), http.StatusFound)
}

// run is one run of the command, until it ends.
type run struct {
	*testing.T
	hub      *hub
	file     string
	address  string
	out, err *bytes.Buffer
	done     chan error
}

func start(t *testing.T, h *hub, change func(*createFlags)) *run {
	t.Helper()
	return startWith(t.Context(), t, h, time.Millisecond, change)
}

func startWith(ctx context.Context, t *testing.T, h *hub, poll time.Duration, change func(*createFlags)) *run {
	t.Helper()
	r := &run{T: t, hub: h, file: filepath.Join(t.TempDir(), "app.yaml"), out: &bytes.Buffer{}, err: &bytes.Buffer{}, done: make(chan error, 1)}
	f := &createFlags{file: r.file, secret: "forge", namespace: "poolwright-system"}
	if change != nil {
		change(f)
	}
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	printed := lines{make(chan string, 10)}
	go func() {
		r.done <- f.create(ctx, Environment{Out: io.MultiWriter(r.out, printed), Err: r.err, Now: time.Now}, h.URL+"/team/nodes", poll)
	}()
	select {
	case r.address = <-printed.ch:
	case err := <-r.done:
		t.Fatal(err)
	}
	return r
}

// lines passes on what is printed.
type lines struct{ ch chan string }

func (l lines) Write(p []byte) (int, error) {
	l.ch <- strings.TrimSpace(string(p))
	return len(p), nil
}

func (r *run) get(address string) (int, string) {
	r.Helper()
	response, err := http.Get(address) //nolint:noctx // the test's server
	if err != nil {
		r.Fatal(err)
	}
	raw, err := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil {
		r.Fatal(err)
	}
	if err != nil {
		r.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

var (
	actionIn   = regexp.MustCompile(`<form action="([^"]*)"`)
	manifestIn = regexp.MustCompile(`name="manifest" value="([^"]*)"`)
)

// form is where the page sends the manifest.
func (r *run) form() (action, manifest string) {
	r.Helper()
	status, body := r.get(r.address)
	a, m := actionIn.FindStringSubmatch(body), manifestIn.FindStringSubmatch(body)
	if status != http.StatusOK || a == nil || m == nil {
		r.Fatalf("status %d: %s", status, body)
	}
	return html.UnescapeString(a[1]), html.UnescapeString(m[1])
}

// submit presses the button, and follows GitHub to wherever it leads.
func (r *run) submit() int {
	r.Helper()
	action, manifest := r.form()
	response, err := http.PostForm(action, url.Values{"manifest": {manifest}}) //nolint:noctx // the test's server
	if err != nil {
		r.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		r.Fatal(err)
	}
	return response.StatusCode
}

// private fails where a secret is anywhere but in the file.
func (r *run) private(err error) {
	r.Helper()
	all := fmt.Sprint(r.out, r.err, err)
	for _, secret := range []string{"PRIVATE KEY", "s3cret", "a180b1a3d263c81b", r.hub.key[40:80]} {
		if strings.Contains(all, secret) {
			r.Errorf("%q was printed", secret)
		}
	}
}

func TestAnAppIsRegisteredAndItsKeyIsInTheFileAlone(t *testing.T) {
	h := newHub(t)
	r := start(t, h, nil)
	if status := r.submit(); status != http.StatusOK {
		t.Errorf("the browser ends with %d", status)
	}
	err := <-r.done
	if err != nil {
		t.Fatal(err)
	}
	r.private(err)
	info, err := os.Stat(r.file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	raw, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict(raw, &secret); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"githubAppID": "41", "githubAppInstallationID": "4242", "githubAppPrivateKey": h.key}
	if secret.Kind != "Secret" || secret.Name != "forge" || secret.Namespace != "poolwright-system" || !maps.Equal(secret.StringData, want) {
		t.Errorf("got %s %s/%s with the keys %v", secret.Kind, secret.Namespace, secret.Name, slices.Sorted(maps.Keys(secret.StringData)))
	}
	m := h.manifests[0]
	permissions := map[string]string{"checks": "write", "metadata": "read", "pull_requests": "write", "statuses": "write"}
	if h.paths[0] != "/organizations/team/settings/apps/new" || m.Name != "poolwright-team" || m.Public || m.Hook.Active || len(m.DefaultEvents) != 0 || !maps.Equal(m.DefaultPermissions, permissions) {
		t.Errorf("%s: %+v", h.paths[0], m)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(r.file), "*")); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestFlagsChangeWhatIsRegistered(t *testing.T) {
	h := newHub(t)
	r := start(t, h, func(f *createFlags) { f.personal, f.contents, f.name = true, true, `a"><b` })
	r.submit()
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
	if m := h.manifests[0]; h.paths[0] != "/settings/apps/new" || m.Name != `a"><b` || m.DefaultPermissions["contents"] != "read" {
		t.Errorf("%s: %+v", h.paths[0], m)
	}
}

// Whoever sends the browser here has no state, and takes no place from who has.
func TestACodeCountsWithItsStateOnlyAndOnce(t *testing.T) {
	h := newHub(t)
	r := start(t, h, nil)
	action, _ := r.form()
	u, err := url.Parse(action)
	if err != nil {
		t.Fatal(err)
	}
	state := u.Query().Get("state")
	base := r.address[:strings.LastIndexByte(r.address, '/')]
	if len(state) < 26 || strings.Contains(r.address, state) {
		t.Errorf("state %q", state)
	}
	for name, query := range map[string]string{"none": "code=bad", "another": "code=bad&state=" + strings.Repeat("A", len(state)), "the page's token": "code=bad&state=" + r.address[len(base)+1:]} {
		if status, _ := r.get(base + "/created?" + query); status != http.StatusForbidden {
			t.Errorf("%s: status %d", name, status)
		}
	}
	for _, path := range []string{"/", "/" + state} {
		if status, body := r.get(base + path); status != http.StatusNotFound || strings.Contains(body, "manifest") {
			t.Errorf("%s: status %d", path, status)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "rebound.example.com"
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another host: status %d, %v", response.StatusCode, err)
	}
	r.submit()
	if err := <-r.done; err != nil || h.exchanged != 1 {
		t.Errorf("%d exchanges, %v", h.exchanged, err)
	}
}

func TestAFailureLeavesNoFileAndPrintsNoCode(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		code   string
	}{
		"an exchange that GitHub refuses": {http.StatusNotFound, ""},
		"an outage":                       {http.StatusBadGateway, ""},
		"a code that is a path":           {0, "../../user"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.status = c.status
			r := start(t, h, nil)
			if c.code == "" {
				if status := r.submit(); status != http.StatusBadGateway {
					t.Errorf("the browser ends with %d", status)
				}
			} else {
				action, _ := r.form()
				u, err := url.Parse(action)
				if err != nil {
					t.Fatal(err)
				}
				r.get(r.address[:strings.LastIndexByte(r.address, '/')] + "/created?" + url.Values{"code": {c.code}, "state": u.Query()["state"]}.Encode())
			}
			err := <-r.done
			if err == nil {
				t.Fatal("no error")
			}
			r.private(err)
			if _, err := os.Stat(r.file); !os.IsNotExist(err) {
				t.Errorf("the file is there: %v", err)
			}
		})
	}
}

func TestAFileThatExistsIsNotTouched(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(file, []byte("of another App"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &createFlags{file: file, secret: "forge", namespace: "poolwright-system"}
	var out bytes.Buffer
	ended, cancel := context.WithCancel(t.Context()) // Nobody comes with a browser.
	cancel()
	err := f.create(ended, Environment{Out: &out, Err: &out, Now: time.Now}, "https://github.com/team/nodes", time.Millisecond)
	raw, readErr := os.ReadFile(file)
	if err == nil || readErr != nil || string(raw) != "of another App" || out.Len() != 0 {
		t.Errorf("%v, %v, %q", err, readErr, out.String())
	}
}

// The command ends before the App is installed: the key is there, and what is missing is named.
func TestAnAppThatIsNotInstalledKeepsItsKey(t *testing.T) {
	h := newHub(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := startWith(ctx, t, h, time.Hour, nil)
	client := &http.Client{CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if strings.HasSuffix(next.URL.Path, "/installations/new") {
			cancel()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	action, manifest := r.form()
	response, err := client.PostForm(action, url.Values{"manifest": {manifest}}) //nolint:noctx // the test's server
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	err = <-r.done
	raw, readErr := os.ReadFile(r.file)
	if err == nil || readErr != nil || !strings.Contains(string(raw), "PRIVATE KEY") || strings.Contains(string(raw), "githubAppInstallationID") || !strings.Contains(err.Error(), "githubAppInstallationID") {
		t.Errorf("%v, %v", err, readErr)
	}
	r.private(err)
}

func TestTheDefaultNameIsOneThatGitHubTakes(t *testing.T) {
	for owner, want := range map[string]string{
		"team":                           "poolwright-team",
		"an-organization-of-23-ab":       "poolwright-an-organization-of-23-a",
		"an-organization-with-2-andmore": "poolwright-an-organization-with-2",
	} {
		if got := defaultName(owner); got != want || len(got) > 34 {
			t.Errorf("%s: got %s, of %d characters", owner, got, len(got))
		}
	}
}

// What an earlier run left behind is found before GitHub has an App whose key would have no place.
func TestAFileThatIsLeftOverEndsItBeforeTheRegistration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(file+".new", []byte("of another App"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ended, cancel := context.WithCancel(t.Context()) // Nobody comes with a browser.
	cancel()
	f := &createFlags{file: file, secret: "forge", namespace: "poolwright-system"}
	err := f.create(ended, Environment{Out: &out, Err: &out, Now: time.Now}, "https://github.com/team/nodes", time.Millisecond)
	raw, readErr := os.ReadFile(file + ".new")
	if err == nil || !strings.Contains(err.Error(), file+".new") || readErr != nil || string(raw) != "of another App" || out.Len() != 0 {
		t.Errorf("%v, %v, %q", err, readErr, out.String())
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is there: %v", err)
	}
}

func TestAFileWithoutAKeyIsRemovedAndOneWithAKeyStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.yaml")
	f, err := newSecretFile(path, "poolwright-system", "forge")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.next.Close(); err != nil { // It cannot be written to.
		t.Fatal(err)
	}
	if err := f.write(41, "key", 0); err == nil || f.written {
		t.Errorf("written %v, %v", f.written, err)
	}
	f.discard()
	left := func() []string {
		t.Helper()
		out, err := filepath.Glob(path + "*")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := left(); len(got) != 0 {
		t.Errorf("left %v", got)
	}
	if f, err = newSecretFile(path, "poolwright-system", "forge"); err != nil {
		t.Fatal(err)
	}
	if err := f.write(41, "key", 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("of somebody else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.write(41, "key", 42); err == nil {
		t.Error("a file of somebody else was written over")
	}
	f.discard()
	raw, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(raw), "key") || len(left()) != 2 {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestFailuresWhileItWaitsForTheInstallationArePrintedOnceEach(t *testing.T) {
	refused, outage := &forge.Error{Code: http.StatusUnauthorized}, &forge.Error{Code: http.StatusBadGateway, Message: "a"}
	same := &forge.Error{Code: http.StatusBadGateway, Message: "b"} // Its text differs, and nothing else.
	responses := []error{refused, refused, outage, nil, same, outage}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	find := func(context.Context) (int64, error) {
		if n == len(responses) {
			cancel()
			return 0, context.Canceled
		}
		n++
		return 0, responses[n-1]
	}
	var printed bytes.Buffer
	_, err := installed(ctx, time.Microsecond, find, &printed)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, outage) {
		t.Errorf("got %v", err)
	}
	var want strings.Builder
	for _, failure := range []error{refused, outage, same} {
		fmt.Fprintf(&want, "%v; it is tried again\n", failure)
	}
	if got := printed.String(); got != want.String() {
		t.Errorf("printed %q", got)
	}
}
