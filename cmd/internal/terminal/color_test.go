package terminal

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestColoursAreForTerminalsUnlessTheyAreRequired(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, c := range map[string]struct {
		color   Color
		noColor string
		want    bool
	}{
		"none is set":                 {"", "", false},
		"auto":                        {ColorAuto, "", false},
		"always":                      {ColorAlways, "", true},
		"always counts over NO_COLOR": {ColorAlways, "1", true},
		"never":                       {ColorNever, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", c.noColor)
			if c.color.On(file) != c.want || c.color.On(&bytes.Buffer{}) != c.want {
				t.Errorf("want %t", c.want)
			}
		})
	}
}

// terminalOf is the terminal's end of a pseudo terminal, where this machine has some.
func terminalOf(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestATerminalHasColoursUnlessSomebodyDeclinesThem(t *testing.T) {
	tty := terminalOf(t)
	t.Setenv("NO_COLOR", "")
	if !Color("").On(tty) || !ColorAuto.On(tty) || ColorNever.On(tty) {
		t.Error("without NO_COLOR")
	}
	t.Setenv("NO_COLOR", "1")
	if ColorAuto.On(tty) {
		t.Error("with NO_COLOR")
	}
}

func TestTheFlagTakesThreeValues(t *testing.T) {
	var color Color
	cmd := &cobra.Command{Use: "x"}
	color.AddTo(cmd)
	flag := cmd.Flags().Lookup("color")
	if flag.DefValue != "auto" {
		t.Errorf("the default is %q", flag.DefValue)
	}
	for _, value := range []string{"always", "never", "auto"} {
		if err := flag.Value.Set(value); err != nil || string(color) != value {
			t.Errorf("%s: %q, %v", value, color, err)
		}
	}
	if err := flag.Value.Set("yes"); err == nil || color != ColorAuto {
		t.Errorf("yes: %q, %v", color, err)
	}
	complete, _ := cmd.GetFlagCompletionFunc("color")
	got, _ := complete(cmd, nil, "")
	if d := cmp.Diff([]string{"auto", "always", "never"}, got); d != "" {
		t.Error(d)
	}
}
