package section

import "fmt"

// Limit is how many entries of a list are shown: 40 when zero, all when negative.
type Limit int

const (
	// defaultLimit is how many lines are shown of one list.
	defaultLimit = 40
	// fewLines is how many are shown of a list that everybody reads.
	fewLines = 8
)

// Few is how many lines are shown of a list that everybody reads: 8, or fewer where the
// Limit is lower.
func (l Limit) Few() int {
	if l < 0 {
		return l.Many()
	}
	return min(l.Many(), fewLines)
}

// Many is how many lines are shown of a list of details.
func (l Limit) Many() int {
	switch {
	case l == 0:
		return defaultLimit
	case l < 0:
		return int(^uint(0) >> 1)
	}
	return int(l)
}

// Rows are the head of a table and as many other rows as Many allows.
func (l Limit) Rows(rows [][]string) [][]string {
	n := l.Many()
	if len(rows)-1 <= n {
		return rows
	}
	return append(rows[:n+1:n+1], []string{fmt.Sprintf("… and %d more", len(rows)-1-n)})
}
