package server

import (
	"compress/gzip"
	"net/http"
	"strings"
)

// send writes a document as a whole, compressed by gzip for a client that accepts it: tables of a cluster shrink to a tenth. Streams are
// not sent by it.
func send(w http.ResponseWriter, r *http.Request, code int, contentType string, content []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Add("Vary", "Accept-Encoding")
	if !acceptsGzip(r) {
		w.WriteHeader(code)
		_, _ = w.Write(content) // the reader is gone
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(code)
	out := gzip.NewWriter(w)
	_, _ = out.Write(content) // the reader is gone
	_ = out.Close()
}

// acceptsGzip reports whether a client names gzip, and does not weigh it with zero.
func acceptsGzip(r *http.Request) bool {
	for one := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(weight), "q="), "0.") != "" || strings.TrimSpace(weight) == ""
		}
	}
	return false
}
