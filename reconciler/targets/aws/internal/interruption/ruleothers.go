package interruption

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// mostNamed is how many rules of others a note names.
const mostNamed = 8

// addOthersNote adds a note to our first rule on which rules of others fill its queue, too,
// such as those of Karpenter's own stack: each event then comes twice, and all
// but one of them do nothing. It is left out where these rules cannot be read.
// Who reads one rule alone is about to write it, and needs no note.
func addOthersNote(ctx context.Context, c *resource.Clients, keys []state.Key, observed map[state.Key]resource.Live) {
	first := slices.IndexFunc(keys, func(k state.Key) bool { return observed[k].Object != nil })
	if first < 0 || len(keys) < 2 {
		return
	}
	rule := observed[keys[first]]
	var queue string
	for _, t := range rule.Object["targets"].([]any) {
		if arn, _ := t.(map[string]any)["arn"].(string); strings.HasPrefix(arn, c.Scope.ARN("sqs", "")) {
			queue = cmp.Or(queue, arn)
		}
	}
	if queue == "" {
		return
	}
	named, err := rulesOf(ctx, c, queue)
	if err != nil {
		return
	}
	others := slices.DeleteFunc(named, func(name string) bool {
		return slices.ContainsFunc(keys, func(k state.Key) bool { return k.Name == name })
	})
	if len(others) == 0 {
		return
	}
	slices.Sort(others)
	rule.Notes = append(rule.Notes, finding.New(codeQueueFilledByOthers, "the queue is also filled by %s, so that an event may come twice: delete what nothing else needs of it when you like",
		finding.As("rules", others[:min(len(others), mostNamed)], plural.FirstOf(others, mostNamed, ", "))))
	observed[keys[first]] = rule
}

// codeQueueFilledByOthers is of a queue into which rules send events that are not Poolwright's.
const codeQueueFilledByOthers finding.Code = "QueueFilledByOthers"

// rulesOf names all rules that have a target.
func rulesOf(ctx context.Context, c *resource.Clients, target string) ([]string, error) {
	var out []string
	in := &eventbridge.ListRuleNamesByTargetInput{TargetArn: &target}
	for {
		page, err := c.Events.ListRuleNamesByTarget(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("listing the rules of a target: %w", err)
		}
		out = append(out, page.RuleNames...)
		if sdk.ToString(page.NextToken) == "" {
			return out, nil
		}
		in.NextToken = page.NextToken
	}
}
