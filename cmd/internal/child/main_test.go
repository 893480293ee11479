package child

import (
	"context"
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// TestMain runs as the child where the test binary was started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "child" {
		if err := beChild(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	// With a behavior in place of the verb that it was started with.
	if len(os.Args) == 6 && os.Args[1] == "misbehave" {
		if err := beChild(os.Args[2], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
		}
		os.Exit(2)
	}
	if len(os.Args) == 2 && os.Args[1] == "parent" {
		if err := beParent(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(m.Run())
}

func beChild(verb, memory, seconds string) error {
	directoryOfChild, _ = os.Getwd()
	parentOfChild, groupOfChild = os.Getppid(), syscall.Getpgrp()
	if err := Confine(memory, seconds); err != nil {
		return err
	}
	if behavior, ok := behaviors[verb]; ok {
		out := &writer{to: os.Stdout, remaining: 1 << 40}
		if err := out.send(frameReady, nil); err != nil {
			return err
		}
		return behavior(out, &reader{from: os.Stdin, remaining: 1 << 40})
	}
	return Serve(context.Background(), verb, os.Stdin, os.Stdout)
}

// beParent starts a child, passes on what it tells of itself, and waits for it.
func beParent() error {
	r := &Runner{}
	_, err := r.run(context.Background(), job{verb: "send its process id and sleep", doing: "sleeping", exchange: func(_ *writer, out *reader) (frame, error) {
		id, err := out.expect(frameRead)
		if err != nil {
			return frame{}, err
		}
		fmt.Println(string(id))
		return out.last()
	}})
	return err
}
