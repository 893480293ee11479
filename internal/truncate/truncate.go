// Package truncate shortens texts of others to what a status, an event or a comment may hold.
//
// It refuses to cut a character in two. Start reading at Bytes.
package truncate

import "strings"

// ellipsis stands where a text was cut off.
const ellipsis = "…"

// Bytes is text of at most so many bytes of UTF-8. What is cut off is replaced by "…", for which most must
// have room: three bytes.
func Bytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}
