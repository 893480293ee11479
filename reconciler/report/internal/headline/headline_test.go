package headline

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAPhraseOfTheHighestRankGivesWayFirst(t *testing.T) {
	long := strings.Repeat("x", 60)
	tests := []struct {
		name    string
		phrases []Phrase
		want    string
	}{
		{"what fits stays", []Phrase{{Text: "a"}, {}, {Text: "b", Rank: RankDrift}}, "a · b"},
		{"one that has no brief form is left out", []Phrase{{Text: long}, {Text: long, Rank: RankName, Brief: "name"}, {Text: long, Rank: RankDrift}}, long + " · " + long},
		{"all of one rank give way together", []Phrase{{Text: long}, {Text: long, Rank: RankWhy, Brief: "b"}, {Text: long, Rank: RankWhy, Brief: "c"}}, long + " · b · c"},
		{"then those at the end", []Phrase{{Text: long}, {Text: long}, {Text: long}}, long + " · " + long},
		{"one that is too long alone is clipped", []Phrase{{Text: long + long + long}}, strings.Repeat("x", Width-1) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Shorten(tt.phrases)
			if got != tt.want || utf8.RuneCountInString(got) > Width {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
