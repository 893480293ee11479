package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/lintoutput"
	"github.com/poolwright/poolwright/cmd/internal/offline"
	"github.com/poolwright/poolwright/cmd/internal/prices"
	"github.com/poolwright/poolwright/internal/plural"
)

// lintFormats are the formats of lint's output.
var lintFormats = outputs{"text", "json", "yaml", "sarif", "github"}

// writeFindings writes what lint found in one of lintFormats.
func writeFindings(w io.Writer, format string, found offline.LintResult) error {
	switch format {
	case "json", "yaml":
		return document.Value(w, format, document.Findings, lintoutput.JSON(found))
	case "sarif":
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(lintoutput.SARIF(found, readVersion().Version))
	case "github":
		return lintoutput.WriteWorkflowCommands(w, found)
	}
	var text strings.Builder
	for _, p := range found.All() {
		fmt.Fprintln(&text, p)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func newLint(conn *connection, streams Streams) *cobra.Command {
	var variables variableFlags
	var output string
	var source prices.Flag
	cmd := &cobra.Command{
		Use:   "lint [DIR]",
		Short: "Check a folder without a cluster, with file and line for each finding",
		Long: `Check a folder without a cluster: that it renders, that every object is well formed, that Karpenter's
and our own kinds satisfy their schemas and rules, that the Cluster declares nothing that AWS rules
out, and that the objects with GPUs are consistent.

Variables such as ${CLUSTER_NAME} are substituted as the Sync does, where values are given. Without any, fields
that hold one are not checked, and a warning names each variable.

With --prices, instance types that no zone of the region offers are found, and capacity reservations that end.

With -o sarif the findings are a SARIF log, with -o github commands by which GitHub Actions shows each beside its
line of a pull request.

A finding is a problem, or a warning of what may have another effect or a higher price than intended; a
warning's line begins with file, line and "warning".

Exit codes: 0 no problems, whatever the warnings, 1 problems, 2 an error.`,
		Args: oneArgument("the folder", true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := lintFormats.check(output); err != nil {
				return err
			}
			folder := folderOf(args)
			given, err := variables.input()
			if err != nil {
				return err
			}
			offered, err := source.Source(conn.client, conn.namespace, streams.Err)
			if err != nil {
				return err
			}
			found, err := offline.LintWithPrices(cmd.Context(), folder, given, offered)
			if err != nil {
				return err
			}
			if err := writeFindings(streams.Out, output, found); err != nil {
				return fmt.Errorf("writing the findings: %w", err)
			}
			problems, warnings := plural.Count(len(found.Problems), "problem"), plural.Count(len(found.Warnings), "warning")
			if len(found.Problems) > 0 {
				return &exit{code: exitDifferent, err: fmt.Errorf("%s, %s in %s", problems, warnings, folder)}
			}
			fmt.Fprintf(streams.Err, "%s, %s, %s\n", plural.Count(found.Objects, "object"), problems, warnings)
			return nil
		},
	}
	lintFormats.addTo(cmd, &output)
	conn.addFlags(cmd.Flags())
	conn.completeConnection(cmd)
	variables.addTo(cmd.Flags())
	source.AddTo(cmd.Flags(), "none")
	return cmd
}
