package githubapp

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// homepage is what GitHub shows as the App's.
const homepage = "https://github.com/poolwright/poolwright"

// registration is what is to be registered, and where.
type registration struct {
	// site is GitHub for browsers, such as https://github.com.
	site, organization, name string
	personal                 bool
	permissions              map[string]string
}

// manifest is an App's, as GitHub documents it.
type manifest struct {
	Name               string            `json:"name"`
	URL                string            `json:"url"`
	Hook               appWebhook        `json:"hook_attributes"`
	RedirectURL        string            `json:"redirect_url"`
	Public             bool              `json:"public"`
	DefaultEvents      []string          `json:"default_events"`
	DefaultPermissions map[string]string `json:"default_permissions"`
}

// appWebhook is an App's own webhook, which is off.
type appWebhook struct {
	URL    string `json:"url"`
	Active bool   `json:"active"`
}

// manifestPage is the server on loopback that the browser goes to GitHub from, and comes back to.
type manifestPage struct {
	listener     net.Listener
	server       *http.Server
	token, state string
	form         form

	codes chan string
	// next is where the browser goes once the code is exchanged; empty where that failed.
	next chan string
	once sync.Once
}

// form is what the template shows.
type form struct{ Action, Manifest, Owner, Name string }

func newPage(ctx context.Context, r registration) (*manifestPage, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	p := &manifestPage{listener: listener, token: rand.Text(), state: rand.Text(), codes: make(chan string, 1), next: make(chan string, 1)}
	m := manifest{
		Name: r.name, URL: homepage, Hook: appWebhook{URL: homepage}, RedirectURL: p.base() + "/created",
		DefaultEvents: []string{}, DefaultPermissions: r.permissions,
	}
	if m.Name == "" {
		m.Name = defaultName(r.organization)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("making the App's manifest: %w", err)
	}
	p.form = form{Action: r.site + "/settings/apps/new", Manifest: string(raw), Owner: r.organization, Name: m.Name}
	if r.personal {
		p.form.Owner = "your own account"
	} else {
		p.form.Action = r.site + "/organizations/" + url.PathEscape(r.organization) + "/settings/apps/new"
	}
	p.form.Action += "?" + url.Values{"state": {p.state}}.Encode()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+p.token, p.serveForm)
	mux.HandleFunc("GET /created", p.serveCreated)
	p.server = &http.Server{Handler: p.guard(mux), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// nameLength is GitHub's limit of an App's name, in characters.
const nameLength = 34

// defaultName is the App's name for an owner, whose name has letters, digits and hyphens.
func defaultName(owner string) string {
	name := "poolwright-" + owner
	return strings.TrimRight(name[:min(len(name), nameLength)], "-")
}

func (p *manifestPage) base() string    { return "http://" + p.listener.Addr().String() }
func (p *manifestPage) address() string { return p.base() + "/" + p.token }

// close lets a response that is under way end.
func (p *manifestPage) close() {
	p.conclude("")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = p.server.Shutdown(ctx)
}

// guard refuses names that lead here by DNS, and keeps what a page is made of out of caches and other pages.
func (p *manifestPage) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != p.listener.Addr().String() {
			http.Error(w, "this is not the address that was printed", http.StatusMisdirectedRequest)
			return
		}
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Referrer-Policy", "strict-origin")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'")
		next.ServeHTTP(w, r)
	})
}

var formTemplate = template.Must(template.New("form").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Register a GitHub App</title>
<h1>Register the GitHub App {{.Name}}</h1>
<p>GitHub shows its name and owner ({{.Owner}}) before it is created. It gets these permissions on the repositories that you install it on:</p>
<pre>{{.Manifest}}</pre>
<form action="{{.Action}}" method="post"><input type="hidden" name="manifest" value="{{.Manifest}}"><button>Go on at GitHub</button></form>
</html>
`))

func (p *manifestPage) serveForm(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = formTemplate.Execute(w, p.form)
}

// serveCreated takes the code, once, and holds the browser until it is exchanged.
func (p *manifestPage) serveCreated(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(p.state)) != 1 {
		http.Error(w, "the state is not the one that was sent to GitHub: begin again at the address that was printed", http.StatusForbidden)
		return
	}
	taken := false
	p.once.Do(func() {
		p.codes <- query.Get("code")
		taken = true
	})
	if !taken {
		http.Error(w, "the code was taken already", http.StatusConflict)
		return
	}
	select {
	case <-r.Context().Done():
	case next := <-p.next:
		if next == "" {
			http.Error(w, "the App could not be completed: the command has the error", http.StatusBadGateway)
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// code waits for the browser.
func (p *manifestPage) code(ctx context.Context) (string, error) {
	select {
	case code := <-p.codes:
		return code, nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return "", errors.New("interrupted before the App was created")
		}
		return "", fmt.Errorf("waiting for the browser: %w", ctx.Err())
	}
}

// conclude sends the browser on; only the first call has an effect.
func (p *manifestPage) conclude(next string) {
	select {
	case p.next <- next:
	default:
	}
}
