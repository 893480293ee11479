package aws

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The states of a rule.
const (
	ruleEnabled  = "ENABLED"
	ruleDisabled = "DISABLED"
)

// rule sends the events that match its pattern to its targets.
type rule struct {
	name, description string
	role, schedule    string // shown only: nothing is sent by the clock here
	pattern           string // as it was given
	matching          pattern
	state             string
	targets           []target // by id
	tags              map[string]string
}

// mostPatternChars is EventBridge's bound for an event pattern.
const mostPatternChars = 4096

var ruleNameForm = regexp.MustCompile(`^[.\-_A-Za-z0-9]{1,64}$`)

func eventsOperations() map[string]operation {
	return map[string]operation{
		"PutRule":               {run: putRule},
		"DescribeRule":          {read: true, run: describeRule},
		"ListRules":             {read: true, run: listRules},
		"EnableRule":            {run: switchRule(ruleEnabled)},
		"DisableRule":           {run: switchRule(ruleDisabled)},
		"DeleteRule":            {run: deleteRule},
		"PutTargets":            {run: putTargets},
		"RemoveTargets":         {run: removeTargets},
		"ListTargetsByRule":     {read: true, run: listTargets},
		"ListRuleNamesByTarget": {read: true, run: listRuleNames},
		"TagResource":           {run: tagRule},
		"UntagResource":         {run: untagRule},
		"ListTagsForResource":   {read: true, run: listRuleTags},
	}
}

func (c *Cloud) ruleARN(name string) string { return c.localARN("events", "rule/"+name) }

func (st *state) addRule(r *rule) {
	st.rules = append(st.rules, r)
	slices.SortFunc(st.rules, func(a, b *rule) int { return strings.Compare(a.name, b.name) })
}

func (st *state) rule(name string) *rule {
	for _, r := range st.rules {
		if r.name == name {
			return r
		}
	}
	return nil
}

// checkBus refuses every bus but the default one, by name or ARN; "" is it.
func (in *call) checkBus(bus string) error {
	if bus == "" || bus == "default" || bus == in.cloud.localARN("events", "event-bus/default") {
		return nil
	}
	return refuse("ResourceNotFoundException", "Event bus %s does not exist.", bus)
}

// onRule is a request's reference to a rule.
type onRule struct {
	Name         string
	EventBusName string
}

func (in *call) findRule(name, bus string) (*rule, error) {
	if err := in.checkBus(bus); err != nil {
		return nil, err
	}
	if r := in.st.rule(name); r != nil {
		return r, nil
	}
	return nil, refuse("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
}

// tagPair is a tag as EventBridge writes it.
type tagPair struct{ Key, Value string }

// pairTags reads a list of tags.
func pairTags(pairs []tagPair) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range pairs {
		if _, twice := out[p.Key]; twice {
			return nil, refuse("ValidationException", "Duplicate tag key '%s' specified.", p.Key)
		}
		out[p.Key] = p.Value
	}
	return out, nil
}

