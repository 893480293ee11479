package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/poolwright/poolwright/cmd/internal/convert"
	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/declared/conversion"
	"github.com/poolwright/poolwright/reconciler/declared/conversion/unified"
)

// convertFlags are the flags of convert.
type convertFlags struct {
	output, kubernetes string
	write              bool
}

func (f *convertFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubernetes, "kubernetes-version", "", "minor version of the EKS cluster, such as 1.33 (default: the one that the folder's Cluster declares)")
	flags.BoolVar(&f.write, "write", false, "write the files instead of showing what would change")
}

// check refuses flags that mean nothing.
func (f *convertFlags) check() error {
	if err := documents.check(f.output); err != nil {
		return err
	}
	if f.kubernetes != "" && !regexp.MustCompile(`^1\.[0-9]{1,3}$`).MatchString(f.kubernetes) {
		return fmt.Errorf("--kubernetes-version %q is not a minor version, such as 1.33", f.kubernetes)
	}
	return nil
}

func newConvert(streams Streams) *cobra.Command {
	var flags convertFlags
	cmd := &cobra.Command{
		Use:   "convert [DIR]",
		Short: "Rewrite manifests of Karpenter's old APIs for v1",
		Long: `Rewrite a folder's manifests of Karpenter's old APIs (Provisioner, AWSNodeTemplate, and NodePool and
EC2NodeClass of v1beta1) for v1, with the same meaning, and the labels and annotations by which workloads
name them. Comments, order and formatting stay. Without --write it shows what would change.

Each change is lossless, a default of the old API that is written down, or for a person to decide. Where
something cannot be converted, its file and those of the pools and classes that belong to it stay as they are.

Exit codes: 0 nothing to do, or written, 1 there are changes, 2 something needs a person, or an error.`,
		Example: "  poolwright convert clusters/dev\n  poolwright convert clusters/dev --write --kubernetes-version 1.33",
		Args:    oneArgument("the folder", true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			done, err := convert.Folder(cmd.Context(), convert.Request{Dir: folderOf(args), KubernetesVersion: flags.kubernetes, Write: flags.write})
			if err != nil {
				return fmt.Errorf("converting %s: %w", folderOf(args), err)
			}
			print := convertText
			if flags.output != "text" {
				print = func(w io.Writer, done convert.Outcome) error {
					return document.Value(w, flags.output, document.Conversion, convertedOf(done))
				}
			}
			if err := print(streams.Out, done); err != nil {
				return fmt.Errorf("writing the report: %w", err)
			}
			return convertEnd(streams, folderOf(args), done, flags)
		},
	}
	flags.addTo(cmd.Flags())
	documents.addTo(cmd, &flags.output)
	return cmd
}

// convertEnd sums up, and gives the exit code.
func convertEnd(streams Streams, folder string, done convert.Outcome, flags convertFlags) error {
	grades := map[conversion.Grade]int{}
	for _, c := range done.Changes {
		grades[c.Grade]++
	}
	verb := "would change"
	if done.Written {
		verb = "changed"
	}
	sum := fmt.Sprintf("%s %s in %s: %d lossless, %s made explicit, %d for a person", plural.Count(len(done.Changed), "file"), verb, folder,
		grades[conversion.Lossless], plural.Count(grades[conversion.Default], "default"), grades[conversion.Manual])
	if len(done.Changed)+len(done.Changes) == 0 {
		sum = "nothing to convert in " + folder
	}
	fmt.Fprintln(streams.Err, sum)
	switch {
	case done.Blocked() && flags.write:
		return &exit{code: exitError, err: unwritten(done)}
	case done.NeedsPerson():
		return &exit{code: exitError}
	case len(done.Changed) > 0 && !done.Written:
		return &exit{code: exitDifferent}
	}
	return nil
}

// unwritten is which files stay as they are because some of it cannot be converted.
func unwritten(done convert.Outcome) error {
	switch {
	case !done.Written:
		return errors.New("no file was written, because some of it cannot be converted")
	case len(done.Skipped) == 0:
		return errors.New("the rest was written; some of it cannot be converted, and is as it was")
	}
	return fmt.Errorf("the rest was written; some of it cannot be converted, and because of that these files are as they were: %s", strings.Join(done.Skipped, ", "))
}

// convertText writes the differences of files that are yet to be written, and the
// changes.
func convertText(w io.Writer, done convert.Outcome) error {
	var b strings.Builder
	if !done.Written {
		for _, f := range done.Changed {
			b.WriteString(difference(f))
		}
		if len(done.Changed) > 0 && len(done.Changes) > 0 {
			b.WriteString("\n")
		}
	}
	for _, c := range done.Changes {
		b.WriteString(c.String() + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// difference is what changes in a file, as it may be shown.
func difference(f convert.File) string {
	before, after := f.Masked()
	return unified.Diff(f.Path, before, after)
}

// converted, convertedFile and convertedChange are the report in JSON.
type converted struct {
	Written bool              `json:"written"`
	Files   []convertedFile   `json:"files"`
	Changes []convertedChange `json:"changes"`
}

type convertedFile struct {
	Path string `json:"path"`
	Diff string `json:"diff"`
}

type convertedChange struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Object string `json:"object,omitempty"`
	Grade  string `json:"grade"`
	Text   string `json:"text"`
	Blocks bool   `json:"blocks,omitempty"`
}

func convertedOf(done convert.Outcome) converted {
	report := converted{Written: done.Written, Files: []convertedFile{}, Changes: []convertedChange{}}
	for _, f := range done.Changed {
		report.Files = append(report.Files, convertedFile{f.Path, difference(f)})
	}
	for _, c := range done.Changes {
		report.Changes = append(report.Changes, convertedChange{c.Origin.File, c.Origin.Line, c.Object, c.Grade.String(), c.Text, c.Blocks})
	}
	return report
}
