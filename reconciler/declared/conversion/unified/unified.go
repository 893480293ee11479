// Package unified compares two texts line by line and writes what differs as
// diff -u does, for people and for patch(1).
//
// It refuses to be clever about very different texts: beyond a bound they are
// shown as one replaced by the other. github.com/pmezard/go-difflib, which would be the library for it, has no
// such bound, and is no longer maintained. Start reading at Diff.
package unified

import (
	"fmt"
	"slices"
	"strings"
)

// context is how many equal lines are shown around a difference.
const context = 3

// maxEdits bounds the search for the shortest difference.
const maxEdits = 1000

// Diff is what leads from a file's old content to its new one, empty where they
// are equal. The names are shown with the a/ and b/ of Git.
func Diff(name string, before, after []byte) string {
	a, b := lines(string(before)), lines(string(after))
	edits := compare(a, b)
	if !slices.ContainsFunc(edits, func(e edit) bool { return e.sign != ' ' }) {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- a/%s\n+++ b/%s\n", name, name)
	for start := 0; start < len(edits); {
		if edits[start].sign == ' ' {
			start++
			continue
		}
		end, unchanged := start, 0
		for i := start; i < len(edits) && unchanged <= 2*context; i++ {
			if edits[i].sign == ' ' {
				unchanged++
				continue
			}
			end, unchanged = i+1, 0
		}
		hunk(&out, edits[max(0, start-context):min(len(edits), end+context)])
		start = min(len(edits), end+context)
	}
	return out.String()
}

// edit is one line that is kept, taken out or put in; a and b are how many lines
// of either text come before it.
type edit struct {
	sign byte
	text string
	a, b int
}

func hunk(out *strings.Builder, edits []edit) {
	var removed, added int
	for _, e := range edits {
		if e.sign != '+' {
			removed++
		}
		if e.sign != '-' {
			added++
		}
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(edits[0].a, removed), span(edits[0].b, added))
	for _, e := range edits {
		out.WriteByte(e.sign)
		out.WriteString(e.text)
		if !strings.HasSuffix(e.text, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

func span(before, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprint(before + 1)
	}
	return fmt.Sprintf("%d,%d", before+1, count)
}

func lines(s string) []string {
	out := strings.SplitAfter(s, "\n")
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// compare is the shortest way from a to b, removals before additions. Equal ends
// are set aside first.
func compare(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var signs []byte
	signs = append(signs, slices.Repeat([]byte{' '}, head)...)
	signs = append(signs, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	signs = append(signs, slices.Repeat([]byte{' '}, tail)...)
	out := make([]edit, 0, len(signs))
	i, j := 0, 0
	for _, sign := range signs {
		e := edit{sign: sign, a: i, b: j}
		if sign == '+' {
			e.text = b[j]
		} else {
			e.text = a[i]
			i++
		}
		if sign != '-' {
			j++
		}
		out = append(out, e)
	}
	return out
}

// middle is Myers' greedy search: for each number of edits, how far each diagonal
// can be followed.
func middle(a, b []string) []byte {
	n, m := len(a), len(b)
	limit := min(n+m, maxEdits)
	far := make([]int, 2*limit+3)
	var trace [][]int
	for d := 0; d <= limit; d++ {
		trace = append(trace, slices.Clone(far[limit+1-d:limit+2+d]))
		for k := -d; k <= d; k += 2 {
			x := next(far, limit+1, k, d)
			for x < n && x-k < m && a[x] == b[x-k] {
				x++
			}
			far[limit+1+k] = x
			if x >= n && x-k >= m {
				return walk(trace, n, m)
			}
		}
	}
	return append(slices.Repeat([]byte{'-'}, n), slices.Repeat([]byte{'+'}, m)...)
}

// next is where a diagonal starts in a round: one line of a taken out, or one of b
// put in, behind the farther of its neighbours.
func next(far []int, zero, k, d int) int {
	switch {
	case d == 0:
		return 0
	case k == -d || k != d && far[zero+k-1] < far[zero+k+1]:
		return far[zero+k+1]
	}
	return far[zero+k-1] + 1
}

// walk goes back through the rounds; trace[d] holds diagonals -d to d as they were
// before round d.
func walk(trace [][]int, x, y int) []byte {
	var out []byte
	for d, far := range slices.Backward(trace) {
		k := x - y
		if d == 0 {
			out = append(out, slices.Repeat([]byte{' '}, x)...)
			break
		}
		from, sign := k-1, byte('-')
		if k == -d || k != d && far[d+k-1] < far[d+k+1] {
			from, sign = k+1, '+'
		}
		toX := far[d+from]
		startX := toX
		if sign == '-' {
			startX++
		}
		out = append(out, slices.Repeat([]byte{' '}, x-startX)...)
		out = append(out, sign)
		x, y = toX, toX-from
	}
	slices.Reverse(out)
	return out
}
