package query

import "testing"

func TestWildcard(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "", false}, {"*", "", true}, {"?", "", false}, {"abc", "abc", true}, {"abc", "abd", false},
		{"a*c", "abbc", true}, {"a*c", "ac", true}, {"a*c", "acb", false}, {"*a*b*", "xaxbx", true}, {"*ab", "aab", true}, {"*ab*cd", "abxcxabcd", true},
		{"g?.xlarge", "g5.xlarge", true}, {"g?.xlarge", "g5g.xlarge", false}, {`\*`, "*", true}, {`\*`, "a", false}, {`a\?`, "a?", true}, {`a\?`, "ab", false},
		{`a\*`, "a", false}, {`\`, `\`, true}, {"a**", "a", true},
	} {
		if got := Wildcard(tt.pattern, tt.s); got != tt.want {
			t.Errorf("%q against %q: %v", tt.pattern, tt.s, got)
		}
	}
}

func FuzzWildcard(f *testing.F) {
	f.Add("a*b?c", "axxbyc")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if Wildcard(pattern, s) && !Wildcard("*"+pattern, "x"+s) {
			t.Errorf("%q matches %q, but with a star in front it does not match x%q", pattern, s, s)
		}
	})
}
