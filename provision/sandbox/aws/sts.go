package aws

import (
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// stsOperations is STS: who am I.
func stsOperations() map[string]operation {
	return map[string]operation{"GetCallerIdentity": {read: true, run: func(in *call) (any, error) {
		return []query.Element{query.Text("Arn", in.caller()), query.Text("UserId", "AROAEMULATED:"+in.session()), query.Text("Account", in.cloud.cfg.Account)}, nil
	}}}
}

// session names the caller's session: his access key, so that two callers are
// told apart.
func (in *call) session() string { return strings.ToLower(in.key) }

// caller is the ARN of whoever made the request.
func (in *call) caller() string {
	return fmt.Sprintf("arn:%s:sts::%s:assumed-role/sandbox/%s", in.cloud.partition(), in.cloud.cfg.Account, in.session())
}

// partition is the first word of an ARN after arn.
func (c *Cloud) partition() string {
	switch {
	case strings.HasPrefix(c.cfg.Region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(c.cfg.Region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}
