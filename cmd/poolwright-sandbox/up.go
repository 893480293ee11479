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
	"github.com/spf13/pflag"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

func newUp() *cobra.Command {
	setup := setups.All()[0]
	cfg, name := setup.SandboxConfig(), setup.Name
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a sandbox and keep it until Ctrl-C; prints export lines for a shell",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := applySetup(cmd, &cfg, name); err != nil {
				return err
			}
			cfg.Progress = cmd.ErrOrStderr()
			environment, err := sandbox.Start(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, environment.Stop()) }()
			exports(cmd.OutOrStdout(), environment)
			return stay(cmd.Context(), cmd.ErrOrStderr(), environment, nil)
		},
	}
	addSandboxFlags(cmd, &cfg)
	cmd.Flags().StringVar(&name, "setup", name, "the set-up that the sandbox is for, with its Kubernetes version and node groups: one of "+strings.Join(setups.Names(), ", "))
	completeSetup(cmd)
	return cmd
}

// applySetup makes the sandbox that of a set-up, but for what other flags set.
func applySetup(cmd *cobra.Command, cfg *sandbox.Config, name string) error {
	setup, err := setups.Named(name)
	if err != nil {
		return err
	}
	given := map[*pflag.Flag]string{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f] = f.Value.String() })
	*cfg = setup.SandboxConfig()
	for f, value := range given {
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("--%s: %w", f.Name, err)
		}
	}
	return nil
}

// addSandboxFlags lets a user choose the cluster that the sandbox emulates.
func addSandboxFlags(cmd *cobra.Command, cfg *sandbox.Config) {
	flags := cmd.Flags()
	flags.StringVar(&cfg.AWS.Cluster.Name, "cluster", cfg.AWS.Cluster.Name, "name of the EKS cluster")
	flags.StringVar(&cfg.AWS.Region, "region", cfg.AWS.Region, "AWS region")
	flags.StringVar(&cfg.AWS.Account, "account", cfg.AWS.Account, "AWS account, twelve digits")
	flags.DurationVar(&cfg.AWS.Delays.Fleet, "fleet-delay", cfg.AWS.Delays.Fleet, "the duration of a CreateFleet request")
	flags.DurationVar(&cfg.AWS.Delays.Running, "launch-delay", cfg.AWS.Delays.Running, "from launch to running")
	flags.DurationVar(&cfg.Nodes.Join, "join-delay", cfg.Nodes.Join, "from running to the node's registration")
	flags.DurationVar(&cfg.Nodes.Plugin, "plugin-delay", cfg.Nodes.Plugin, "from the device plugin's start to its GPUs")
}

// exports prints what a shell needs to reach the sandbox.
func exports(w io.Writer, environment *sandbox.Environment) {
	env := environment.Env()
	admin := environment.Git.Admin()
	env["GIT_URL"], env["GIT_USER"], env["GIT_PASSWORD"] = environment.Git.URL(), admin.Name, admin.Password
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(w, "export %s=%s\n", name, quote(env[name]))
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// stay keeps the sandbox until the user leaves, or a part of it ends. The last lines are printed before.
func stay(ctx context.Context, w io.Writer, environment *sandbox.Environment, controller *process.Process, last ...string) error {
	var ended <-chan struct{}
	if controller != nil {
		ended = controller.Done()
	}
	fmt.Fprintln(w, "the sandbox stays up; leave it with Ctrl-C")
	for _, line := range last {
		fmt.Fprintln(w, line)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-environment.Done():
		return environment.Err()
	case <-ended:
		return fmt.Errorf("poolwright run has ended: %w", controller.Err())
	}
}
