package confirm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is asked for beside a token that is used stays as it is, and none is good twice,
// whatever is quoted later.
func TestATokenThatWasUsedChangesThoseOfItsPurposeAlone(t *testing.T) {
	in := Binding{UID: "a"}
	first, other := in.Token("nodes", 1), in.Token("guard.my-sync", 1)
	next := in.Use(first)
	if next.Handled != first || next.Token("guard.my-sync", 1) != other || next.Token("nodes", 1) == first {
		t.Errorf("after %s: handled %q, then %s and %s", first, next.Handled, next.Token("nodes", 1), next.Token("guard.my-sync", 1))
	}
	second := next.Token("nodes", 1)
	both := next.Use(second, other)
	if d := cmp.Diff([]string{other, second}, Tokens(both.Handled)); d != "" {
		t.Errorf("the newest of each purpose (-want +got):\n%s", d)
	}
	for _, quoted := range []string{first, second, other, "nodes-9-" + strings.Repeat("0", 40), "nodes-x-" + strings.Repeat("0", 40), "nodes-3-00", "nodes", "", "-3-" + strings.Repeat("0", 40), strings.Repeat("0", 40)} {
		if again := both.Use(quoted); again != both {
			t.Errorf("%q quoted once more: handled %q", quoted, again.Handled)
		}
	}
	if old := (Binding{UID: "a", Handled: strings.Repeat("0", 40) + "+3Node"}); old.Token("nodes", 1) != first || old.Use(first).Handled != first {
		t.Errorf("what an earlier release handled: %s, then %q", old.Token("nodes", 1), old.Use(first).Handled)
	}
}

func TestThePurposeOfATokenStandsInIt(t *testing.T) {
	in := Binding{UID: "a"}
	for _, purpose := range []string{"nodes", "guard.my-sync", "guard.a.b-1"} {
		token := in.Token(purpose, 1)
		if Purpose(token) != purpose || Purpose(token+"+3Node+7Pod") != purpose {
			t.Errorf("%s is for %q", token, Purpose(token))
		}
	}
}

// What makes a number revoked keeps nothing of the text that was quoted but its purpose.
func TestAVoidTokenMakesItsNumberUselessAndKeepsNoContent(t *testing.T) {
	in := Binding{UID: "a"}
	token := in.Token("nodes", 1)
	revoked := RevokedToken(token + "+3Node")
	if revoked != "nodes-1-"+strings.Repeat("0", 40) || RevokedToken(revoked) != revoked || RevokedToken("mistyped") != "" {
		t.Errorf("%s becomes %q", token, revoked)
	}
	if next := in.Use(revoked); next.Handled != revoked || next.Use(token).Token("nodes", 1) != next.Token("nodes", 1) || next.Token("nodes", 1) == token {
		t.Errorf("after it: handled %q, then %s", next.Handled, next.Token("nodes", 1))
	}
}

func FuzzUse(f *testing.F) {
	f.Add("nodes-1-2b1f0c9d7e645a38c1d0f9e2b7a46358d10c9e7f+3Node", "nodes-2-2b1f0c9d7e645a38c1d0f9e2b7a46358d10c9e7f")
	f.Add("guard.a-b-1-2b1f0c9d7e645a38c1d0f9e2b7a46358d10c9e7f", ",")
	f.Add("", "a\x1b[31m\n# hi @allnodes-1-2b1f0c9d7e645a38c1d0f9e2b7a46358d10c9e7f+0\x1b[31m EVIL")
	f.Add("force-push-1-0000000000000000000000000000000000000000", "force-push-2-2b1f0c9d7e645a38c1d0f9e2b7a46358d10c9e7f")
	f.Fuzz(func(t *testing.T, handled, quoted string) {
		before := Binding{UID: "a", Handled: handled}
		after := before.Use(Tokens(quoted)...)
		if again := after.Use(Tokens(quoted)...); Tokens(quoted) != nil && len(Tokens(quoted)) == 1 && again != after {
			t.Errorf("%q is used twice after %q: %q, then %q", quoted, handled, after.Handled, again.Handled)
		}
		for _, token := range Tokens(quoted) {
			if used, revoked := before.Use(token), before.Use(RevokedToken(token)); before.Unused(token) == "" && revoked != before || used.used(Purpose(token)) != revoked.used(Purpose(token)) {
				t.Errorf("%q after %q: handled %q, revoked %q", token, handled, used.Handled, revoked.Handled)
			}
		}
	})
}
