// Command record runs the sandbox's demo, scrapes its controller all the time as Prometheus would, and writes the
// series that the dashboards and alerts select to testdata/demo.txt. `make monitoring` runs it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/poolwright/poolwright/.ci/monitoring"
)

func main() {
	root := flag.String("root", ".", "the root of the repository, with bin/poolwright-sandbox")
	flag.Parse()
	if err := run(context.Background(), *root); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root string) error {
	queries, err := monitoring.Queries(root)
	if err != nil {
		return err
	}
	recording, err := demo(ctx, root)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := recording.Write(&out, queries); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, ".ci", "monitoring", "testdata", "demo.txt"), out.Bytes(), 0o600)
}

// demo runs the demo to its end.
func demo(ctx context.Context, root string) (*monitoring.Recording, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "poolwright-sandbox"), "demo", "--deadline=5m", "--metrics-addr="+address)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { cancel(errors.Join(errEnded, cmd.Wait())) }()
	recording := &monitoring.Recording{}
	for tick := time.NewTicker(monitoring.Interval); ; {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); err.Error() != errEnded.Error() {
				return nil, err
			}
			return recording, nil
		case <-tick.C:
		}
		// Before the controller starts, and where it restarts to begin with the engine, nothing is served.
		if text, err := scrape(ctx, address); err == nil {
			if err := recording.Add(text); err != nil {
				return nil, err
			}
		}
	}
}

var errEnded = errors.New("the demo has ended")

func scrape(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metrics are served with %s", response.Status)
	}
	return io.ReadAll(response.Body)
}

// freeAddress is one of this machine's at which nothing listens.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