// putRule makes a rule, or replaces all of one but its targets and tags: what
// the request leaves out is gone. Tags count only for a new rule.
func putRule(in *call) (any, error) {
	var ask struct {
		Name, EventBusName, EventPattern, State, Description string
		RoleArn, ScheduleExpression                          string
		Tags                                                 []tagPair
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	if err := in.checkBus(ask.EventBusName); err != nil {
		return nil, err
	}
	if ask.State == "" {
		ask.State = ruleEnabled
	}
	switch {
	case !ruleNameForm.MatchString(ask.Name):
		return nil, refuse("ValidationException", "Value '%s' at 'name' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\.\\-_A-Za-z0-9]+", ask.Name)
	case ask.State != ruleEnabled && ask.State != ruleDisabled:
		return nil, refuse("ValidationException", "Value '%s' at 'state' failed to satisfy constraint: Member must satisfy enum value set: [ENABLED, DISABLED]", ask.State)
	case len(ask.Description) > 512:
		return nil, refuse("ValidationException", "Value at 'description' failed to satisfy constraint: Member must have length less than or equal to 512")
	case len(ask.EventPattern) > mostPatternChars:
		return nil, refuse("ValidationException", "1 validation error detected: Value at 'eventPattern' failed to satisfy constraint: Member must have length less than or equal to %d", mostPatternChars)
	case ask.EventPattern == "":
		return nil, refuse("ValidationException", "Parameter(s) EventPattern or ScheduleExpression must be specified.")
	}
	matching, err := parsePattern(ask.EventPattern)
	if err != nil {
		return nil, err
	}
	given, err := pairTags(ask.Tags)
	if err != nil {
		return nil, err
	}
	tags, problem := tagged(nil, given)
	if problem != "" {
		return nil, refuse("ValidationException", "%s", problem)
	}
	r := in.st.rule(ask.Name)
	if r == nil {
		r = &rule{name: ask.Name, tags: tags}
		in.st.addRule(r)
	}
	r.description, r.pattern, r.matching, r.state = ask.Description, ask.EventPattern, matching, ask.State
	r.role, r.schedule = ask.RoleArn, ask.ScheduleExpression
	return map[string]string{"RuleArn": in.cloud.ruleARN(r.name)}, nil
}

// ruleResponse is a rule as DescribeRule and ListRules show it.
func (in *call) ruleResponse(r *rule) map[string]string {
	out := map[string]string{
		"Name": r.name, "Arn": in.cloud.ruleARN(r.name), "EventPattern": r.pattern, "State": r.state, "EventBusName": "default",
	}
	for field, value := range map[string]string{"Description": r.description, "RoleArn": r.role, "ScheduleExpression": r.schedule} {
		if value != "" {
			out[field] = value
		}
	}
	return out
}

func describeRule(in *call) (any, error) {
	var ask onRule
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	r, err := in.findRule(ask.Name, ask.EventBusName)
	if err != nil {
		return nil, err
	}
	out := in.ruleResponse(r)
	out["CreatedBy"] = in.cloud.cfg.Account
	return out, nil
}

// listing is how EventBridge's lists are asked for.
type listing struct {
	EventBusName, NextToken string
	Limit                   *int
}

// listed cuts sorted names to a page under that key.
func (in *call) listed(ask listing, names []string) (rows []string, next map[string]any, err error) {
	if err := in.checkBus(ask.EventBusName); err != nil {
		return nil, nil, err
	}
	n := 100
	if ask.Limit != nil {
		n = *ask.Limit
	}
	if n < 1 || n > 100 {
		return nil, nil, refuse("ValidationException", "Value '%d' at 'limit' failed to satisfy constraint: Member must be between 1 and 100", n)
	}
	rows, token, err := in.window(names, ask.NextToken, n)
	if err != nil {
		return nil, nil, refuse("ValidationException", "%s", err)
	}
	next = map[string]any{}
	if token != "" {
		next["NextToken"] = token
	}
	return rows, next, nil
}

func listRules(in *call) (any, error) {
	var ask struct {
		listing
		NamePrefix string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range in.st.rules {
		if strings.HasPrefix(r.name, ask.NamePrefix) {
			names = append(names, r.name)
		}
	}
	rows, out, err := in.listed(ask.listing, names)
	if err != nil {
		return nil, err
	}
	rules := []map[string]string{}
	for _, name := range rows {
		rules = append(rules, in.ruleResponse(in.st.rule(name)))
	}
	out["Rules"] = rules
	return out, nil
}

func switchRule(to string) func(*call) (any, error) {
	return func(in *call) (any, error) {
		var ask onRule
		if err := in.into(&ask); err != nil {
			return nil, err
		}
		r, err := in.findRule(ask.Name, ask.EventBusName)
		if err != nil {
			return nil, err
		}
		r.state = to
		return map[string]any{}, nil
	}
}

// deleteRule takes a rule without targets away; one that is gone already is no
// error, as on AWS.
func deleteRule(in *call) (any, error) {
	var ask struct {
		onRule
		Force bool
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	if err := in.checkBus(ask.EventBusName); err != nil {
		return nil, err
	}
	if r := in.st.rule(ask.Name); r != nil && len(r.targets) > 0 {
		return nil, refuse("ValidationException", "Rule can't be deleted since it has targets.")
	}
	in.st.rules = slices.DeleteFunc(in.st.rules, func(r *rule) bool { return r.name == ask.Name })
	return map[string]any{}, nil
}

// aboutRule reads a request, and finds the rule whose ARN is then in it.
func (in *call) aboutRule(ask any, arn *string) (*rule, error) {
	if err := in.into(ask); err != nil {
		return nil, err
	}
	name, ok := strings.CutPrefix(*arn, in.cloud.ruleARN(""))
	if !ok {
		return nil, refuse("ValidationException", "Provided Arn %s is not that of a rule here.", *arn)
	}
	return in.findRule(name, "")
}

func tagRule(in *call) (any, error) {
	var ask struct {
		ResourceARN string
		Tags        []tagPair
	}
	r, err := in.aboutRule(&ask, &ask.ResourceARN)
	if err != nil {
		return nil, err
	}
	more, err := pairTags(ask.Tags)
	if err != nil {
		return nil, err
	}
	tags, problem := tagged(r.tags, more)
	if problem != "" {
		return nil, refuse("ValidationException", "%s", problem)
	}
	r.tags = tags
	return map[string]any{}, nil
}

func untagRule(in *call) (any, error) {
	var ask struct {
		ResourceARN string
		TagKeys     []string
	}
	r, err := in.aboutRule(&ask, &ask.ResourceARN)
	if err != nil {
		return nil, err
	}
	for _, k := range ask.TagKeys {
		delete(r.tags, k)
	}
	return map[string]any{}, nil
}

func listRuleTags(in *call) (any, error) {
	var ask struct{ ResourceARN string }
	r, err := in.aboutRule(&ask, &ask.ResourceARN)
	if err != nil {
		return nil, err
	}
	pairs := []tagPair{}
	for _, k := range slices.Sorted(maps.Keys(r.tags)) {
		pairs = append(pairs, tagPair{k, r.tags[k]})
	}
	return map[string]any{"Tags": pairs}, nil
}
