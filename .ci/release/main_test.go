package main

import (
	"io"
	"strings"
	"testing"
)

func TestWhatCannotBeBuiltIsRefusedBeforeAnythingIs(t *testing.T) {
	for args, want := range map[string]string{
		"-platforms=linux/riscv64":            "linux/riscv64 is neither linux/amd64 nor linux/arm64",
		"-platforms=darwin/arm64":             "darwin/arm64 is neither linux/amd64 nor linux/arm64",
		"-platforms=linux/amd64/v1/v2/v3":     "-platforms: ",
		"-frobnicate":                         "flag provided but not defined: -frobnicate",
		"-created=yesterday":                  `invalid value "yesterday" for flag -created`,
		"-files=dist/release -version=dev":    `"dev" is no semantic version`,
		"-files=dist/release -version=1.0.0":  `"1.0.0" is no semantic version`,
		"-root=/nowhere -platforms=linux/386": "linux/386 is neither",
	} {
		err := run(t.Context(), strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
