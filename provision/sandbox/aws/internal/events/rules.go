package events

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
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

func (svc *Service) operations() map[string]api.Operation {
	return map[string]api.Operation{
		"PutRule":               {Run: svc.putRule},
		"DescribeRule":          {Read: true, Run: svc.describeRule},
		"ListRules":             {Read: true, Run: svc.listRules},
		"EnableRule":            {Run: svc.switchRule(ruleEnabled)},
		"DisableRule":           {Run: svc.switchRule(ruleDisabled)},
		"DeleteRule":            {Run: svc.deleteRule},
		"PutTargets":            {Run: svc.putTargets},
		"RemoveTargets":         {Run: svc.removeTargets},
		"ListTargetsByRule":     {Read: true, Run: svc.listTargets},
		"ListRuleNamesByTarget": {Read: true, Run: svc.listRuleNames},
		"TagResource":           {Run: svc.tagRule},
		"UntagResource":         {Run: svc.untagRule},
		"ListTagsForResource":   {Read: true, Run: svc.listRuleTags},
	}
}

func (svc *Service) ruleARN(name string) string { return svc.account.ARN("events", "rule/"+name) }

func (svc *Service) addRule(r *rule) {
	svc.rules = append(svc.rules, r)
	slices.SortFunc(svc.rules, func(a, b *rule) int { return strings.Compare(a.name, b.name) })
}

func (svc *Service) rule(name string) *rule {
	for _, r := range svc.rules {
		if r.name == name {
			return r
		}
	}
	return nil
}

// checkBus refuses every bus but the default one, by name or ARN; "" is it.
func (svc *Service) checkBus(bus string) error {
	if bus == "" || bus == "default" || bus == svc.account.ARN("events", "event-bus/default") {
		return nil
	}
	return api.Refuse("ResourceNotFoundException", "Event bus %s does not exist.", bus)
}

// onRule is a request's reference to a rule.
type onRule struct {
	Name         string
	EventBusName string
}

func (svc *Service) findRule(name, bus string) (*rule, error) {
	if err := svc.checkBus(bus); err != nil {
		return nil, err
	}
	if r := svc.rule(name); r != nil {
		return r, nil
	}
	return nil, api.Refuse("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
}

// tagPair is a tag as EventBridge writes it.
type tagPair struct{ Key, Value string }

// pairTags reads a list of tags.
func pairTags(pairs []tagPair) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range pairs {
		if _, twice := out[p.Key]; twice {
			return nil, api.Refuse("ValidationException", "Duplicate tag key '%s' specified.", p.Key)
		}
		out[p.Key] = p.Value
	}
	return out, nil
}

