// Package headline joins what there is to read of a change in one line, and shortens it
// until a forge shows all of it.
//
// It refuses to choose what that is. Start reading at Phrase.
package headline

import (
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
)

// Phrase is a part of a headline.
type Phrase struct {
	// Text is all of it; nothing of an empty one is shown.
	Text string
	// Brief is what is left of it when there is no room for all; nothing when empty.
	Brief string
	// Rank is how soon that is: the highest first, zero never.
	Rank int
}

// The ranks, of what is left out last to what is left out first: names, what is not known,
// warnings, why nodes stay, the share of spot, the maximum, that quotas suffice, what had
// drifted before.
const (
	RankName = iota + 1
	RankUnknown
	RankWarning
	RankWhy
	RankSpot
	RankMaxCost
	RankQuota
	RankDrift
)

// Width is how much of a line next to a commit forges show, in characters.
const Width = 140

// Shorten joins the phrases in at most Width characters. It changes those that it shortens.
func Shorten(phrases []Phrase) string {
	line := Join(phrases)
	for rank := RankDrift; rank > 0 && utf8.RuneCountInString(line) > Width; rank-- {
		for i, c := range phrases {
			if c.Rank == rank {
				phrases[i].Text = c.Brief
			}
		}
		line = Join(phrases)
	}
	for n := len(phrases) - 1; n > 0 && utf8.RuneCountInString(line) > Width; n-- {
		line = Join(phrases[:n])
	}
	return markup.Clip(line, Width)
}

// Join writes the phrases with a text in full.
func Join(phrases []Phrase) string {
	var out []string
	for _, c := range phrases {
		if c.Text != "" {
			out = append(out, c.Text)
		}
	}
	return strings.Join(out, " · ")
}
