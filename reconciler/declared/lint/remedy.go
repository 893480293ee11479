package lint

import (
	"fmt"
	"regexp"
	"strings"
)

// prefixed finds what the ids of a kind of AWS resource begin with, in the
// pattern that they must match.
var prefixed = regexp.MustCompile(`^\^([a-z]+)-\[0-9`)

// characters finds in the pattern of a name what it may hold beside letters and
// digits, and how long it may be.
var characters = regexp.MustCompile(`^\^\[A-Za-z0-9([^\]]+)\]\{1,([0-9]+)\}\$$`)

// remedy adds to a message that shows nothing but a pattern how such a value is
// written.
func remedy(text string) string {
	_, pattern, found := strings.Cut(text, "should match '")
	if !found {
		return ""
	}
	pattern = strings.TrimSuffix(pattern, "'")
	for _, known := range []struct{ part, text string }{
		{"(ms|s|m|h)", "use the units h, m and s, as in 336h or 1h30m"},
		{"(s|m|h)", "use the units h, m and s, as in 336h or 1h30m"},
		{"^[0-9]{12}$", "give the account's twelve digits, in quotes"},
		{"^[a-z]{2}(-[a-z]+)+-[0-9]+$", "give a region such as eu-west-1"},
		{`^1\.[0-9]`, `give major and minor version, as in "1.33"`},
		{"^(https|http)://[^@", "give an https address without credentials in it"},
		{"^v[0-9]+\\.[0-9]+", "write the version with its v, as in v0.19.3"},
		{"(:[0-9]+)?(/[a-z0-9._-]+)*$", "leave the tag out: the version is the tag"},
		{"^[0-9a-f]{40}$", "give the whole hash of a commit, 40 digits"},
		{"^[0-9A-Za-z][A-Za-z0-9_-]{0,", "begin with a letter or digit, and use letters, digits, _ and - only"},
	} {
		if strings.Contains(pattern, known.part) {
			return ": " + known.text
		}
	}
	if m := prefixed.FindStringSubmatch(pattern); m != nil {
		return ": give an id such as " + m[1] + "-0123456789abcdef0"
	}
	if m := characters.FindStringSubmatch(pattern); m != nil {
		return fmt.Sprintf(": use letters, digits and %s only, at most %s", strings.Join(strings.Split(m[1], ""), " "), m[2])
	}
	return ""
}
