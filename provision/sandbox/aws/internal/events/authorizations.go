package events

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func (svc *Service) authorizations() map[string]api.Authorization {
	out := map[string]api.Authorization{
		"ListRules": api.Anything("events:ListRules"), "ListRuleNamesByTarget": api.Anything("events:ListRuleNamesByTarget"),
		"PutRule":    svc.putRuleRequests,
		"PutTargets": svc.putTargetsRequests,
	}
	for _, op := range []string{
		"DescribeRule", "EnableRule", "DisableRule", "DeleteRule", "RemoveTargets", "ListTargetsByRule", "TagResource", "UntagResource", "ListTagsForResource",
	} {
		out[op] = func(in *api.Call) []api.AuthorizationRequest { return []api.AuthorizationRequest{svc.ofRule(in)} }
	}
	return out
}

// names is what EventBridge's requests name.
type names struct {
	Name, Rule, ResourceARN string
	RoleArn                 string
	TagKeys                 []string
	Tags                    []tagPair
	Targets                 []target
}

// ofRule is a request for the rule that the request names, by name or by ARN.
func (svc *Service) ofRule(in *api.Call) api.AuthorizationRequest {
	var input names
	in.Peek(&input)
	given := map[string]string{}
	for _, t := range input.Tags {
		given[t.Key] = t.Value
	}
	arn := input.ResourceARN
	if arn == "" {
		arn = svc.ruleARN(input.Name + input.Rule) // there is only one of them
	}
	q := api.AuthorizationRequest{Action: "events:" + in.Op, Resource: arn, RequestTags: given, Keys: input.TagKeys}
	if have := svc.rule(strings.TrimPrefix(arn, svc.ruleARN(""))); have != nil {
		q.Tags = have.tags
	}
	return q
}

// putRuleRequests include one to pass the role that EventBridge is to act as.
func (svc *Service) putRuleRequests(in *api.Call) []api.AuthorizationRequest {
	out := svc.ofRule(in).AlsoTags("events:TagResource")
	var input names
	in.Peek(&input)
	if arn := input.RoleArn; arn != "" {
		out = append(out, svc.passRole(arn[strings.LastIndexByte(arn, '/')+1:], "events"))
	}
	return out
}

func (svc *Service) putTargetsRequests(in *api.Call) []api.AuthorizationRequest {
	q := svc.ofRule(in)
	var arns []string
	var input names
	in.Peek(&input)
	for _, t := range input.Targets {
		arns = append(arns, t.ARN)
	}
	q.Context = map[string][]string{"events:TargetArn": arns}
	return []api.AuthorizationRequest{q}
}

// required are the members that the model requires.
func required() map[string][]string {
	out := map[string][]string{
		"PutRule":           {"Name", "Tags.#.Key", "Tags.#.Value"},
		"PutTargets":        {"Rule", "Targets", "Targets.#.Id", "Targets.#.Arn"},
		"RemoveTargets":     {"Rule", "Ids"},
		"ListTargetsByRule": {"Rule"}, "ListRuleNamesByTarget": {"TargetArn"},
		"TagResource":   {"ResourceARN", "Tags", "Tags.#.Key", "Tags.#.Value"},
		"UntagResource": {"ResourceARN", "TagKeys"}, "ListTagsForResource": {"ResourceARN"},
	}
	for _, op := range []string{"DeleteRule", "DescribeRule", "DisableRule", "EnableRule"} {
		out[op] = []string{"Name"}
	}
	return out
}
