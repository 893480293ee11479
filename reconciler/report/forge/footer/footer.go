// Package footer has the form in which a comment with a footer is at a forge: the marker of the comment, its body, the Marker of the footer, and
// the footer. It refuses nothing. Start reading at Split.
package footer

import "strings"

// Marker is the line between the body and the footer of a comment. It is not rendered.
const Marker = "<!-- poolwright:tail -->"

// Split returns the body and the footer of a comment, of which the first line is its own marker.
func Split(comment string) (body, footer string) {
	above, footer, _ := strings.CutLast(comment, "\n"+Marker+"\n")
	_, body, _ = strings.Cut(above, "\n")
	return strings.TrimSpace(body), strings.TrimSpace(footer)
}
