package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/controls"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
)

// execute runs the program with arguments that must end it before a sandbox is started.
func execute(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	root := newRoot()
	var buffer bytes.Buffer
	root.SetOut(&buffer)
	root.SetErr(&buffer)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return buffer.String(), err
}

func TestArgumentsThatCannotBeMetAreRefusedBeforeASandboxIsStarted(t *testing.T) {
	t.Chdir("../..")
	empty, none := t.TempDir(), filepath.Join(t.TempDir(), "none")
	for name, c := range map[string]struct {
		args []string
		// names are what the error must name.
		names []string
	}{
		"a command that there is not":                        {[]string{"destroy"}, []string{"destroy"}},
		"an argument of a command that takes none":           {[]string{"demo", "altanova"}, []string{"altanova"}},
		"a duration that is none":                            {[]string{"up", "--join-delay=soon"}, []string{"--join-delay", "soon"}},
		"a set-up of up that there is not":                   {[]string{"up", "--setup=nobody"}, append([]string{"nobody"}, setups.Names()...)},
		"a set-up of demo that there is not":                 {[]string{"demo", "--setup=nobody"}, append([]string{"nobody"}, setups.Names()...)},
		"a format that demo does not have":                   {[]string{"demo", "-o", "yaml"}, []string{"yaml", "text", "json"}},
		"a set-up and an example":                            {[]string{"demo", "--setup=piksel", "--example=" + empty}, []string{"piksel", empty}},
		"an example without the folder of its cluster":       {[]string{"demo", "--example=" + empty}, []string{empty, setups.All()[0].Path}},
		"no binary beside this program":                      {[]string{"demo", "--setup=piksel"}, []string{"poolwright", "make build"}},
		"a format that prove does not have":                  {[]string{"prove", "-o", "yaml"}, []string{"yaml", "text", "json", "markdown"}},
		"a page that there is not":                           {[]string{"prove", "-o", "markdown", "--page=" + none}, []string{none}},
		"a selection that is no regular expression":          {[]string{"prove", "--run=create/("}, []string{"("}},
		"a control that there is not":                        {[]string{"prove", "--break=nothing"}, []string{"nothing"}},
		"a control that there is not, of selected cases":     {[]string{"prove", "--break=nothing", "--run=create"}, []string{"nothing"}},
		"a format that random does not have":                 {[]string{"prove", "random", "-o", "markdown"}, []string{"markdown", "text", "json"}},
		"a case that there is not":                           {[]string{"prove", "random", "--replay=" + none}, []string{none}},
		"a control of random that there is not":              {[]string{"prove", "random", "--break=nothing"}, []string{"nothing"}},
		"no folder for what a release leaves":                {[]string{"prove", "freeze"}, []string{"1"}},
		"a number of objects that is none":                   {[]string{"bench", "--objects=many"}, []string{"--objects", "many"}},
		"results of a benchmark that are a folder, no file":  {[]string{"bench", "--poolwright=" + none, "--results=" + empty}, []string{empty}},
		"a seed below zero, of which there is none":          {[]string{"prove", "random", "--seed=-1"}, []string{"--seed", "-1"}},
		"a flag of another command":                          {[]string{"up", "--replay=" + none}, []string{"--replay"}},
		"a duration of a step in numbers without their unit": {[]string{"demo", "--deadline=90"}, []string{"--deadline", "90"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, c.args...)
			if err == nil {
				t.Fatalf("it began: %s", out)
			}
			for _, name := range c.names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%q is not named: %v", name, err)
				}
			}
			if out != "" {
				t.Errorf("it printed %q, and main prints the error", out)
			}
		})
	}
}

func TestTheExampleOfADemoIsThatOfItsSetUpOrTheFolderThatIsNamed(t *testing.T) {
	t.Chdir("../..")
	changed := t.TempDir()
	if err := os.MkdirAll(filepath.Join(changed, setups.All()[0].Path), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		of            demoCommand
		setup, folder string
	}{
		"without a flag":    {demoCommand{}, "altanova", "examples/altanova"},
		"of a set-up":       {demoCommand{setup: "piksel"}, "piksel", "examples/piksel"},
		"of a changed copy": {demoCommand{example: changed}, "altanova", changed},
	} {
		setup, folder, err := c.of.resolveSetup()
		if err != nil || setup.Name != c.setup || folder != c.folder {
			t.Errorf("%s: %s in %s, %v", name, setup.Name, folder, err)
		}
	}
}

func TestABinaryThatIsNamedIsUsedFromAnyFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := productWithout(t.Context(), "", "bin/poolwright", t.TempDir()); err != nil || got != filepath.Join(here, "bin/poolwright") {
		t.Errorf("it is %s, %v", got, err)
	}
}

func TestTheListOfProveHasEachControlAndStartsNothing(t *testing.T) {
	out, err := execute(t, "prove", "--list", "--poolwright=/nothing", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range controls.Names() {
		if !strings.Contains(out, name) {
			t.Errorf("%s is not listed", name)
		}
	}
}

func TestThePageOfProveKeepsTheNumbersThatARunDoesNotHave(t *testing.T) {
	page := filepath.Join(t.TempDir(), "proof.md")
	if err := os.WriteFile(page, []byte("# Proof\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for format, named := range map[string]string{"text": "", "json": "", "markdown": page} {
		write, err := (&proveCommand{product: productFlags{output: format}, page: named}).writer()
		if err != nil || write == nil {
			t.Errorf("-o %s: %v", format, err)
		}
	}
}

func TestAValueIsQuotedForAShell(t *testing.T) {
	for value, want := range map[string]string{"": `''`, "a b": `'a b'`, "it's $HOME": `'it'\''s $HOME'`} {
		if got := quote(value); got != want {
			t.Errorf("%q is quoted as %s, want %s", value, got, want)
		}
	}
}
