package wiretap

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// Config is one wire of one client.
type Config struct {
	// Server is where requests go; Transport is how, http.DefaultTransport where it is nil.
	Server    string
	Transport http.RoundTripper
	// Client is the first client; SetClient names the next one.
	Client string
	// ClientOf names the client at the remote end of a connection, where several use the wire:
	// an empty name is Client, or what SetClient named last. It may be nil.
	ClientOf func(net.Addr) string
	Protocol Protocol
	// Certificate, if any, is what the wire itself is encrypted with: client-go reads
	// credentials from a kubeconfig only for a server that is.
	Certificate *tls.Certificate
}

// Protocol is how requests are named.
type Protocol struct {
	// Parse names a request by its URL, headers and content.
	Parse func(*http.Request, []byte) trace.Request
	// Response adds to a request what the response to it has. It may be nil.
	Response func(*trace.Request, []byte)
}

// Listener is a wire: a proxy at a loopback address.
type Listener struct {
	tap     *Tap
	config  Config
	forward http.Handler
	server  *http.Server
	url     string
	served  chan error

	mu     sync.Mutex
	client string
	lives  map[string]life // by client
}

// life is the context of a client's requests.
type life struct {
	context.Context
	cancel context.CancelFunc
}

// Listen opens a wire. Close closes it.
func (t *Tap) Listen(config Config) (*Listener, error) {
	to, err := url.Parse(config.Server)
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", config.Server, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", config.Server, err)
	}
	l := &Listener{tap: t, config: config, url: "http://" + listener.Addr().String(), served: make(chan error, 1), lives: map[string]life{}}
	l.client = config.Client
	discard := log.New(io.Discard, "", 0)
	l.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Accept-Encoding") // the transport decompresses what it requested itself
		},
		Transport: config.Transport, FlushInterval: -1, ErrorLog: discard,
		// Whoever sends a request on ends it where there is no response.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
	}
	l.server = &http.Server{Handler: l, ReadHeaderTimeout: 10 * time.Second, ErrorLog: discard, ConnContext: l.connContext}
	if config.Certificate != nil {
		l.url = "https://" + listener.Addr().String()
		// HTTP/1.1 alone, since a connection of HTTP/2 cannot be broken off.
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*config.Certificate}, MinVersion: tls.VersionTLS12})
	}
	go func() { l.served <- l.server.Serve(listener) }()
	t.mu.Lock()
	t.listeners = append(t.listeners, l)
	t.mu.Unlock()
	return l, nil
}

// URL is the address of the wire, for its client to use in place of the server's.
func (l *Listener) URL() string { return l.url }

// SetClient names the client from now on, such as the next life of a process.
func (l *Listener) SetClient(name string) {
	l.abort(l.lastClient())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client = name
}

func (l *Listener) lastClient() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// abort ends the requests of a client that are under way.
func (l *Listener) abort(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now, found := l.lives[client]; found {
		now.cancel()
		delete(l.lives, client)
	}
}

// Abort ends all requests that are under way.
func (l *Listener) Abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, now := range l.lives {
		now.cancel()
	}
	clear(l.lives)
}

// Close ends the wire and all requests on it.
func (l *Listener) Close() error {
	l.Abort()
	err := l.server.Close()
	if end := <-l.served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// clientKey is where the context of a connection has its client.
type clientKey struct{}

// connContext names the client of a connection once: a process that has ended cannot be found
// by its connection any more.
func (l *Listener) connContext(ctx context.Context, c net.Conn) context.Context {
	if l.config.ClientOf == nil {
		return ctx
	}
	return context.WithValue(ctx, clientKey{}, l.config.ClientOf(c.RemoteAddr()))
}

// current returns the client of a request, and the context of the client's requests.
func (l *Listener) current(r *http.Request) (string, context.Context) {
	client, _ := r.Context().Value(clientKey{}).(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	if client == "" {
		client = l.client
	}
	now, found := l.lives[client]
	if !found {
		now.Context, now.cancel = context.WithCancel(context.Background())
		l.lives[client] = now
	}
	return client, now
}

// contentLimit is far above any request of the product.
const contentLimit = 64 << 20

// ServeHTTP sends one request on, or has it meet its fault.
func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(io.LimitReader(r.Body, contentLimit))
	if err != nil {
		hangUp(w)
		return
	}
	client, life := l.current(r)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	q := l.config.Protocol.Parse(r, content)
	q.Client = client
	text := searched(r, content)
	if q.Wire == trace.Forge {
		text = withTexts(text, content)
	}
	met, connected := l.tap.admit(&q, text)
	x := &exchange{Listener: l, w: w, request: r.WithContext(ctx), life: life, content: content, writes: q.Writes() || q.Wire == trace.Forge}
	if met != nil {
		x.inject(met, q)
		return
	}
	x.n = l.tap.begin(q)
	if connected {
		x.pass()
	} else {
		x.hangUp()
	}
}

// searched is the text of a request in which secrets are searched for.
func searched(r *http.Request, content []byte) []byte {
	var text bytes.Buffer
	fmt.Fprintln(&text, r.URL.String())
	for name, values := range r.Header {
		fmt.Fprintln(&text, name, strings.Join(values, "\n"))
	}
	if user, password, ok := r.BasicAuth(); ok {
		fmt.Fprintln(&text, user, password)
	}
	text.Write(content)
	return text.Bytes()
}

// withTexts appends what a forge displays of a text: the texts of a JSON document, Markdown with its
// entities and backslashes decoded, and nothing without width, by which forges are kept from
// finding references.
func withTexts(text, content []byte) []byte {
	var document any
	// What is no JSON has no texts in it.
	_ = json.Unmarshal(content, &document)
	for _, s := range texts(document) {
		s = html.UnescapeString(strings.ReplaceAll(s, "\u200b", ""))
		text = append(append(text, '\n'), strings.ReplaceAll(s, "\\", "")...)
	}
	return text
}

// texts are the values of a JSON document that are texts.
func texts(document any) []string {
	var out []string
	switch value := document.(type) {
	case string:
		out = append(out, value)
	case []any:
		for _, one := range value {
			out = append(out, texts(one)...)
		}
	case map[string]any:
		for _, one := range value {
			out = append(out, texts(one)...)
		}
	}
	return out
}

func contains(content []byte, form string) bool { return bytes.Contains(content, []byte(form)) }

// hangUp ends the connection without a response, as a server that is gone does.
func hangUp(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = connection.Close() // nobody waits for it
	}
}
