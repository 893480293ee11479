package logs

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func (svc *Service) authorizations() map[string]api.Authorization {
	out := map[string]api.Authorization{
		"DescribeLogGroups": api.Anything("logs:DescribeLogGroups"),
		"CreateLogGroup":    func(in *api.Call) []api.AuthorizationRequest { return svc.ofLogGroup(in).AlsoTags("logs:TagResource") },
	}
	for _, op := range []string{"DeleteLogGroup", "PutRetentionPolicy", "DeleteRetentionPolicy", "TagResource", "UntagResource", "ListTagsForResource"} {
		out[op] = func(in *api.Call) []api.AuthorizationRequest { return []api.AuthorizationRequest{svc.ofLogGroup(in)} }
	}
	return out
}

// ofLogGroup is a request for the log group that the request names, by name or by
// ARN.
func (svc *Service) ofLogGroup(in *api.Call) api.AuthorizationRequest {
	var input struct {
		LogGroupName, ResourceARN string
		Tags                      map[string]string
		TagKeys                   []string
	}
	in.Peek(&input)
	arn := input.ResourceARN
	if arn == "" {
		arn = svc.logGroupARN(input.LogGroupName)
	}
	q := api.AuthorizationRequest{Action: "logs:" + in.Op, Resource: arn, RequestTags: input.Tags, Keys: input.TagKeys}
	if have := svc.logGroup(strings.TrimPrefix(arn, svc.logGroupARN(""))); have != nil {
		q.Tags = have.tags
	}
	return q
}
