// Package hostiletext has the texts with which tests attack what is written for people: markup, what terminals and forges act on, what
// does not print, and what is too long. It is for tests only.
//
// It refuses to be imported by anything but tests, which cmd/internal/archtest watches over. Start reading at All.
package hostiletext

import "strings"

// All are the texts, by what is hostile in them.
func All() map[string]string {
	return map[string]string{
		"backticks":        "```\n# out\n````````` x",
		"a fence":          "```````",
		"html":             `</code></summary></details><script>alert(1)</script><img src="https://evil.example/p.png">`,
		"a comment mark":   "<!-- poolwright:plan --> <!--",
		"mentions":         "@everyone @org/team",
		"many ticks":       strings.Repeat("`", 100) + " @everyone",
		"table bars":       `a | b \| c \\| d`,
		"references":       "in #1, GH-1 and deadbeefcafe, org/repo#2 :smile: https://evil.example www.evil.example a@b.c *x* _y_ [a](b) ![i](u) 1. x ~~s~~ $x$ (@a) &lt; \\` 1)",
		"ansi escapes":     "\x1b[2J\x1b]0;owned\x07 \x9b31m \u009b31m",
		"bidi overrides":   "user\u202egnp.exe \u2066x\u2069 \u200bzero",
		"line ends":        "a\rb\r\nc\vd\fe\u2028f\u2029g\u0085h",
		"invalid utf-8":    "\xff\xfe\xc3\x28 \xed\xa0\x80",
		"nul and marks":    "\x00m0\x00 \x00",
		"a huge value":     strings.Repeat("x", 70_000),
		"many lines":       strings.Repeat("line\n", 10_000),
		"many backticks":   strings.Repeat("`", 5000),
		"a fence of tilde": "~~~\nx\n~~~",
		"a yaml document":  "---\n- a\n...\n%YAML 1.2",
		"nothing":          "",
		"spaces":           "  \t ",
	}
}
