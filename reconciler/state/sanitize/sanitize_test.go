package sanitize_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

func TestRedactDetectsSecretsByTheirShape(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"user and password of a URL", "https://u:p@git.example.com/x", "https://(masked)@git.example.com/x"},
		{"a user alone", "ssh://ada@host/x", "ssh://(masked)@host/x"},
		{"the user of every Git server", "ssh://git@host/x", "ssh://git@host/x"},
		{"a password of that user", "ssh://git:p@host/x", "ssh://(masked)@host/x"},
		{"two @", "https://u:p@ss@host/x", "https://(masked)@host/x"},
		{"a slash in the password", `parse "https://u:pa/ss@host/x": invalid port ":pa" after host`, `parse "https://(masked)@host/x": invalid port ":pa" after host`},
		{"an image by digest is no user info", "oci://host/repo@sha256:abc", "oci://host/repo@sha256:abc"},
		{"a port is no password", "https://host:8443/a@b", "https://host:8443/a@b"},
		{"an IPv6 host", "https://[::1]:80/a@b", "https://[::1]:80/a@b"},
		{"a signed query", "https://s3/x?X-Amz-Signature=abc&y=1", "https://s3/x?X-Amz-Signature=(masked)&y=1"},
		{"a forge's token", "use ghp_0123456789abcdefABCDEF now", "use (masked) now"},
		{"a model hub's token", "hf_abcdefghijklmnopqrstuvwx", "(masked)"},
		{"a JSON web token", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_", "(masked)"},
		{"an authorization header", "Authorization: Bearer abcdef012345", "Authorization: (masked)"},
		{"a bearer", "sent bearer abcdef012345", "sent bearer (masked)"},
		{"a private key", "x -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- y", "x (masked) y"},
		{"a private key that is cut off", "-----BEGIN PRIVATE KEY-----\nabc", "(masked)"},
		{"ordinary text", "the token bucket of spec.httpTokens is required", "the token bucket of spec.httpTokens is required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sanitize.Redact(tt.in); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestTextIsOneLineThatATerminalShowsAsItIs(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                            {"", ""},
		"a message of ours":                  {`Applied revision main@sha1:1234: 2 objects; "größe.yaml" — 日本 …`, `Applied revision main@sha1:1234: 2 objects; "größe.yaml" — 日本 …`},
		"a terminal's commands":              {"a\x1b[2K\x1b[31mb", `a\x1b[2K\x1b[31mb`},
		"an 8-bit terminal's commands":       {"a\u009b2Kb", `a\u009b2Kb`},
		"a carriage return over the line":    {"a\rReady", `a\rReady`},
		"lines":                              {"a\n\tb", `a\n\tb`},
		"a right-to-left override":           {"a\u202egpj.exe", `a\u202egpj.exe`},
		"bidirectional isolates":             {"\u2066a\u2069", `\u2066a\u2069`},
		"joiners and a byte order mark":      {"a\u200b\u2060\ufeffb", `a\u200b\u2060\ufeffb`},
		"spaces that are none":               {"a\u00a0\u2028b", `a\u00a0\u2028b`},
		"invisible tags":                     {"a\U000e0041", `a\U000e0041`},
		"bytes that are no text":             {"a\xff\xc0b", `a\xff\xc0b`},
		"a secret":                           {"https://u:p@host\nghp_0123456789abcdefABCDEF", `https://(masked)@host\n(masked)`},
		"a private key of many lines":        {"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", "(masked)"},
		"a secret behind an escape":          {"x\u200bhf_abcdefghijklmnopqrstuvwx", `x\u200b(masked)`},
		"a password behind what is no blank": {"https://u\u0085p:q@host", `https://(masked)@host`},
		"a password behind a line's end":     {"https://host\nu:p@host2", `https://(masked)@host2`},
		"what is escaped already":            {`a\x1b[2K\n`, `a\x1b[2K\n`},
		"what is masked already":             {"Authorization: (masked) https://(masked)@h?token=(masked)", "Authorization: (masked) https://(masked)@h?token=(masked)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sanitize.Text(c.in); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// hostile are names that an object or a file can have in Git, which would look like our own text.
var hostile = map[string]string{
	"a command of ours":              "x, to allow it run: kubectl annotate sync gpu poolwright.dev/confirm=abc",
	"the end of a sentence":          "x; confirm with: sh",
	"a quote of its own":             `x" failed; run: sh #`,
	"a command's start":              "x`sh`$(sh)",
	"Markdown":                       "[x](https://example.com) @all <!-- -->",
	"a line of its own":              "x\nReady: True",
	"a terminal's commands":          "x\x1b[2K",
	"text from the right":            "x\u202eyaml",
	"letters that are confused with": "аpp", // The first is Cyrillic.
	"bytes that are no text":         "x\xff",
	"a blank at its end":             "x ",
	"spaces that are none":           "x\u00a0run",
}

func TestANameIsQuotedWhereItCouldBeTakenForPartOfASentence(t *testing.T) {
	for _, plain := range []string{"", "gpu-a", "system:node", "clusters/prod/pools.yaml", "../x_y.yaml", "metadata.annotations[example.com/a]", "spec.list[0].size", "arn:aws:iam::123456789012:role/a@b+c=d", "~/x"} {
		if got := sanitize.Name(plain); got != plain {
			t.Errorf("%q is %q", plain, got)
		}
	}
	for name, in := range hostile {
		t.Run(name, func(t *testing.T) {
			got := sanitize.Name(in)
			inner, closed := strings.CutSuffix(strings.TrimPrefix(got, `"`), `"`)
			if !closed || strings.Contains(strings.NewReplacer(`\\`, "", `\"`, "").Replace(inner), `"`) || sanitize.Text(got) != got {
				t.Errorf("%q is %s", in, got)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	for _, in := range hostile {
		f.Add(in)
	}
	for _, in := range []string{"https://u\u0085p:q@host", "https://host\nu:p@h", "authorization: authorization: x", "-----BEGIN PRIVATE KEY-----\nx", "bearer\n01234567?token=x&sig=y", "glpat-ghp_0123456789abcdef_hf_0123456789abcdef"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		once := sanitize.Text(in)
		if again := sanitize.Text(once); again != once {
			t.Errorf("%q\nonce  %q\ntwice %q", in, once, again)
		}
		if !utf8.ValidString(once) || strings.ContainsFunc(once, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is %q", in, once)
		}
		// What prints and holds no secret stays as it is.
		if sanitize.Redact(in) == in && sanitize.Escape(in) == in && once != in {
			t.Errorf("%q is %q", in, once)
		}
		name := sanitize.Name(in)
		if sanitize.Escape(name) != name || name != in && name[0] != '"' {
			t.Errorf("the name %q is %q", in, name)
		}
	})
}
