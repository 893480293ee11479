package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// pageShutdown is how long poolwright ui has to end.
const pageShutdown = 5 * time.Second

// startPage runs poolwright ui for the cluster of a kubeconfig until the context ends: it opens a browser where there is one. It returns
// the address of the page, which can be opened once, and what waits for its end.
func startPage(ctx context.Context, progress io.Writer, product, kubeconfig string) (address string, wait func() error, err error) {
	cmd := exec.CommandContext(ctx, product, "ui")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "KUBECONFIG=") }), "KUBECONFIG="+kubeconfig)
	cmd.Stderr = progress
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = pageShutdown
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("running poolwright ui: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("running poolwright ui: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(errors.New("poolwright ui ended without an address"), cmd.Wait())
	}
	return strings.TrimSpace(line), cmd.Wait, nil
}
