// Command image builds the container image without a container tool: an OCI image layout
// for several platforms, with an SBOM for each, and pushes them where -push has a repository.
//
// The image has the controller's binary, root certificates, the licence and the notice,
// and nothing else. It depends on the sources, on Go's version and on the flags only, not on
// where or when it is built. Start reading at run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// release is what is stamped into a binary and an image.
type release struct {
	// version is a semantic version, or dev; revision is the commit.
	version, revision string
	// created is the commit's time.
	created time.Time
}

// parsePlatform reads one of the platforms that an image can be for.
func parsePlatform(name string) (v1.Platform, error) {
	platform, err := v1.ParsePlatform(strings.TrimSpace(name))
	if err != nil {
		return v1.Platform{}, fmt.Errorf("-platforms: %w", err)
	}
	if _, known := machines[platform.Architecture]; !known || platform.OS != "linux" {
		return v1.Platform{}, fmt.Errorf("-platforms: %s is neither linux/amd64 nor linux/arm64", platform)
	}
	return *platform, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var r release
	var root, platforms, output, push string
	var created int64
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&root, "root", "../..", "the clone of the repository")
	flags.StringVar(&r.version, "version", "dev", "the version that is stamped in, and the tag")
	flags.StringVar(&r.revision, "revision", "", "the commit that is stamped in")
	flags.Int64Var(&created, "created", 0, "the time of the commit, in seconds since 1970")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "what the image is for")
	flags.StringVar(&output, "output", "dist/image", "the folder of the OCI image layout, from the clone")
	flags.StringVar(&push, "push", "", "the repository to push to, with or without a tag, as registry.example.com/poolwright")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.created = time.Unix(created, 0).UTC()
	dir, err := os.MkdirTemp("", "poolwright-image-")
	if err != nil {
		return fmt.Errorf("making a folder for the binaries: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var binaries []binary
	for _, name := range strings.Split(platforms, ",") {
		platform, err := parsePlatform(name)
		if err != nil {
			return err
		}
		// Without the paths of this machine, the same sources give the same bytes anywhere.
		b, err := build(ctx, root, r, platform, filepath.Join(dir, strings.ReplaceAll(platform.String(), "/", "-")), "-trimpath")
		if err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	a, err := newImageIndex(root, r, binaries)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(output) {
		output = filepath.Join(root, output)
	}
	if err := a.write(output, r.version); err != nil {
		return err
	}
	if err := a.print(out, output); err != nil || push == "" {
		return err
	}
	return a.push(ctx, push, r.version, authn.DefaultKeychain, out)
}
