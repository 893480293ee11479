package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestTheImageOfAReleaseIsPushedWhereItsFilesHaveIt(t *testing.T) {
	for push, refused := range map[string]bool{
		"": false, "localhost:5000/p": false, "localhost:5000/p:v1.2.3": false,
		"localhost:5001/p": true, "localhost:5000/q:v1.2.3": true, "localhost:5000/p/q": true,
	} {
		if err := (options{push: push, repository: "localhost:5000/p"}).checkPush(); (err != nil) != refused {
			t.Errorf("%q: %v", push, err)
		}
	}
}

func TestWhatCannotBeBuiltIsRefusedBeforeAnythingIs(t *testing.T) {
	for args, want := range map[string]string{
		"-platforms=linux/riscv64":           "linux/riscv64 is neither linux/amd64 nor linux/arm64",
		"-platforms=darwin/arm64":            "darwin/arm64 is neither linux/amd64 nor linux/arm64",
		"-platforms=linux/amd64/v1/v2/v3":    "-platforms: ",
		"-frobnicate":                        "flag provided but not defined: -frobnicate",
		"-created=yesterday":                 `invalid value "yesterday" for flag -created`,
		"-files=dist/release -version=dev":   `"dev" is no version of a release`,
		"-files=dist/release -version=1.0.0": `"1.0.0" is no version of a release`,
		// The command has no image of these as a default.
		"-files=dist/release -version=v1.2.3-rc1":     `"v1.2.3-rc1" is no version of a release`,
		"-files=dist/release -version=v1.2.3-preview": `"v1.2.3-preview" is no version of a release`,
		"-root=/nowhere -platforms=linux/386":         "linux/386 is neither",
	} {
		err := run(t.Context(), strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// terminating ends the program, as a machine does that shuts down, once something is printed.
type terminating struct {
	t   *testing.T
	ctx context.Context
}

func (w terminating) Write(p []byte) (int, error) {
	if w.ctx.Err() == nil {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			w.t.Error(err)
		}
		<-w.ctx.Done()
	}
	return len(p), nil
}

func TestAProgramThatIsTerminatedRemovesItsTemporaryFolders(t *testing.T) {
	clone, folder := releasedClone(t)
	ctx, stop := interruptible(t.Context())
	defer stop()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	err := run(ctx, []string{"-version=v1.2.3", "-platforms=linux/amd64", "-root=" + clone, "-files=" + folder}, terminating{t, ctx})
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("it goes on: %v", err)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files of the release are there: %v", err)
	}
}
