package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of poolwright and of the Karpenter that it embeds",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fmt.Errorf("this binary carries no build information; build it with go build")
			}
			revision := ""
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" {
					revision = " (" + s.Value + ")"
				}
			}
			fmt.Fprintf(streams.Out, "poolwright %s%s\n", info.Main.Version, revision)
			for _, dep := range info.Deps {
				switch dep.Path {
				case "sigs.k8s.io/karpenter", "github.com/aws/karpenter-provider-aws":
					fmt.Fprintf(streams.Out, "%s %s\n", dep.Path, dep.Version)
				}
			}
			fmt.Fprintln(streams.Out, info.GoVersion)
			return nil
		},
	}
}
