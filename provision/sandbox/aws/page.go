package aws

import (
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// page cuts the rows of a Describe answer to MaxResults, and says how to go on.
// A token holds the key of the last row shown, and the operation it is for.
func (in *call) page(set string, rows []api.Row, limits pageLimits) ([]query.Element, error) {
	after, err := in.After(in.Form.Get("NextToken"))
	if err != nil {
		return nil, err
	}
	n, limited, err := in.Form.Int("MaxResults")
	switch {
	case err != nil:
		return nil, api.Refuse("InvalidParameterValue", "%s", err)
	case limited && n < limits.least:
		return nil, api.Refuse("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than or equal to %d.", n, limits.least)
	case !limited || n > limits.most:
		n = limits.most
	}
	elements, next := in.Rows(rows, after, n)
	return []query.Element{query.List(set, "item", elements), query.Opt("nextToken", next)}, nil
}