// putRule makes a rule, or replaces all of one but its targets and tags: what
// the request leaves out is gone. Tags count only for a new rule.
func (svc *Service) putRule(in *api.Call) (any, error) {
	var input struct {
		Name, EventBusName, EventPattern, State, Description string
		RoleArn, ScheduleExpression                          string
		Tags                                                 []tagPair
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if err := svc.checkBus(input.EventBusName); err != nil {
		return nil, err
	}
	if input.State == "" {
		input.State = ruleEnabled
	}
	switch {
	case !ruleNameForm.MatchString(input.Name):
		return nil, api.Refuse("ValidationException", "Value '%s' at 'name' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\.\\-_A-Za-z0-9]+", input.Name)
	case input.State != ruleEnabled && input.State != ruleDisabled:
		return nil, api.Refuse("ValidationException", "Value '%s' at 'state' failed to satisfy constraint: Member must satisfy enum value set: [ENABLED, DISABLED]", input.State)
	case utf8.RuneCountInString(input.Description) > 512:
		return nil, api.Refuse("ValidationException", "Value at 'description' failed to satisfy constraint: Member must have length less than or equal to 512")
	case len(input.ScheduleExpression) > 256:
		return nil, api.Refuse("ValidationException", "Value at 'scheduleExpression' failed to satisfy constraint: Member must have length less than or equal to 256")
	case len(input.EventPattern) > mostPatternChars:
		return nil, api.Refuse("ValidationException", "1 validation error detected: Value at 'eventPattern' failed to satisfy constraint: Member must have length less than or equal to %d", mostPatternChars)
	case input.EventPattern == "":
		return nil, api.Refuse("ValidationException", "Parameter(s) EventPattern or ScheduleExpression must be specified.")
	}
	matching, err := parsePattern(input.EventPattern)
	if err != nil {
		return nil, err
	}
	given, err := pairTags(input.Tags)
	if err != nil {
		return nil, err
	}
	tags, problem := api.AddTags(nil, given)
	if problem != "" {
		return nil, api.Refuse("ValidationException", "%s", problem)
	}
	r := svc.rule(input.Name)
	if r == nil {
		r = &rule{name: input.Name, tags: tags}
		svc.addRule(r)
	}
	r.description, r.pattern, r.matching, r.state = input.Description, input.EventPattern, matching, input.State
	r.role, r.schedule = input.RoleArn, input.ScheduleExpression
	return map[string]string{"RuleArn": svc.ruleARN(r.name)}, nil
}

// ruleResponse is a rule as DescribeRule and ListRules show it.
func (svc *Service) ruleResponse(r *rule) map[string]string {
	out := map[string]string{
		"Name": r.name, "Arn": svc.ruleARN(r.name), "EventPattern": r.pattern, "State": r.state, "EventBusName": "default",
	}
	for field, value := range map[string]string{"Description": r.description, "RoleArn": r.role, "ScheduleExpression": r.schedule} {
		if value != "" {
			out[field] = value
		}
	}
	return out
}

func (svc *Service) describeRule(in *api.Call) (any, error) {
	var input onRule
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	r, err := svc.findRule(input.Name, input.EventBusName)
	if err != nil {
		return nil, err
	}
	out := svc.ruleResponse(r)
	out["CreatedBy"] = svc.account.ID
	return out, nil
}

// listing is how EventBridge's lists are requested.
type listing struct {
	EventBusName, NextToken string
	Limit                   *int
}

// listed cuts sorted names to a page under that key.
func (svc *Service) listed(in *api.Call, input listing, names []string) (rows []string, next map[string]any, err error) {
	if err := svc.checkBus(input.EventBusName); err != nil {
		return nil, nil, err
	}
	n := 100
	if input.Limit != nil {
		n = *input.Limit
	}
	if n < 1 || n > 100 {
		return nil, nil, api.Refuse("ValidationException", "Value '%d' at 'limit' failed to satisfy constraint: Member must be between 1 and 100", n)
	}
	rows, token, err := in.Window(names, input.NextToken, n)
	if err != nil {
		return nil, nil, api.Refuse("ValidationException", "%s", err)
	}
	next = map[string]any{}
	if token != "" {
		next["NextToken"] = token
	}
	return rows, next, nil
}

func (svc *Service) listRules(in *api.Call) (any, error) {
	var input struct {
		listing
		NamePrefix string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range svc.rules {
		if strings.HasPrefix(r.name, input.NamePrefix) {
			names = append(names, r.name)
		}
	}
	rows, out, err := svc.listed(in, input.listing, names)
	if err != nil {
		return nil, err
	}
	rules := []map[string]string{}
	for _, name := range rows {
		rules = append(rules, svc.ruleResponse(svc.rule(name)))
	}
	out["Rules"] = rules
	return out, nil
}

func (svc *Service) switchRule(to string) func(*api.Call) (any, error) {
	return func(in *api.Call) (any, error) {
		var input onRule
		if err := in.Into(&input); err != nil {
			return nil, err
		}
		r, err := svc.findRule(input.Name, input.EventBusName)
		if err != nil {
			return nil, err
		}
		r.state = to
		return map[string]any{}, nil
	}
}

// deleteRule takes a rule without targets away; one that is gone already is no
// error, as on AWS.
func (svc *Service) deleteRule(in *api.Call) (any, error) {
	var input struct {
		onRule
		Force bool
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if err := svc.checkBus(input.EventBusName); err != nil {
		return nil, err
	}
	if r := svc.rule(input.Name); r != nil && len(r.targets) > 0 {
		return nil, api.Refuse("ValidationException", "Rule can't be deleted since it has targets.")
	}
	svc.rules = slices.DeleteFunc(svc.rules, func(r *rule) bool { return r.name == input.Name })
	return map[string]any{}, nil
}

// aboutRule reads a request, and finds the rule whose ARN is then in it.
func (svc *Service) aboutRule(in *api.Call, input any, arn *string) (*rule, error) {
	if err := in.Into(input); err != nil {
		return nil, err
	}
	name, ok := strings.CutPrefix(*arn, svc.ruleARN(""))
	if !ok {
		return nil, api.Refuse("ValidationException", "Provided Arn %s is not that of a rule here.", *arn)
	}
	return svc.findRule(name, "")
}

func (svc *Service) tagRule(in *api.Call) (any, error) {
	var input struct {
		ResourceARN string
		Tags        []tagPair
	}
	r, err := svc.aboutRule(in, &input, &input.ResourceARN)
	if err != nil {
		return nil, err
	}
	more, err := pairTags(input.Tags)
	if err != nil {
		return nil, err
	}
	tags, problem := api.AddTags(r.tags, more)
	if problem != "" {
		return nil, api.Refuse("ValidationException", "%s", problem)
	}
	r.tags = tags
	return map[string]any{}, nil
}

func (svc *Service) untagRule(in *api.Call) (any, error) {
	var input struct {
		ResourceARN string
		TagKeys     []string
	}
	r, err := svc.aboutRule(in, &input, &input.ResourceARN)
	if err != nil {
		return nil, err
	}
	for _, k := range input.TagKeys {
		delete(r.tags, k)
	}
	return map[string]any{}, nil
}

func (svc *Service) listRuleTags(in *api.Call) (any, error) {
	var input struct{ ResourceARN string }
	r, err := svc.aboutRule(in, &input, &input.ResourceARN)
	if err != nil {
		return nil, err
	}
	pairs := []tagPair{}
	for _, k := range slices.Sorted(maps.Keys(r.tags)) {
		pairs = append(pairs, tagPair{k, r.tags[k]})
	}
	return map[string]any{"Tags": pairs}, nil
}
