package forge

import (
	"net/url"
	"strings"
)

// Marker is the first line of a comment by which it is found again: an HTML comment,
// which is not rendered.
type Marker string

// NewMarker names what a comment is about (such as "plan"), for which Sync
// (namespace/name) and for which cluster. The same three always make the same marker,
// and different ones different markers, whatever characters the names hold.
func NewMarker(what, sync, cluster string) Marker {
	return Marker("<!-- poolwright:" + inert(what) + " sync=" + inert(sync) + " cluster=" + inert(cluster) + " -->")
}

// inert keeps names readable but lets none end the comment or the field.
func inert(name string) string {
	escaped := strings.ReplaceAll(url.QueryEscape(name), "%2F", "/")
	return strings.ReplaceAll(strings.ReplaceAll(escaped, "%3A", ":"), "--", "%2D%2D")
}

// IsPrefixOf reports whether a comment's body starts with the marker.
func (m Marker) IsPrefixOf(body string) bool {
	rest, ok := strings.CutPrefix(body, string(m))
	return ok && m != "" && (rest == "" || rest[0] == '\n' || rest[0] == '\r')
}
