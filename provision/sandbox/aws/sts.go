package aws

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// stsOperations is STS: who am I.
func stsOperations() map[string]operation {
	return map[string]operation{"GetCallerIdentity": {read: true, run: func(in *call) (any, error) {
		return []query.Element{query.Text("Arn", in.cloud.account.Caller(in.Key)), query.Text("UserId", "AROAEMULATED:"+strings.ToLower(in.Key)), query.Text("Account", in.cloud.account.ID)}, nil
	}}}
}
