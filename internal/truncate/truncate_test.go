package truncate

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestATextIsCutAtACharacter(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		most int
		want string
	}{
		"a text that fits stays as it is":                  {"pools", 5, "pools"},
		"the empty text stays empty":                       {"", 3, ""},
		"the end is replaced":                              {"node pools", 8, "node …"},
		"nothing but the mark fits":                        {"pools", 3, "…"},
		"a character of two bytes is left out as a whole":  {"üüüü", 6, "ü…"},
		"a character of four bytes is left out as a whole": {"a😀😀", 8, "a😀…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Bytes(tt.text, tt.most); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestEveryLengthHolds(t *testing.T) {
	text := strings.Repeat("aü€😀", 5)
	for most := len(ellipsis); most <= len(text)+1; most++ {
		if got := Bytes(text, most); len(got) > most || !utf8.ValidString(got) {
			t.Errorf("of at most %d bytes: %q, which has %d", most, got, len(got))
		}
	}
}
