package assets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/poolwright/poolwright/.ci/release/product"
)

// entry is a file of an archive.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// completer is what kubectl runs where kubectl poolwright is completed.
const completer = "#!/bin/sh\nexec kubectl-poolwright __complete \"$@\"\n"

// archives are the binaries with their completions and licences, one archive for each platform.
func (c Config) archives(ctx context.Context) ([]asset, error) {
	common, err := c.completions(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		content, err := os.ReadFile(filepath.Join(c.Root, name))
		if err != nil {
			return nil, fmt.Errorf("reading what goes into the archives: %w", err)
		}
		common = append(common, entry{name: name, mode: 0o644, content: content})
	}
	modules, err := c.modules(ctx)
	if err != nil {
		return nil, err
	}
	var out []asset
	for _, b := range c.Binaries {
		program, err := os.ReadFile(b.Path)
		if err != nil {
			return nil, fmt.Errorf("reading the binary for %s: %w", b.Platform, err)
		}
		licences, err := licencesOf(b, modules)
		if err != nil {
			return nil, err
		}
		content, err := archive(slices.Concat([]entry{{name: "poolwright", mode: 0o755, content: program}}, common, licences), c.Release.Created)
		if err != nil {
			return nil, err
		}
		out = append(out, asset{name: c.base(b) + ".tar.gz", content: content})
	}
	return out, nil
}

// completions are what the binary for this machine prints for each shell, and kubectl's.
func (c Config) completions(ctx context.Context) ([]entry, error) {
	own := slices.IndexFunc(c.Binaries, func(b product.Binary) bool {
		return b.Platform.OS == runtime.GOOS && b.Platform.Architecture == runtime.GOARCH
	})
	if own < 0 {
		return nil, fmt.Errorf("none of the binaries runs on %s/%s, to print its completions", runtime.GOOS, runtime.GOARCH)
	}
	out := []entry{{name: "completions/kubectl_complete-poolwright", mode: 0o755, content: []byte(completer)}}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		cmd := exec.CommandContext(ctx, c.Binaries[own].Path, "completion", shell)
		cmd.Env = []string{}
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("printing the completions for %s: %w", shell, err)
		}
		out = append(out, entry{name: "completions/poolwright." + shell, mode: 0o644, content: text})
	}
	return out, nil
}

// modules are the folders of the modules that the clone selects, by their paths.
func (c Config) modules(ctx context.Context) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-json=Path,Dir", "all")
	cmd.Dir = c.Root
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the modules of the product: %w", err)
	}
	out := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var m struct{ Path, Dir string }
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing the modules of the product: %w", err)
		}
		out[m.Path] = m.Dir
	}
}

// licence are the names of files with the terms of a module.
var licence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice)([-._].*)?$`)

// licencesOf are the terms of every module that a binary was built from. A module without any is an error:
// its code may not be given away.
func licencesOf(b product.Binary, modules map[string]string) ([]entry, error) {
	var out []entry
	for _, d := range b.Info.Deps {
		listed, err := os.ReadDir(modules[d.Path])
		if modules[d.Path] == "" || err != nil {
			return nil, fmt.Errorf("reading the licence of %s: its folder is %q: %w", d.Path, modules[d.Path], err)
		}
		found := false
		for _, f := range listed {
			if !f.Type().IsRegular() || !licence.MatchString(f.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(modules[d.Path], f.Name()))
			if err != nil {
				return nil, fmt.Errorf("reading the licence of %s: %w", d.Path, err)
			}
			out, found = append(out, entry{name: "licenses/" + d.Path + "/" + f.Name(), mode: 0o644, content: content}), true
		}
		if !found {
			return nil, fmt.Errorf("the module %s has no licence in its folder", d.Path)
		}
	}
	return out, nil
}

// archive is a compressed tar archive of entries, all of one time and nobody's in particular.
func archive(entries []entry, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, product.CompressionLevel)
	if err != nil {
		return nil, fmt.Errorf("writing an archive: %w", err)
	}
	w := tar.NewWriter(zip)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: modified, Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing %s to an archive: %w", e.name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("writing %s to an archive: %w", e.name, err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("writing an archive: %w", err)
	}
	return out.Bytes(), nil
}
