// Package ui makes the command ui, which serves a page about a cluster's node pools on this machine: what they cost, what is idle, which
// pods are pending and why, and what differs from the repository.
//
// It reads the cluster with the rights of its user, listens on a loopback address only, and refuses everything that would change
// something. Start reading at NewCommand; package page renders, server serves, objects reads.
package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
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

The page has what get and explain print, and follows the cluster. It changes nothing. The cluster is read with your own rights;
what you may not list is left out and named. The address that is printed can be opened once: its token is exchanged for a
cookie of that browser. It is served until Ctrl-C.`,
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
		return fmt.Errorf("--address %q is not a loopback address such as 127.0.0.1: the page is served with your rights, to whoever has its token", f.address)
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
	watched, err := objects.Start(ctx, cfg, namespace, env.Now)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(f.address, strconv.Itoa(int(f.port))))
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return fmt.Errorf("listening on %s: %w", listener.Addr(), err)
	}
	s, token := server.New(ctx, server.Config{
		Documents: watched, Now: env.Now, Port: port,
		Hosts: []string{net.JoinHostPort(f.address, port), net.JoinHostPort("localhost", port)},
	})
	address := "http://" + listener.Addr().String() + "/login?token=" + token
	fmt.Fprintf(env.Out, "%s\n", address)
	fmt.Fprintln(env.Err, "serving until Ctrl-C; the address can be opened once")
	if !f.noBrowser {
		if err := open(ctx, address); err != nil {
			fmt.Fprintf(env.Err, "Warning: no browser was opened: %v\n", err)
		}
	}
	return serve(ctx, s, listener)
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
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := h.Shutdown(bounded); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stopping: %w", err)
	}
	return nil
}

// open has the desktop open an address in the browser.
func open(ctx context.Context, address string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	cmd := exec.CommandContext(ctx, name, address)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // the browser outlives it
	return nil
}
