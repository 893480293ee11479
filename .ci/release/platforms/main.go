// Command platforms checks that the product is valid Go for each platform that a release has a program for, by
// its sources. To compile it for another platform takes minutes on a machine without caches, as every dependency is
// compiled first; here the bodies of their functions are skipped. Start reading at run.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/poolwright/poolwright/.ci/release/verify"
)

func main() {
	root := flag.String("root", "../..", "the clone of the repository")
	flag.Parse()
	if err := run(context.Background(), *root, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run checks the product in a clone for each platform of a release but this machine's, for which it is compiled.
func run(ctx context.Context, root string, out io.Writer) error {
	var errs []error
	for _, platform := range verify.Platforms {
		if platform.OS == runtime.GOOS && platform.Architecture == runtime.GOARCH {
			continue
		}
		listed, err := list(ctx, root, platform)
		if err != nil {
			return err
		}
		own, err := check(listed, platform)
		if err != nil {
			errs = append(errs, fmt.Errorf("for %s: %w", platform, err))
			continue
		}
		if own == 0 {
			return fmt.Errorf("for %s there is no package of the product", platform)
		}
		fmt.Fprintf(out, "%s: %d packages of the product and %d that they import are valid\n", platform, own, len(listed)-own)
	}
	return errors.Join(errs...)
}

// listedPackage is a package as go list prints it.
type listedPackage struct {
	ImportPath, Dir string
	GoFiles         []string
	// ImportMap has the paths of imports that differ from what the source has.
	ImportMap map[string]string
	Module    *struct {
		GoVersion string
		Main      bool
	}
	Error *struct{ Err string }
}

// own reports whether it is the product's, whose functions are checked.
func (p listedPackage) own() bool { return p.Module != nil && p.Module.Main }

// list are the packages of the product for a platform, each behind those that it imports.
func list(ctx context.Context, root string, platform v1.Platform) ([]listedPackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-e", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", "./cmd/poolwright")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages for %s: %w", platform, err)
	}
	var out []listedPackage
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing the packages for %s: %w", platform, err)
		}
		if p.Error != nil {
			return nil, fmt.Errorf("listing the packages for %s: %s: %s", platform, p.ImportPath, p.Error.Err)
		}
		out = append(out, p)
	}
}

// checked are the packages that were checked, by their paths.
type checked map[string]*types.Package

// importing finds the packages that one imports.
type importing struct {
	checked
	paths map[string]string
}

// Import implements types.Importer.
func (i importing) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if mapped := i.paths[path]; mapped != "" {
		path = mapped
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s was not listed", path)
}

// check checks the packages, and counts those of the product.
func check(listed []listedPackage, platform v1.Platform) (own int, err error) {
	done := checked{}
	var errs []error
	for _, p := range listed {
		if p.ImportPath == "unsafe" {
			continue
		}
		// A set of its own for each, so that nothing of its syntax is kept.
		files := token.NewFileSet()
		var syntax []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return own, fmt.Errorf("parsing %s: %w", p.ImportPath, err)
			}
			syntax = append(syntax, file)
		}
		config := types.Config{
			Importer: importing{done, p.ImportMap}, IgnoreFuncBodies: !p.own(), Sizes: types.SizesFor("gc", platform.Architecture),
			Error: func(err error) { errs = append(errs, err) },
		}
		if p.Module != nil && p.Module.GoVersion != "" {
			config.GoVersion = "go" + strings.TrimPrefix(p.Module.GoVersion, "go")
		}
		// Its error is the first of those that Error got.
		done[p.ImportPath], _ = config.Check(p.ImportPath, files, syntax, nil)
		if p.own() {
			own++
		}
	}
	return own, errors.Join(errs...)
}
