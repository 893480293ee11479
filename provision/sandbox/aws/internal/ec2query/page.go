// Package ec2query is what EC2's dialect of the query protocol adds to package
// query: filters, pages, tag specifications, resource ids and times. It has no
// resource. Start with Choose and Page.
package ec2query

import (
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// Page cuts the rows of a Describe response to MaxResults, with a token of the next ones.
// A token holds the key of the last row shown, and the operation it is for.
func Page(in *api.Call, set string, rows []api.Row, least, most int) ([]query.Element, error) {
	after, err := in.After(in.Form.Get("NextToken"))
	if err != nil {
		return nil, err
	}
	n, limited, err := in.Form.Int("MaxResults")
	switch {
	case err != nil:
		return nil, api.Refuse("InvalidParameterValue", "%s", err)
	case limited && n < least:
		return nil, api.Refuse("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than or equal to %d.", n, least)
	case !limited || n > most:
		n = most
	}
	elements, next := in.Rows(rows, after, n)
	return []query.Element{query.List(set, "item", elements), query.Opt("nextToken", next)}, nil
}

// Stamp writes a time as EC2 does.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
