package interruption

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// Rules are the EventBridge rules, on the default bus, that fill the
// interruption queue.
//
//	pattern   the event pattern, canonical
//	schedule  "none": an event by the clock is no interruption
//	state     "ENABLED"
//	targets   [{arn}], sorted; with "input" where the event is sent in another form
//	tags
//
// What is read also has the description and the roleArn, for Write: what PutRule
// does not get, it removes.
type Rules struct{}

// ruleEvents are the rules by the end of their names: what Karpenter
// handles, and nothing else.
var ruleEvents = []struct{ name, source, detailType string }{
	{"SpotInterruption", "aws.ec2", "EC2 Spot Instance Interruption Warning"},
	{"Rebalance", "aws.ec2", "EC2 Instance Rebalance Recommendation"},
	{"StateChange", "aws.ec2", "EC2 Instance State-change Notification"},
	{"ScheduledChange", "aws.health", "AWS Health Event"},
	{"CapacityReservation", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"},
}

const (
	longestRuleName = 64
	// RuleTarget is the id of our target in each rule.
	RuleTarget = "poolwright-interruption-queue"
	noSchedule = "none"
)

// RuleNames are the names of the rules of a cluster, in the order of
// ruleEvents. They share one beginning, so that one list finds them all.
func RuleNames(cluster string) []string {
	longest := 0
	for _, e := range ruleEvents {
		longest = max(longest, len(e.name))
	}
	stem := "poolwright-" + inventory.TruncateName(cluster, longestRuleName-len("poolwright-")-len("-")-longest)
	out := make([]string, len(ruleEvents))
	for i, e := range ruleEvents {
		out[i] = stem + "-" + e.name
	}
	return out
}

// Desired implements resource.Kind.
func (Rules) Desired(s resource.Declaration) []state.Item {
	q := s.Spec.InterruptionQueue
	if q == nil {
		return nil
	}
	var out []state.Item
	for i, name := range RuleNames(s.Cluster) {
		e := ruleEvents[i]
		out = append(out, s.Owned(s.Regional("events", "Rule", name), resource.WaveSecond, q.ManagementPolicy, map[string]any{
			"pattern":  map[string]any{"source": []any{e.source}, "detail-type": []any{e.detailType}},
			"schedule": noSchedule, "state": string(eventstypes.RuleStateEnabled),
			"targets": []any{map[string]any{"arn": s.ARN("sqs", q.Name)}},
		}))
	}
	return out
}

// Read implements resource.Kind.
func (Rules) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	out := make(map[state.Key]resource.Live, len(keys))
	listed, err := listRules(ctx, c, keys)
	for _, k := range keys {
		if err != nil {
			out[k] = resource.Live{Err: err}
			continue
		}
		rule, ok := listed[k.Name]
		if !ok {
			continue
		}
		observed, err := readRule(ctx, c, rule)
		switch {
		case err == nil:
			out[k] = observed
		case !awserr.IsNotFound(err): // otherwise it was deleted after it was listed
			out[k] = resource.Live{Err: err}
		}
	}
	addOthersNote(ctx, c, keys, out)
	return out
}

