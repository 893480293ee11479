package image

import (
	"archive/tar"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestACloneWithoutALicenceIsRefused(t *testing.T) {
	_, err := New(t.TempDir(), stamped, nil)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "LICENSE") {
		t.Errorf("got %v", err)
	}
}

func TestALayerHasItsEntriesInOrderOwnedByRootAtOneTime(t *testing.T) {
	made, err := layer([]entry{{name: "etc/", mode: 0o755}, {name: "etc/x", mode: 0o644, content: []byte("content")}}, stamped.Created)
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
	if diff := cmp.Diff([]read{{"etc/", 0o755, 0, stamped.Created, 0}, {"etc/x", 0o644, 7, stamped.Created, 0}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAReferenceWithoutATagGetsTheVersion(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	a := Index{index: empty.Index}
	for to, want := range map[string]string{"/a/poolwright": stamped.Version, "/b/poolwright:latest": "latest"} {
		var out strings.Builder
		if err := a.Push(t.Context(), host+to, stamped.Version, authn.NewMultiKeychain(), &out); err != nil {
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
	err := Index{index: empty.Index}.Push(t.Context(), to, stamped.Version, authn.NewMultiKeychain(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "pushing to "+to+":"+stamped.Version) || !strings.Contains(err.Error(), "not yours") {
		t.Errorf("got %v", err)
	}
	if err := (Index{}).Push(t.Context(), "no reference!", stamped.Version, authn.NewMultiKeychain(), io.Discard); err == nil || !strings.Contains(err.Error(), "-push") {
		t.Errorf("got %v", err)
	}
}
