package aws

import "strings"

// regionalAsk is what the bodies of SQS, EventBridge and CloudWatch Logs name.
type regionalAsk struct {
	QueueName, QueueUrl     string
	Name, Rule, ResourceARN string
	LogGroupName, RoleArn   string
	TagKeys                 []string
	Targets                 []target
	tags                    map[string]string
	Tags                    any // a map, or pairs in EventBridge
}

func (in *call) regional() regionalAsk {
	var ask regionalAsk
	in.peek(&ask)
	ask.tags = map[string]string{}
	switch tags := ask.Tags.(type) {
	case map[string]any:
		for k, v := range tags {
			ask.tags[k], _ = v.(string)
		}
	case []any:
		for _, entry := range tags {
			pair, _ := entry.(map[string]any)
			key, _ := pair["Key"].(string)
			ask.tags[key], _ = pair["Value"].(string)
		}
	}
	return ask
}

func sqsAuthorizations() map[string]authorization {
	out := map[string]authorization{"ListQueues": anything("sqs:ListQueues"), "CreateQueue": createQueueAsks}
	for _, op := range []string{
		"GetQueueUrl", "SendMessage", "ReceiveMessage", "DeleteMessage", "DeleteQueue", "GetQueueAttributes", "SetQueueAttributes",
		"TagQueue", "UntagQueue", "ListQueueTags",
	} {
		out[op] = func(in *call) []authorizationRequest { return []authorizationRequest{in.ofQueue()} }
	}
	return out
}

// ofQueue asks about the queue that the request names, by name or by URL.
func (in *call) ofQueue() authorizationRequest {
	ask := in.regional()
	name := ask.QueueName
	if name == "" {
		name = ask.QueueUrl[strings.LastIndexByte(ask.QueueUrl, '/')+1:]
	}
	q := authorizationRequest{action: "sqs:" + in.op, resource: in.cloud.queueARN(name), given: ask.tags, keys: ask.TagKeys}
	if have := in.st.queue(name); have != nil {
		q.tags = have.tags
	}
	return q
}

func createQueueAsks(in *call) []authorizationRequest { return tagging("sqs:TagQueue", in.ofQueue()) }

func eventsAuthorizations() map[string]authorization {
	out := map[string]authorization{
		"ListRules": anything("events:ListRules"), "ListRuleNamesByTarget": anything("events:ListRuleNamesByTarget"),
		"PutRule":    putRuleAsks,
		"PutTargets": putTargetsAsks,
	}
	for _, op := range []string{
		"DescribeRule", "EnableRule", "DisableRule", "DeleteRule", "RemoveTargets", "ListTargetsByRule", "TagResource", "UntagResource", "ListTagsForResource",
	} {
		out[op] = func(in *call) []authorizationRequest { return []authorizationRequest{in.ofRule()} }
	}
	return out
}

// ofRule asks about the rule that the request names, by name or by ARN.
func (in *call) ofRule() authorizationRequest {
	ask := in.regional()
	arn := ask.ResourceARN
	if arn == "" {
		arn = in.cloud.ruleARN(ask.Name + ask.Rule) // there is only one of them
	}
	q := authorizationRequest{action: "events:" + in.op, resource: arn, given: ask.tags, keys: ask.TagKeys}
	if have := in.st.rule(strings.TrimPrefix(arn, in.cloud.ruleARN(""))); have != nil {
		q.tags = have.tags
	}
	return q
}

// putRuleAsks wants the role that EventBridge is to act as, too.
func putRuleAsks(in *call) []authorizationRequest {
	out := tagging("events:TagResource", in.ofRule())
	if arn := in.regional().RoleArn; arn != "" {
		out = append(out, in.passing(arn[strings.LastIndexByte(arn, '/')+1:], "events"))
	}
	return out
}

func putTargetsAsks(in *call) []authorizationRequest {
	q := in.ofRule()
	var arns []string
	for _, t := range in.regional().Targets {
		arns = append(arns, t.ARN)
	}
	q.context = map[string][]string{"events:TargetArn": arns}
	return []authorizationRequest{q}
}

func logsAuthorizations() map[string]authorization {
	out := map[string]authorization{
		"DescribeLogGroups": anything("logs:DescribeLogGroups"),
		"CreateLogGroup":    func(in *call) []authorizationRequest { return tagging("logs:TagResource", in.ofLogGroup()) },
	}
	for _, op := range []string{"DeleteLogGroup", "PutRetentionPolicy", "DeleteRetentionPolicy", "TagResource", "UntagResource", "ListTagsForResource"} {
		out[op] = func(in *call) []authorizationRequest { return []authorizationRequest{in.ofLogGroup()} }
	}
	return out
}

// ofLogGroup asks about the log group that the request names, by name or by
// ARN.
func (in *call) ofLogGroup() authorizationRequest {
	ask := in.regional()
	arn := ask.ResourceARN
	if arn == "" {
		arn = in.cloud.logGroupARN(ask.LogGroupName)
	}
	q := authorizationRequest{action: "logs:" + in.op, resource: arn, given: ask.tags, keys: ask.TagKeys}
	if have := in.st.logGroup(strings.TrimPrefix(arn, in.cloud.logGroupARN(""))); have != nil {
		q.tags = have.tags
	}
	return q
}