// listRules lists the rules that begin as all the keys do, by name.
func listRules(ctx context.Context, c *resource.Clients, keys []state.Key) (map[string]eventstypes.Rule, error) {
	in := &eventbridge.ListRulesInput{}
	if prefix := commonPrefix(keys); prefix != "" {
		in.NamePrefix = &prefix
	}
	out := map[string]eventstypes.Rule{}
	for {
		page, err := c.Events.ListRules(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Rules {
			out[sdk.ToString(r.Name)] = r
		}
		if sdk.ToString(page.NextToken) == "" {
			return out, nil
		}
		in.NextToken = page.NextToken
	}
}

func commonPrefix(keys []state.Key) string {
	if len(keys) == 0 {
		return ""
	}
	prefix := keys[0].Name
	for _, k := range keys[1:] {
		for !strings.HasPrefix(k.Name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}

func readRule(ctx context.Context, c *resource.Clients, r eventstypes.Rule) (resource.Live, error) {
	targets, err := listTargets(ctx, c, sdk.ToString(r.Name))
	if err != nil {
		return resource.Live{}, err
	}
	listed, err := c.Events.ListTagsForResource(ctx, &eventbridge.ListTagsForResourceInput{ResourceARN: r.Arn})
	if err != nil {
		return resource.Live{}, err
	}
	tags := make(map[string]string, len(listed.Tags))
	for _, t := range listed.Tags {
		tags[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	object := map[string]any{"state": string(r.State), "targets": targetObjects(targets), "tags": tag.Object(tags)}
	if pattern := sdk.ToString(r.EventPattern); pattern != "" {
		object["pattern"] = canonicalPattern(pattern)
	}
	object["schedule"] = cmp.Or(sdk.ToString(r.ScheduleExpression), noSchedule)
	for field, text := range map[string]*string{"description": r.Description, "roleArn": r.RoleArn} {
		if sdk.ToString(text) != "" {
			object[field] = *text
		}
	}
	return resource.Live{Object: object, UID: sdk.ToString(r.Arn), Tags: tags, Ours: c.Scope.Owns(tags)}, nil
}

// canonicalPattern reads an event pattern. The lists in it are alternatives,
// whose order means nothing; what is no JSON object stays as it is, and so
// differs from everything that is desired.
func canonicalPattern(pattern string) any {
	var out map[string]any
	if err := json.Unmarshal([]byte(pattern), &out); err != nil || out == nil {
		return pattern
	}
	sortLists(out)
	return out
}

func sortLists(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			sortLists(e)
		}
	case []any:
		for _, e := range v {
			sortLists(e)
		}
		slices.SortStableFunc(v, func(a, b any) int { return strings.Compare(written(a), written(b)) })
	}
}

// written is a canonical value as text, for sorting.
func written(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func listTargets(ctx context.Context, c *resource.Clients, rule string) ([]eventstypes.Target, error) {
	in := &eventbridge.ListTargetsByRuleInput{Rule: &rule}
	var out []eventstypes.Target
	for {
		page, err := c.Events.ListTargetsByRule(ctx, in)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Targets...)
		if sdk.ToString(page.NextToken) == "" {
			return out, nil
		}
		in.NextToken = page.NextToken
	}
}

// targetObject writes a target; its id, retries and dead letters are its own
// affair, the form in which the event arrives is not.
func targetObject(t eventstypes.Target) map[string]any {
	out := map[string]any{"arn": sdk.ToString(t.Arn)}
	switch {
	case t.Input != nil:
		out["input"] = "a constant"
	case t.InputPath != nil:
		out["input"] = "only " + *t.InputPath
	case t.InputTransformer != nil:
		out["input"] = "transformed"
	}
	return out
}

func targetObjects(targets []eventstypes.Target) []any {
	out := make([]any, len(targets))
	for i, t := range targets {
		out[i] = targetObject(t)
	}
	sortLists(out)
	return out
}

// Write implements resource.Kind.
func (Rules) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	name, have := desired.Key.Name, live.Object
	if slices.ContainsFunc([]string{"pattern", "schedule", "state"}, func(f string) bool { return !state.Equal(have[f], desired.Object[f]) }) {
		in := &eventbridge.PutRuleInput{
			Name: &name, State: eventstypes.RuleStateEnabled, EventPattern: sdk.String(written(desired.Object["pattern"])),
			Description: sdk.String("Fills the interruption queue of the EKS cluster " + c.Scope.Cluster + ". Made by Poolwright."),
		}
		if text, ok := have["description"].(string); ok {
			in.Description = &text
		}
		if arn, ok := have["roleArn"].(string); ok {
			in.RoleArn = &arn
		}
		if have == nil {
			in.Tags = ruleTags(tag.Declared(desired)) // of a rule that exists they would be passed over in silence
		}
		if _, err := c.Events.PutRule(ctx, in); err != nil {
			return err
		}
	}
	if !state.Equal(have["targets"], desired.Object["targets"]) {
		err := writeTargets(ctx, c, name, desired.Object["targets"])
		if have == nil && awserr.IsNotFound(err) {
			return awserr.NotPropagated(err) // the rule was made a moment ago
		}
		if err != nil {
			return err
		}
	}
	if have == nil {
		return nil
	}
	arn := sdk.String(c.Scope.ARN("events", "rule/"+name))
	set, drop := tag.Diff(desired, live.Tags)
	if len(set) > 0 {
		if _, err := c.Events.TagResource(ctx, &eventbridge.TagResourceInput{ResourceARN: arn, Tags: ruleTags(set)}); err != nil {
			return err
		}
	}
	if len(drop) > 0 {
		_, err := c.Events.UntagResource(ctx, &eventbridge.UntagResourceInput{ResourceARN: arn, TagKeys: drop})
		return err
	}
	return nil
}

func ruleTags(tags map[string]string) []eventstypes.Tag {
	out := make([]eventstypes.Tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, eventstypes.Tag{Key: sdk.String(k), Value: sdk.String(tags[k])})
	}
	return out
}

// writeTargets leaves a rule with the desired targets alone. What must go goes
// first: a rule has room for five.
func writeTargets(ctx context.Context, c *resource.Clients, rule string, desired any) error {
	have, err := listTargets(ctx, c, rule)
	if err != nil {
		return err
	}
	var missing []eventstypes.Target
	var undeclared []string
	for _, w := range desired.([]any) {
		same := slices.IndexFunc(have, func(t eventstypes.Target) bool { return state.Equal(targetObject(t), w) })
		if same >= 0 {
			have = slices.Delete(have, same, same+1)
			continue
		}
		missing = append(missing, eventstypes.Target{Id: sdk.String(RuleTarget), Arn: sdk.String(w.(map[string]any)["arn"].(string))})
	}
	for _, t := range have {
		// A target under our id is replaced, not removed: no event is lost.
		if len(missing) == 0 || sdk.ToString(t.Id) != RuleTarget {
			undeclared = append(undeclared, sdk.ToString(t.Id))
		}
	}
	if err := removeTargets(ctx, c, rule, undeclared); err != nil || len(missing) == 0 {
		return err
	}
	put, err := c.Events.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: &rule, Targets: missing})
	if err != nil {
		return err
	}
	for _, f := range put.FailedEntries {
		return fmt.Errorf("setting the target of rule %q: %s: %s", rule, sdk.ToString(f.ErrorCode), sdk.ToString(f.ErrorMessage))
	}
	return nil
}

// removeTargets takes targets from a rule; AWS takes at most a hundred at once.
func removeTargets(ctx context.Context, c *resource.Clients, rule string, ids []string) error {
	for some := range slices.Chunk(ids, 100) {
		removed, err := c.Events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: &rule, Ids: some})
		if err != nil {
			return err
		}
		for _, f := range removed.FailedEntries {
			return fmt.Errorf("removing target %q of rule %q: %s: %s", sdk.ToString(f.TargetId), rule, sdk.ToString(f.ErrorCode), sdk.ToString(f.ErrorMessage))
		}
	}
	return nil
}

// Remove empties the rule first: EventBridge keeps a rule that has targets.
func (Rules) Remove(ctx context.Context, c *resource.Clients, k state.Key, _ resource.Live) error {
	err := func() error {
		have, err := listTargets(ctx, c, k.Name)
		if err != nil {
			return err
		}
		var ids []string
		for _, t := range have {
			ids = append(ids, sdk.ToString(t.Id))
		}
		if err := removeTargets(ctx, c, k.Name, ids); err != nil {
			return err
		}
		_, err = c.Events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: sdk.String(k.Name)})
		return err
	}()
	if awserr.IsNotFound(err) {
		return nil
	}
	return err
}
