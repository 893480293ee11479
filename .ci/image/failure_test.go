package main

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestWhatCannotBeBuiltIsRefusedBeforeAnythingIs(t *testing.T) {
	for args, want := range map[string]string{
		"-platforms=linux/riscv64":            "linux/riscv64 is neither linux/amd64 nor linux/arm64",
		"-platforms=darwin/arm64":             "darwin/arm64 is neither linux/amd64 nor linux/arm64",
		"-platforms=linux/amd64/v1/v2/v3":     "-platforms: ",
		"-frobnicate":                         "flag provided but not defined: -frobnicate",
		"-created=yesterday":                  `invalid value "yesterday" for flag -created`,
		"-root=/nowhere -platforms=linux/386": "linux/386 is neither",
	} {
		err := run(t.Context(), strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestACloneWithoutALicenceIsRefused(t *testing.T) {
	_, err := newImageIndex(t.TempDir(), stamped, nil)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "LICENSE") {
		t.Errorf("got %v", err)
	}
}

func TestALayerHasItsEntriesInOrderOwnedByRootAtOneTime(t *testing.T) {
	made, err := layer([]entry{{name: "etc/", mode: 0o755}, {name: "etc/x", mode: 0o644, content: []byte("content")}}, stamped.created)
	if err != nil {
		t.Fatal(err)
	}
	content, err := made.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	type read struct {
		Name     string
		Mode     int64
		Size     int64
		Modified time.Time
		Owner    int
	}
	var got []read
	for reader := tar.NewReader(content); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, read{h.Name, h.Mode, h.Size, h.ModTime.UTC(), h.Uid + h.Gid})
	}
	if diff := cmp.Diff([]read{{"etc/", 0o755, 0, stamped.created, 0}, {"etc/x", 0o644, 7, stamped.created, 0}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAReferenceWithoutATagGetsTheVersion(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	a := imageIndex{index: empty.Index}
	for to, want := range map[string]string{"/a/poolwright": stamped.version, "/b/poolwright:latest": "latest"} {
		var out strings.Builder
		if err := a.push(t.Context(), host+to, stamped.version, authn.NewMultiKeychain(), &out); err != nil {
			t.Fatal(err)
		}
		repository, _, _ := strings.Cut(to, ":")
		tag, err := name.NewTag(host + repository + ":" + want)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := remote.Index(tag); err != nil {
			t.Errorf("%s: %v", to, err)
		}
		if !strings.Contains(out.String(), host+repository+":"+want+"@sha256:") {
			t.Errorf("%s: printed %q", to, out.String())
		}
	}
}

func TestARegistryThatRefusesIsNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"errors":[{"code":"DENIED","message":"not yours"}]}`, http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	to := strings.TrimPrefix(server.URL, "http://") + "/poolwright"
	err := imageIndex{index: empty.Index}.push(t.Context(), to, stamped.version, authn.NewMultiKeychain(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "pushing to "+to+":"+stamped.version) || !strings.Contains(err.Error(), "not yours") {
		t.Errorf("got %v", err)
	}
	if err := (imageIndex{}).push(t.Context(), "no reference!", stamped.version, authn.NewMultiKeychain(), io.Discard); err == nil || !strings.Contains(err.Error(), "-push") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsNoBinaryIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "poolwright")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := inspect(v1.Platform{OS: "linux", Architecture: "amd64"}, path); err == nil || !strings.Contains(err.Error(), "linux/amd64") {
		t.Errorf("got %v", err)
	}
}
