// Command release makes what a release consists of, without a container tool and offline: the image for
// several platforms, which it can push, or all files of a release, which it then verifies. Start reading at run.
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
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/poolwright/poolwright/.ci/release/assets"
	"github.com/poolwright/poolwright/.ci/release/image"
	"github.com/poolwright/poolwright/.ci/release/product"
	"github.com/poolwright/poolwright/.ci/release/verify"
)

func main() {
	ctx, stop := interruptible(context.Background())
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// interruptible ends a context when a person or a machine that shuts down ends the program, so that it removes its temporary folders.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// options are the flags.
type options struct {
	release           product.Release
	root, output      string
	platforms, push   string
	files, repository string
	builder           string
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	var created int64
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.root, "root", "../..", "the clone of the repository")
	flags.StringVar(&o.release.Version, "version", "dev", "the version that is stamped in, and the tag")
	flags.StringVar(&o.release.Revision, "revision", "", "the commit that is stamped in")
	flags.Int64Var(&created, "created", 0, "the time of the commit, in seconds since 1970")
	flags.StringVar(&o.platforms, "platforms", "linux/amd64,linux/arm64", "what the image is for")
	flags.StringVar(&o.output, "output", "dist/image", "the folder of the OCI image layout, from the clone")
	flags.StringVar(&o.push, "push", "", "the repository to push to, with or without a tag, as registry.example.com/poolwright")
	flags.StringVar(&o.files, "files", "", "the folder for the files of a release, from the clone; without it only the image is made")
	flags.StringVar(&o.repository, "repository", "ghcr.io/poolwright/poolwright", "the image's repository that the files of a release name")
	flags.StringVar(&o.builder, "builder", "https://poolwright.dev/builders/local", "a URI of who builds, for the provenance")
	err := flags.Parse(args)
	o.release.Created = time.Unix(created, 0).UTC()
	o.output, o.files = o.inside(o.output), o.inside(o.files)
	return o, err
}

// inside is a path from the clone.
func (o options) inside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(o.root, path)
}

// parsePlatform reads one of the platforms that an image can be for.
func parsePlatform(name string) (v1.Platform, error) {
	platform, err := v1.ParsePlatform(strings.TrimSpace(name))
	if err != nil {
		return v1.Platform{}, fmt.Errorf("-platforms: %w", err)
	}
	if _, known := product.ELFMachine(platform.Architecture); !known || platform.OS != "linux" {
		return v1.Platform{}, fmt.Errorf("-platforms: %s is neither linux/amd64 nor linux/arm64", platform)
	}
	return *platform, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	if o.files != "" {
		if err := assets.CheckVersion(o.release.Version); err != nil {
			return err
		}
		if err := assets.CheckChangelog(o.root, o.release.Version); err != nil {
			return err
		}
		if err := o.checkPush(); err != nil {
			return err
		}
		o.release.Repository = o.repository
	}
	dir, err := os.MkdirTemp("", "poolwright-release-")
	if err != nil {
		return fmt.Errorf("making a folder for the binaries: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var platforms []v1.Platform
	for name := range strings.SplitSeq(o.platforms, ",") {
		platform, err := parsePlatform(name)
		if err != nil {
			return err
		}
		platforms = append(platforms, platform)
	}
	binaries, err := o.build(ctx, dir, platforms)
	if err != nil {
		return err
	}
	made, err := image.New(o.root, o.release, binaries)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := made.Write(o.output, o.release.Version); err != nil {
		return err
	}
	if err := made.Print(out, o.output); err != nil {
		return err
	}
	if o.files != "" {
		if err := o.makeFiles(ctx, dir, made, binaries, out); err != nil {
			return err
		}
	}
	if o.push == "" {
		return nil
	}
	return made.Push(ctx, o.push, o.release.Version, authn.DefaultKeychain, out)
}

// checkPush refuses to push the image of a release to another place than its files name.
func (o options) checkPush() error {
	pushed := o.push
	if i := strings.LastIndexByte(pushed, ':'); i > strings.LastIndexByte(pushed, '/') {
		pushed = pushed[:i]
	}
	if pushed != "" && pushed != o.repository {
		return fmt.Errorf("-push: %s is another repository than %s, which the files of the release name: give both the same, as make release IMAGE=%s PUSH=%s", pushed, o.repository, pushed, pushed)
	}
	return nil
}

// build builds the product for each platform.
func (o options) build(ctx context.Context, dir string, platforms []v1.Platform) ([]product.Binary, error) {
	var binaries []product.Binary
	for _, platform := range platforms {
		// Without the paths of this machine, the same sources give the same bytes anywhere.
		b, err := product.Build(ctx, o.root, o.release, platform, filepath.Join(dir, strings.ReplaceAll(platform.String(), "/", "-")), "-trimpath")
		if err != nil {
			return nil, err
		}
		binaries = append(binaries, b)
	}
	return binaries, nil
}

// makeFiles makes the files of a release, of the image's binaries and of those for laptops.
func (o options) makeFiles(ctx context.Context, dir string, made image.Index, binaries []product.Binary, out io.Writer) error {
	digest, err := made.Digest()
	if err != nil {
		return err
	}
	laptops, err := o.build(ctx, dir, []v1.Platform{{OS: "darwin", Architecture: "amd64"}, {OS: "darwin", Architecture: "arm64"}})
	if err != nil {
		return err
	}
	err = assets.Make(ctx, assets.Config{
		Root: o.root, Output: o.files, Release: o.release,
		Binaries: append(binaries, laptops...), Repository: o.repository, ImageDigest: digest, Builder: o.builder,
	}, out)
	if err != nil {
		return err
	}
	if err := verify.Folder(ctx, o.files, o.release); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "verified: checksums, archives, SBOMs, provenance, krew.yaml, install.yaml and charts")
	return err
}
