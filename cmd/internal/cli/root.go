// Package cli is the command line of poolwright, one file per subcommand,
// built by constructors: kubectl's habits in flags, streams and exit codes.
//
// It refuses logic of its own: commands parse, call the packages that do the work
// (cmd/internal/operator for the controller, and a package of cmd/internal for each task),
// and print. Start reading at Main.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/history"
	"github.com/poolwright/poolwright/cmd/internal/ui"
	"github.com/poolwright/poolwright/cmd/internal/wait"
)

// Main runs the command line and returns the process's exit code: 0 for
// success and no difference, 1 for differences, 2 for an error, 130 where a person
// ended the wait for a run that goes on.
func Main(ctx context.Context, args []string, streams Streams) int {
	conn := &connection{}
	root := newRoot(conn, streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var e *exit
	switch {
	case err == nil:
		return exitSame
	case errors.As(err, &e):
		if e.err != nil {
			fmt.Fprintln(streams.Err, "Error:", conn.server.Explain(e.err))
		}
		return e.code
	}
	fmt.Fprintln(streams.Err, "Error:", conn.server.Explain(err))
	return exitError
}

// newRoot assembles the command tree. Called as kubectl-poolwright, it names itself
// kubectl poolwright.
func newRoot(conn *connection, streams Streams) *cobra.Command {
	name := "poolwright"
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") {
		name = "kubectl poolwright"
	}
	root := &cobra.Command{
		Use:           "poolwright",
		Short:         "GitOps for GPU node pools on Amazon EKS",
		Long:          "Poolwright keeps an EKS cluster's node pools as a Git repository declares them, shows what a\nchange would do before it is merged, and runs Karpenter, embedded, so that GPU nodes are\nlaunched when a pod requests a GPU and terminated when none does.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       readVersion().Version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { prepare(cmd.Name()) }
	fitHelp(root, streams)
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"folder", "Commands for a folder of a repository:", []*cobra.Command{newInit(streams), newPlan(conn, streams), newLint(conn, streams), newCost(conn, streams), newConvert(streams)}},
		{"cluster", "Commands for a cluster:", []*cobra.Command{newGet(conn, streams), newExplain(conn, streams), newUI(conn, streams), newHistory(conn, streams), newEvents(conn, streams), newWait(conn, streams)}},
		{"sync", "Commands for a Sync:", []*cobra.Command{newReconcile(conn, streams), newSuspend(conn, streams), newResume(conn, streams), newRollback(conn, streams)}},
		{"installation", "Commands for the installation:", []*cobra.Command{newCheck(conn, streams), newBootstrap(conn, streams), newUninstall(conn, streams), newGitHubApp(streams), newRun(conn, streams)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, command := range group.commands {
			command.GroupID = group.id
			root.AddCommand(command)
		}
	}
	root.AddCommand(newVersion(streams), newOptions(streams), newChild(streams))
	return root
}

func newGet(conn *connection, streams Streams) *cobra.Command {
	return conn.connected(get.NewCommand(conn.environment(streams)), get.Outputs())
}

func newHistory(conn *connection, streams Streams) *cobra.Command {
	return conn.connected(history.NewCommand(conn.environment(streams)), history.Outputs())
}

func newEvents(conn *connection, streams Streams) *cobra.Command {
	return conn.connected(history.NewEventsCommand(conn.environment(streams)), history.EventOutputs())
}

// connected is a command with the flags of a connection, and the completion of these and of -o.
func (c *connection) connected(cmd *cobra.Command, outputs []string) *cobra.Command {
	c.addFlags(cmd.Flags())
	c.completeConnection(cmd)
	completeOutput(cmd, outputs...)
	return cmd
}

func newExplain(conn *connection, streams Streams) *cobra.Command {
	env := conn.environment(streams)
	var cmd *cobra.Command
	env.Namespace = func() string { return conn.podNamespace(cmd.Flags().Changed("namespace")) }
	cmd = explain.NewCommand(env)
	conn.addFlags(cmd.Flags())
	namespace := cmd.Flags().Lookup("namespace")
	namespace.DefValue, namespace.Usage = "", "namespace of the pod (default: that of the kubeconfig's context)"
	conn.completeConnection(cmd)
	completeOutput(cmd, explain.Outputs()...)
	return cmd
}

func newUI(conn *connection, streams Streams) *cobra.Command {
	cmd := ui.NewCommand(conn.environment(streams))
	conn.addFlags(cmd.Flags())
	conn.completeConnection(cmd)
	return cmd
}

func newWait(conn *connection, streams Streams) *cobra.Command {
	cmd := wait.NewCommand(conn.environment(streams))
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if _, is := errors.AsType[wait.NotMet](err); is {
			return &exit{code: exitDifferent, err: err}
		}
		if err != nil && cmd.Context().Err() != nil {
			return &exit{code: exitInterrupted, err: errors.New("interrupted")}
		}
		return err
	}
	conn.addFlags(cmd.Flags())
	conn.complete(cmd)
	completeOutput(cmd, objectOutputs...)
	completeFlag(cmd, "for", cobra.FixedCompletions([]string{"ready", "applied=", "rollout"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
