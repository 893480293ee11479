package comments

import (
	"strings"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/footer"
)

// footerMark is the line between a comment's body and its tail. No reader is shown it.
// Neither body nor tail can hold it, because escapeMark breaks every imitation before it is
// written; and should somebody write one into our comment by hand, the last one counts,
// below which only our own tail can stand.
const footerMark = footer.Marker

// escapeMark makes a text hold no line that could be taken for the mark. A NUL is
// replaced too: who drops it could make a mark of what was none.
func escapeMark(s string) string {
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	return strings.ReplaceAll(s, footerMark, "<\u200b"+footerMark[1:])
}

// text is what the whole comment is to be, given what it is now; now is empty
// where there is none. An empty result is a comment without content. Body and tail
// together have at most limit bytes: the body is cut, and the tail only where it alone
// has more than half of it.
func text(c forge.Comment, now string, limit int) string {
	body, tail := escapeMark(c.Body), strings.TrimRight(Fit(escapeMark(c.Footer), limit/2), blank)
	if c.Body == "" {
		body = above(now, c.Marker)
	}
	switch {
	case body == "" && tail == "" && now == "":
		return ""
	case tail == "":
		return string(c.Marker) + "\n" + Fit(body, limit)
	}
	end := footerMark + "\n" + tail
	if body = strings.TrimRight(body, blank); body != "" {
		body = strings.TrimRight(Fit(body, limit-len(end)-2), blank) + "\n\n"
	}
	return string(c.Marker) + "\n" + body + end
}

const blank = " \t\r\n"

// above is what stands between the marker and the last mark of a tail, or the
// end where there is no tail.
func above(comment string, marker forge.Marker) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(comment, string(marker)), "\r")
	rest = strings.TrimPrefix(rest, "\n")
	for end := len(rest); end >= 0; {
		start := strings.LastIndexByte(rest[:end], '\n') + 1
		if strings.TrimRight(rest[start:end], blank) == footerMark {
			return strings.TrimRight(rest[:start], blank)
		}
		end = start - 1
	}
	return rest
}
