package aws

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// page cuts the rows of a Describe answer to MaxResults, and says how to go on.
// A token holds the key of the last row shown, and the operation it is for.
func (in *call) page(set string, rows []item, limits pageLimits) ([]query.Element, error) {
	slices.SortFunc(rows, func(a, b item) int { return strings.Compare(a.key, b.key) })
	after, err := in.after(in.form.Get("NextToken"))
	if err != nil {
		return nil, err
	}
	n, limited, err := in.form.Int("MaxResults")
	switch {
	case err != nil:
		return nil, refuse("InvalidParameterValue", "%s", err)
	case limited && n < limits.least:
		return nil, refuse("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than or equal to %d.", n, limits.least)
	case !limited || n > limits.most:
		n = limits.most
	}
	rows = rows[first(rows, after):]
	var next string
	if len(rows) > n {
		rows = rows[:n]
		next = in.token(rows[n-1].key)
	}
	nodes := make([]query.Element, 0, len(rows))
	for _, r := range rows {
		nodes = append(nodes, r.node)
	}
	return []query.Element{query.List(set, "item", nodes), query.Opt("nextToken", next)}, nil
}

// first is the index of the first row behind a key.
func first(rows []item, after string) int {
	if after == "" {
		return 0
	}
	n, found := slices.BinarySearchFunc(rows, after, func(r item, k string) int { return strings.Compare(r.key, k) })
	if found {
		n++
	}
	return n
}

func (in *call) token(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(in.op + "\x00" + key))
}

func (in *call) after(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	op, key, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok || op != in.op || key == "" {
		return "", refuse("InvalidNextToken", "The token '%s' is not one that %s gave.", token, in.op)
	}
	return key, nil
}

// window cuts sorted names behind a token to n, and gives the token of the
// next ones.
func (in *call) window(names []string, token string, n int) (rows []string, next string, err error) {
	after, err := in.after(token)
	if err != nil {
		return nil, "", fmt.Errorf("the token %q is not one that %s gave", token, in.op)
	}
	at, found := slices.BinarySearch(names, after)
	if found {
		at++
	}
	rows = names[at:]
	if len(rows) > n {
		rows = rows[:n]
		next = in.token(rows[n-1])
	}
	return rows, next, nil
}
