// Command record runs the sandbox's demo, scrapes its controller all the time as Prometheus would, and writes the
// series that the dashboards and alerts select to testdata/demo.txt. `make monitoring` runs it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// after is how many scrapes follow the demo's last step: Karpenter computes what it has of nodes every five seconds.
const after = 8

// demo runs the demo, which it ends a few scrapes after the last step.
func demo(ctx context.Context, root string) (*monitoring.Recording, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join("bin", "poolwright-sandbox"), "demo", "--keep", "-o", "json", "--deadline=5m", "--metrics-addr="+address)
	// As Ctrl-C does, so that the sandbox removes its files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Dir, cmd.Stderr = root, os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- lastStep(events) }()
	recording, err := record(ctx, address, done)
	cancel()
	// It was interrupted: how it ends is of no interest.
	_ = cmd.Wait()
	return recording, err
}

// lastStep prints the demo's events until it has summed up.
func lastStep(events io.Reader) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct{ Event string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("reading an event of the demo: %w", err)
		}
		fmt.Println(event.Event)
		if event.Event == "summary" {
			return nil
		}
	}
	return errors.Join(errors.New("the demo ended before its summary"), lines.Err())
}

// record scrapes until the demo is done, and a few times after. What was not scraped in time, on a machine that is busy, is
// recorded as it was before: the moments of a recording are its numbers.
func record(ctx context.Context, address string, done <-chan error) (*monitoring.Recording, error) {
	recording, left := &monitoring.Recording{}, -1
	var before []byte
	var begin time.Time
	added := 0
	for tick := time.NewTicker(monitoring.Interval); left != 0; {
		select {
		case err := <-done:
			if err != nil {
				return nil, err
			}
			left = after
			continue
		case <-tick.C:
		}
		// Before the controller starts, and where it restarts to begin with the engine, nothing is served.
		text, err := scrape(ctx, address)
		if err != nil {
			continue
		}
		if before == nil {
			before, begin = text, time.Now()
		}
		for passed := int(time.Since(begin) / monitoring.Interval); added < passed; added++ {
			if err := recording.Add(before); err != nil {
				return nil, err
			}
		}
		if err := recording.Add(text); err != nil {
			return nil, err
		}
		before, added = text, added+1
		if left > 0 {
			left--
		}
	}
	return recording, nil
}

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
