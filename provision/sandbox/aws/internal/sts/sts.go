// Package sts is the Security Token Service: who a caller is. It gives no tokens.
package sts

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// Table is what STS can do here. AWS requires no permission for being
// named.
func Table(account *api.Account) api.Table {
	const op = "GetCallerIdentity"
	return api.Table{
		Operations: map[string]api.Operation{op: {Read: true, Run: func(in *api.Call) (any, error) {
			return []query.Element{query.Text("Arn", account.Caller(in.Key)), query.Text("UserId", "AROAEMULATED:"+strings.ToLower(in.Key)),
				query.Text("Account", account.ID)}, nil
		}}},
		Authorizations: map[string]api.Authorization{op: func(*api.Call) []api.AuthorizationRequest { return nil }},
	}
}
