package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets this binary be a process that only a signal ends.
func TestMain(m *testing.M) {
	if os.Getenv("REAPER_TEST_ROLE") == "" {
		os.Exit(m.Run())
	}
	<-time.After(time.Hour)
}

// victim is a process in a group of its own, collected when it ends.
func victim(t *testing.T) (pid int, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"REAPER_TEST_ROLE=victim"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // "signal: killed" is what it is for
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
		<-done
	})
	return cmd.Process.Pid, done
}

func TestWhatIsWatchedIsKilledAndTheFolderRemoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "world")
	if err := os.MkdirAll(filepath.Join(folder, "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	watched, ended := victim(t)
	unwatched, alive := victim(t)
	orders := fmt.Sprintf("remove %s\nwatch %d\nwatch %d\nunwatch %d\n", folder, watched, unwatched, unwatched)
	if err := run(strings.NewReader(orders)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the watched process is alive")
	}
	select {
	case <-alive:
		t.Error("the process that is not watched any more was killed")
	default:
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestKeepLeavesTheFolder(t *testing.T) {
	folder := t.TempDir()
	if err := run(strings.NewReader("remove " + folder + "\nkeep\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

func TestABadOrderIsRefusedAndTheOthersAreFollowed(t *testing.T) {
	for name, bad := range map[string]string{
		"an unknown argument":       "destroy 5",
		"group 0, which is our own": "watch 0",
		"group 1, which is init's":  "watch 1",
		"a negative group":          "watch -1",
		"no number":                 "watch etcd",
		"a relative path":           "remove world",
		"the root":                  "remove /",
		"the root, written long":    "remove /tmp/..",
		"an empty line":             "",
	} {
		t.Run(name, func(t *testing.T) {
			pid, ended := victim(t)
			err := run(strings.NewReader(fmt.Sprintf("%s\nwatch %d\n", bad, pid)))
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
				t.Errorf("got %v", err)
			}
			<-ended
		})
	}
}
