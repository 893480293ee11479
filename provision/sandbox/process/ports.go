package process

import (
	"fmt"
	"net"
	"strings"
)

// portTries is how often WithPorts draws anew. Another process must take one
// of a few ports within milliseconds for a try to fail.
const portTries = 5

// WithPorts fills the targets with free loopback ports and calls start. It
// draws other ports and tries again while start fails because a port was taken
// in between: the programs that we run can neither take an open socket nor report which
// port they got for 0.
func WithPorts(start func() error, targets ...*int) error {
	var err error
	for range portTries {
		if err = freePorts(targets); err != nil {
			return err
		}
		if err = start(); err == nil || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	return fmt.Errorf("trying %d times to find free ports: %w", portTries, err)
}

// freePorts holds each port until the last is drawn, so all are different.
func freePorts(targets []*int) error {
	for _, target := range targets {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("drawing a free port: %w", err)
		}
		defer func() { _ = listener.Close() }() // nobody connected: nothing to lose
		*target = listener.Addr().(*net.TCPAddr).Port
	}
	return nil
}
