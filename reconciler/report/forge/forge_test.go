package forge_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

func TestMarkersAreStableAndApart(t *testing.T) {
	const want = "<!-- poolwright:plan sync=team/nodes cluster=arn:aws:eks:eu-west-1:111122223333:cluster/one -->"
	if got := forge.NewMarker("plan", "team/nodes", "arn:aws:eks:eu-west-1:111122223333:cluster/one"); got != want {
		t.Errorf("got %s", got)
	}
	names := []string{"", "a", "b", "a b", "a cluster=b", "a-->", "--", "a--b", "%2D%2D", "a\nb", "<!--", "a+b", "a%20b", "é", "/", ":", "%2F"}
	observed := map[forge.Marker][2]string{}
	for _, sync := range names {
		for _, cluster := range names {
			marker := forge.NewMarker("plan", sync, cluster)
			if other, ok := observed[marker]; ok {
				t.Errorf("%q and %q have one marker, %s", other, []string{sync, cluster}, marker)
			}
			observed[marker] = [2]string{sync, cluster}
			inside := strings.TrimSuffix(strings.TrimPrefix(string(marker), "<!-- "), " -->")
			if strings.Contains(inside, "--") || strings.ContainsAny(inside, "<>\n") {
				t.Errorf("%q ends before its end", marker)
			}
			for _, body := range []string{string(marker), string(marker) + "\nx", string(marker) + "\r\nx"} {
				if !marker.IsPrefixOf(body) {
					t.Errorf("%q is not found in %q", marker, body)
				}
			}
			for _, body := range []string{"", " " + string(marker), "x\n" + string(marker), string(marker) + "x", "> " + string(marker)} {
				if marker.IsPrefixOf(body) {
					t.Errorf("%q is found in %q", marker, body)
				}
			}
		}
	}
	if forge.Marker("").IsPrefixOf("") {
		t.Error("no marker is found in everything")
	}
}

func TestPlainReadsAsItWasWritten(t *testing.T) {
	tests := []struct {
		name, text string
		width      int
		want       string // without what has no width
	}{
		{"plain text stays", "Shorten consolidation of pool a", 80, "Shorten consolidation of pool a"},
		{"umlauts and emoji stay", "Größe 😀", 80, "Größe 😀"},
		{"white space and controls become one space", " a\n\n# b\t\x1b[31mc\u202ed\u200be\xff ", 80, "a &#035; b &#091;31mc d e"},
		{"a long text is cut", "0123 é789", 6, "0123 é…"},
		{"a text that fits is not cut", "0123 é", 6, "0123 é"},
		{"HTML is text", "<b>&lt;", 80, "&lt;b&gt;&amp;lt&#059;"},
	}
	for _, tt := range tests {
		if got := strings.ReplaceAll(forge.PlainText(tt.text, tt.width), "\u200b", ""); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzPlain checks that no character that means something to Markdown, HTML or
// a forge is left as it is.
func FuzzPlain(f *testing.F) {
	f.Add("@ada closes #1 <img src=x> [a](https://b) `c` **d**", 50)
	f.Add("0123456789abcdef a.b www.x.org \u202e\x00\xff", 9)
	f.Fuzz(func(t *testing.T, text string, width int) {
		width = min(max(width, 0), 1000)
		got := forge.PlainText(text, width)
		if !utf8.ValidString(got) {
			t.Errorf("broken: %q", got)
		}
		run := 0
		for i, r := range got {
			switch {
			case r == '&' && strings.HasPrefix(got[i:], "&amp;"), r == ';', r == '#' && i > 0 && got[i-1] == '&':
			case r == '&':
				if end := strings.IndexByte(got[i:], ';'); end < 3 || end > 6 {
					t.Errorf("a bare &: %q", got)
				}
			case r < utf8.RuneSelf && (unicode.IsPunct(r) || unicode.IsSymbol(r)), r != '\u200b' && !unicode.IsPrint(r):
				t.Errorf("%q is left in %q", r, got)
			}
			if run++; !strings.ContainsRune("0123456789abcdefABCDEF", r) {
				run = 0
			}
			if run >= 7 {
				t.Errorf("it may name a commit: %q", got)
			}
		}
	})
}

func TestErrorsNameWhoShouldDoWhat(t *testing.T) {
	cause := errors.New("below")
	tests := []struct {
		err       forge.Error
		want      string
		permanent bool
	}{
		{forge.Error{Operation: "listing", Message: "no such host", Cause: cause}, "listing: no response from the forge: no such host", false},
		{forge.Error{Operation: "listing", Code: 403, Message: "no", Remedy: "give it"}, "listing: the forge responded with status 403: no; give it", true},
		{forge.Error{Operation: "listing", Code: 403, Until: time.Unix(0, 0)}, "listing: the forge's rate limit is used up until 1970-01-01T00:00:00Z", false},
		{forge.Error{Operation: "listing", Code: 502}, "listing: the forge responded with status 502", false},
		{forge.Error{Operation: "listing", Code: 409}, "listing: the forge responded with status 409", false},
	}
	for _, tt := range tests {
		if tt.err.Error() != tt.want || tt.err.Permanent() != tt.permanent || !errors.Is(&tt.err, tt.err.Cause) && tt.err.Cause != nil {
			t.Errorf("got %q, permanent %v", tt.err.Error(), tt.err.Permanent())
		}
	}
}
