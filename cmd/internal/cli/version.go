package cli

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/document"
)

// The version and the commit of a release, stamped in by the linker: what is built from a
// folder without Git's history has neither in its build information. imageRepository is that of the
// release's images; no other build has one.
var version, revision, imageRepository string

// released is the version of a release or of a candidate for one, and not that of git describe for a later
// commit. It is a copy of the one in .ci/release/assets, a module of its own, whose test compares them.
var released = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-(alpha|beta|rc)\.(0|[1-9][0-9]*))?$`)

// releasedImage is the image of a release, and empty for any other build.
func releasedImage(repository, version string) string {
	if repository == "" || !released.MatchString(version) {
		return ""
	}
	return repository + ":" + version
}

// versionInfo is what version prints, and what scripts read as JSON.
type versionInfo struct {
	// Version is a semantic version, or (devel); GitCommit is empty where it is not known.
	Version   string `json:"version"`
	GitCommit string `json:"gitCommit,omitempty"`
	// Image is the controller's of this release; empty where this is no release.
	Image     string `json:"image,omitempty"`
	GoVersion string `json:"goVersion"`
	// Platform is the operating system and the architecture, as linux/amd64.
	Platform string `json:"platform"`
	// Modules are the versions of Karpenter's modules, by their paths.
	Modules map[string]string `json:"modules"`
}

// karpenterModules are the modules that the embedded Karpenter comes from.
func karpenterModules() []string {
	return []string{"github.com/aws/karpenter-provider-aws", "sigs.k8s.io/karpenter"}
}

// readVersion reads this binary's version. Without build information it has only what was
// stamped in.
func readVersion() versionInfo {
	out := versionInfo{Version: version, GitCommit: revision, Image: releasedImage(imageRepository, version), GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Modules: map[string]string{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	out.Version = cmp.Or(version, info.Main.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && out.GitCommit == "" {
			out.GitCommit = s.Value
		}
	}
	for _, dep := range info.Deps {
		if slices.Contains(karpenterModules(), dep.Path) {
			// What is compiled is the replacement, where go.mod names one.
			out.Modules[dep.Path] = cmp.Or(dep.Replace, dep).Version
		}
	}
	return out
}

func newVersion(streams Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of poolwright and of the Karpenter that it embeds",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := documents.check(output); err != nil {
				return err
			}
			v := readVersion()
			if output != "text" {
				return document.Value(streams.Out, output, document.Version, v)
			}
			commit := ""
			if v.GitCommit != "" {
				commit = " (" + v.GitCommit + ")"
			}
			fmt.Fprintf(streams.Out, "poolwright %s%s\n", v.Version, commit)
			for _, path := range karpenterModules() {
				fmt.Fprintln(streams.Out, path, v.Modules[path])
			}
			fmt.Fprintln(streams.Out, v.GoVersion, v.Platform)
			return nil
		},
	}
	documents.addTo(cmd, &output)
	return cmd
}
