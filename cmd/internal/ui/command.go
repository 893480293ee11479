// Package ui makes the command ui, which serves a page about a cluster's node pools on this machine: what they cost, what is idle, which
// pods are pending and why, and what differs from the repository.
//
// It reads the cluster with the permissions of its user, listens on a loopback address only, and refuses everything that would change
// something. Start reading at NewCommand; package page renders, server serves, objects reads.
package ui

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/ui/objects"
	"github.com/poolwright/poolwright/cmd/internal/ui/server"
)

const (
	headerTimeout   = 10 * time.Second
	idleTimeout     = 2 * time.Minute
	maxHeaderBytes  = 16 << 10
	shutdownTimeout = 2 * time.Second
)

// listenFlags are the input of ui.
type listenFlags struct {
	address       string
	port          uint16
	noBrowser     bool
	allNamespaces bool
}

// NewCommand makes the command ui, without the flags of a connection.
func NewCommand(env get.Environment) *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a page about the cluster's pools, nodes, pull requests and drift",
		Long: `Serve a page about the cluster on this machine, and open it in the browser.

The page has what get, explain, history and events print, and follows the cluster. It changes nothing. The cluster is read with
your own permissions; what you may not list is left out and named. The address that is printed can be opened once: its token is exchanged for a
cookie of that browser, and a second use of it ends the command with an error. It is served until Ctrl-C.`,
		Example: "  poolwright ui\n  poolwright ui --context staging --port 8090 --no-browser",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), env)
		},
	}
	cmd.Flags().StringVar(&f.address, "address", "127.0.0.1", "loopback address to serve on")
	cmd.Flags().Uint16VarP(&f.port, "port", "p", 0, "port to serve on (default: a free one)")
	cmd.Flags().BoolVar(&f.noBrowser, "no-browser", false, "only print the address")
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "read the Syncs of all namespaces")
	return cmd
}

func (f *listenFlags) run(ctx context.Context, env get.Environment) error {
	if ip := net.ParseIP(f.address); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("--address %q is not a loopback address such as 127.0.0.1: the page is served with your permissions, to whoever has its token", f.address)
	}
	cfg, err := env.Config()
	if err != nil {
		return err
	}
	namespace := ""
	if !f.allNamespaces {
		namespace = env.Namespace()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched, err := objects.Start(ctx, cfg, objects.Options{SyncNamespace: namespace, HistoryNamespace: env.Namespace()}, env.Now)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(f.address, strconv.Itoa(int(f.port))))
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	hosts, port, err := hostsOf(listener.Addr())
	if err != nil {
		return err
	}
	s, token, err := server.New(ctx, server.Config{Documents: watched, Namespace: env.Namespace(), Changed: watched.Changed(), Now: env.Now, Port: port, Hosts: hosts})
	if err != nil {
		return err
	}
	address := "http://" + hosts[0] + "/login?token=" + token
	// The address is last: who starts the command as a program continues with it.
	fmt.Fprintln(env.Err, "serving until Ctrl-C; the address can be opened once")
	fmt.Fprintf(env.Out, "%s\n", address)
	if !f.noBrowser {
		file, err := redirectFile("", address)
		if err == nil {
			defer func() { _ = os.Remove(file) }()
			err = open(file)
		}
		if err != nil {
			fmt.Fprintf(env.Err, "Warning: no browser was opened: %v\n", err)
		}
	}
	return serve(ctx, s, listener)
}

// hostsOf are the values of the header Host that browsers send to a listener, its own address first, and its port. A browser writes the
// address in its canonical form, and leaves out the port 80.
func hostsOf(listens net.Addr) (hosts []string, port string, err error) {
	at, err := netip.ParseAddrPort(listens.String())
	if err != nil {
		return nil, "", fmt.Errorf("listening on %s: %w", listens, err)
	}
	const httpPort = 80
	port = strconv.Itoa(int(at.Port()))
	hosts = []string{at.String(), net.JoinHostPort("localhost", port)}
	if at.Port() == httpPort {
		ip := at.Addr().String()
		if at.Addr().Is6() {
			ip = "[" + ip + "]"
		}
		hosts = append(hosts, ip, "localhost")
	}
	return hosts, port, nil
}

// serve serves requests until the context ends.
func serve(ctx context.Context, s *server.Server, listener net.Listener) error {
	handler, err := s.Handler()
	if err != nil {
		return err
	}
	h := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes}
	done := make(chan error, 1)
	go func() { done <- h.Serve(listener) }()
	select {
	case err = <-done:
		return fmt.Errorf("serving: %w", err)
	case <-s.Reused():
		err = errors.New("the address was opened twice: whoever opened it first could read the page with your permissions, and need not have been you. " +
			"The page is served no more; to begin anew, run poolwright ui")
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if stopping := h.Shutdown(bounded); stopping != nil && !errors.Is(stopping, context.DeadlineExceeded) {
		return errors.Join(err, fmt.Errorf("stopping: %w", stopping))
	}
	return err
}

// redirectFile writes a file that leads a browser to an address, which only its user can read. Whatever starts the browser has the file's
// name on its command line, which every user of the machine can read, in place of the token. An empty folder is that for temporary files.
func redirectFile(folder, address string) (name string, err error) {
	// os.CreateTemp makes it with the mode 0600.
	file, err := os.CreateTemp(folder, "poolwright-ui-*.html")
	if err != nil {
		return "", fmt.Errorf("making the file that the browser opens: %w", err)
	}
	content := fmt.Sprintf("<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<meta http-equiv=\"refresh\" content=\"0;url=%[1]s\">\n<title>Poolwright</title>\n<p><a href=\"%[1]s\">Poolwright</a></p>\n", html.EscapeString(address))
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(file.Name()) // what was not written is no use
		return "", fmt.Errorf("writing the file that the browser opens: %w", err)
	}
	return file.Name(), nil
}

// open has the desktop open a file in the browser.
func open(file string) error {
	cmd := openCommand(runtime.GOOS, file)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // the browser outlives it
	return nil
}

// openCommand opens a file on an operating system. It is in a session of its own: Ctrl-C in the terminal, and the end of this command, do
// not end a browser that it started.
func openCommand(system, file string) *exec.Cmd {
	name := "xdg-open"
	if system == "darwin" {
		name = "open"
	}
	cmd := exec.Command(name, file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}
