package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// Call is one request, as an operation reads it.
type Call struct {
	Op     string          // name of the operation
	Form   query.Form      // of the query protocols
	Body   []byte          // of the JSON protocols
	Target string          // method and escaped path, for the REST protocol
	Query  url.Values      // what is behind the path, for the REST protocol
	Key    string          // access key id of the caller
	Region string          // of the credential scope
	Dry    bool            // a dry run
	Now    time.Time       // when the operation began
	Gone   <-chan struct{} // closed once the caller waits no longer
	Params string          // what was requested, without user data
	// Extra is how many instances a fleet launches beyond what is requested.
	Extra int
	// Launched are the ids of the instances that the call has made.
	Launched []string
}

// Into decodes a JSON body; a field that v does not have is an error that
// names it.
func (in *Call) Into(v any) error {
	if err := DecodeStrict(in.Body, v); errors.Is(err, errSeveral) {
		return Refuse("ValidationException", "reading the input of %s: more than one JSON value", in.Op)
	} else if err != nil {
		return Refuse("ValidationException", "reading the input of %s: %s", in.Op, err)
	}
	return nil
}

// Peek reads from a JSON body what it has of v; the operation itself refuses a
// body that is wrong.
func (in *Call) Peek(v any) { _ = json.Unmarshal(in.Body, v) }

// errSeveral is an input of more than one JSON value.
var errSeveral = errors.New("more than one JSON value")

// DecodeStrict decodes one JSON value; unknown fields and what follows the value
// are errors.
func DecodeStrict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errSeveral
	}
	return nil
}

// Bound reads an optional number and checks its range.
func (in *Call) Bound(name string, v *int, least, most, otherwise int) (int, error) {
	if v == nil {
		return otherwise, nil
	}
	if *v < least || *v > most {
		return 0, Refuse("InvalidParameterValue", "Value %d for parameter %s is invalid. Reason: Must be between %d and %d.", *v, name, least, most)
	}
	return *v, nil
}

// Segment is a part of the path, from 0. The path is escaped, so a slash in an
// ARN is no separator; what cannot be decoded names nothing.
func (in *Call) Segment(n int) string {
	_, path, _ := strings.Cut(in.Target, " /")
	parts := strings.Split(path, "/")
	if n >= len(parts) {
		return ""
	}
	s, err := url.PathUnescape(parts[n])
	if err != nil {
		return ""
	}
	return s
}

// Token is the token of the page behind a key. It holds the key of the last row
// before it, and the operation it is for.
func (in *Call) Token(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(in.Op + "\x00" + key))
}

// After is the key in a token, "" without one.
func (in *Call) After(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	op, key, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok || op != in.Op || key == "" {
		return "", Refuse("InvalidNextToken", "The token '%s' is not one that %s gave.", token, in.Op)
	}
	return key, nil
}

// Window cuts sorted names behind a token to n, and gives the token of the
// next ones.
func (in *Call) Window(names []string, token string, n int) (rows []string, next string, err error) {
	after, err := in.After(token)
	if err != nil {
		return nil, "", fmt.Errorf("the token %q is not one that %s gave", token, in.Op)
	}
	at, found := slices.BinarySearch(names, after)
	if found {
		at++
	}
	rows = names[at:]
	if len(rows) > n {
		rows = rows[:n]
		next = in.Token(rows[n-1])
	}
	return rows, next, nil
}

// Row is a row of a response in XML with a key that orders it and never changes,
// so that pages stay right while rows come and go.
type Row struct {
	Key     string
	Element query.Element
}

// NewRow is a row with its key.
func NewRow(key string, e query.Element) Row { return Row{Key: key, Element: e} }

// Rows cuts rows behind a key to n, and gives the token of the next ones.
func (in *Call) Rows(rows []Row, after string, n int) (elements []query.Element, next string) {
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
	if after != "" {
		at, found := slices.BinarySearchFunc(rows, after, func(r Row, k string) int { return strings.Compare(r.Key, k) })
		if found {
			at++
		}
		rows = rows[at:]
	}
	if len(rows) > n {
		rows = rows[:n]
		next = in.Token(rows[n-1].Key)
	}
	elements = make([]query.Element, 0, len(rows))
	for _, r := range rows {
		elements = append(elements, r.Element)
	}
	return elements, next
}
