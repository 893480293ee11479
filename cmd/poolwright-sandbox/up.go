package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

func newUp() *cobra.Command {
	cfg := setups.All()[0].World()
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a world and keep it until Ctrl-C; prints export lines for a shell",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg.Progress = cmd.ErrOrStderr()
			world, err := sandbox.Start(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, world.Stop()) }()
			exports(cmd.OutOrStdout(), world)
			return stay(cmd.Context(), cmd.ErrOrStderr(), world, nil)
		},
	}
	addWorldFlags(cmd, &cfg)
	return cmd
}

// addWorldFlags lets a user choose the cluster that the world plays.
func addWorldFlags(cmd *cobra.Command, cfg *sandbox.Config) {
	flags := cmd.Flags()
	flags.StringVar(&cfg.AWS.Cluster.Name, "cluster", cfg.AWS.Cluster.Name, "name of the EKS cluster")
	flags.StringVar(&cfg.AWS.Region, "region", cfg.AWS.Region, "AWS region")
	flags.StringVar(&cfg.AWS.Account, "account", cfg.AWS.Account, "AWS account, twelve digits")
	flags.DurationVar(&cfg.AWS.Delays.Fleet, "fleet-delay", cfg.AWS.Delays.Fleet, "how long CreateFleet takes to answer")
	flags.DurationVar(&cfg.AWS.Delays.Running, "launch-delay", cfg.AWS.Delays.Running, "from launch to running")
	flags.DurationVar(&cfg.Nodes.Join, "join-delay", cfg.Nodes.Join, "from running to the node's registration")
	flags.DurationVar(&cfg.Nodes.Plugin, "plugin-delay", cfg.Nodes.Plugin, "from the device plugin's start to its GPUs")
}

// exports prints what a shell needs to look around.
func exports(w io.Writer, world *sandbox.World) {
	env := world.Env()
	admin := world.Git.Admin()
	env["GIT_URL"], env["GIT_USER"], env["GIT_PASSWORD"] = world.Git.URL(), admin.Name, admin.Password
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(w, "export %s=%s\n", name, quote(env[name]))
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// stay keeps the world until the user leaves, or a part of it ends.
func stay(ctx context.Context, w io.Writer, world *sandbox.World, controller *process.Process) error {
	var ended <-chan struct{}
	if controller != nil {
		ended = controller.Done()
	}
	fmt.Fprintln(w, "the world stays up; leave it with Ctrl-C")
	select {
	case <-ctx.Done():
		return nil
	case <-world.Done():
		return world.Err()
	case <-ended:
		return fmt.Errorf("poolwright run has ended: %w", controller.Err())
	}
}
