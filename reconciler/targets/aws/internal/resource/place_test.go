package resource

import (
	"testing"
)

func TestTextFromARepositoryStaysOneArgumentInAShell(t *testing.T) {
	for in, want := range map[string]string{
		"v1.19.0-eksbuild.1": "v1.19.0-eksbuild.1",
		"":                   "''",
		"a b":                "'a b'",
		"$(reboot)":          "'$(reboot)'",
		"a'; reboot; '":      `'a'\''; reboot; '\'''`,
		"a\nb":               "'a\nb'",
		"`x`":                "'`x`'",
	} {
		if got := quoted(in); got != want {
			t.Errorf("%q is quoted as %s, not %s", in, got, want)
		}
	}
}
