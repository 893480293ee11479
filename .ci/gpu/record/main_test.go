package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestWhatCannotBeRecordedIsAnError(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "cases.json")
	if err := os.WriteFile(empty, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	// There is no nvidia-smi.
	t.Setenv("PATH", t.TempDir())
	for name, args := range map[string][]string{
		"an unknown flag":            {"-unknown"},
		"cases that are not there":   {"-cases", filepath.Join(t.TempDir(), "none")},
		"a machine without a GPU":    {"-cases", empty},
		"a machine without one, DRA": {"-dra"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := run(t.Context(), args, &out); err == nil || out.Len() > 0 {
				t.Errorf("there is no error, and the recording %q", out.String())
			}
		})
	}
}
