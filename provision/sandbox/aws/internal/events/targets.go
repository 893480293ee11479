package events

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// mostTargets is AWS's bound for one rule.
const mostTargets = 5

var (
	targetIDForm  = regexp.MustCompile(`^[.\-_A-Za-z0-9]{1,64}$`)
	targetARNForm = regexp.MustCompile(`^arn:[\w-]+:[\w-]+:[\w-]*:\d*:.+$`)
)

// target is where a rule sends its events. Only queues get them. Settings that
// it does not have, such as InputTransformer, are refused.
type target struct {
	ID        string          `json:"Id"`
	ARN       string          `json:"Arn"`
	Input     string          `json:",omitempty"` // instead of the event
	InputPath string          `json:",omitempty"` // the part of the event that is sent
	Dead      *deadLetters    `json:"DeadLetterConfig,omitempty"`
	Retries   json.RawMessage `json:"RetryPolicy,omitempty"` // nothing is sent twice here
}

// deadLetters is the queue for events that a target does not take.
type deadLetters struct {
	ARN string `json:"Arn,omitempty"`
}

var inputPathForm = regexp.MustCompile(`^\$(\.[\w-]+)*$`)

// form writes an event as the target takes it; a part that the event lacks is null.
func (t target) form(body string) string {
	if t.Input != "" {
		return t.Input
	}
	if t.InputPath == "" {
		return body
	}
	var part any
	if err := json.Unmarshal([]byte(body), &part); err != nil {
		return body
	}
	for _, name := range strings.Split(t.InputPath, ".")[1:] {
		object, _ := part.(map[string]any)
		part = object[name]
	}
	text, err := json.Marshal(part)
	if err != nil {
		return body
	}
	return string(text)
}

// outOfBounds is the member of a target that is not as EventBridge's model has it, for which
// the whole call fails; "" without.
func (t target) outOfBounds() string {
	switch {
	case !targetIDForm.MatchString(t.ID):
		return "id"
	case utf8.RuneCountInString(t.Input) > 8192:
		return "input"
	case len(t.InputPath) > 256:
		return "inputPath"
	}
	return ""
}

// problem is what else is wrong with a target, "" if nothing is.
func (t target) problem() string {
	switch {
	case !targetARNForm.MatchString(t.ARN):
		return fmt.Sprintf("Parameter %s is not valid. Reason: Provided Arn is not in correct format.", t.ARN)
	case t.Input != "" && t.InputPath != "":
		return fmt.Sprintf("Only one of Input, InputPath, or InputTransformer must be provided for target %s.", t.ID)
	case t.Input != "" && !json.Valid([]byte(t.Input)):
		return fmt.Sprintf("JSON syntax error in input for target %s.", t.ID)
	case t.InputPath != "" && !inputPathForm.MatchString(t.InputPath):
		return fmt.Sprintf("Invalid InputPath for target %s; the emulator emulates paths like $.detail.state.", t.ID)
	}
	return ""
}

// failedEntry is a target that could not be put or removed; the call as a whole
// succeeds.
type failedEntry struct {
	TargetID     string `json:"TargetId"`
	ErrorCode    string
	ErrorMessage string
}

func entries(failed []failedEntry) map[string]any {
	if failed == nil {
		failed = []failedEntry{}
	}
	return map[string]any{"FailedEntryCount": len(failed), "FailedEntries": failed}
}

// putTargets adds targets, or replaces those of the same id.
func (svc *Service) putTargets(in *api.Call) (any, error) {
	var input struct {
		Rule, EventBusName string
		Targets            []target
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	r, err := svc.findRule(input.Rule, input.EventBusName)
	if err != nil {
		return nil, err
	}
	if len(input.Targets) == 0 {
		return nil, api.Refuse("ValidationException", "Value at 'targets' failed to satisfy constraint: Member must have length greater than or equal to 1")
	}
	next := slices.Clone(r.targets)
	var failed []failedEntry
	for n, t := range input.Targets {
		if member := t.outOfBounds(); member != "" {
			return nil, api.Refuse("ValidationException", "1 validation error detected: Value at 'targets.%d.member.%s' failed to satisfy constraint: its length or its characters", n+1, member)
		}
		if problem := t.problem(); problem != "" {
			failed = append(failed, failedEntry{t.ID, "ValidationException", problem})
			continue
		}
		next = slices.DeleteFunc(next, func(o target) bool { return o.ID == t.ID })
		next = append(next, t)
	}
	if len(next) > mostTargets {
		return nil, api.Refuse("LimitExceededException", "The requested resource exceeds the maximum number allowed: a rule has at most %d targets.", mostTargets)
	}
	slices.SortFunc(next, func(a, b target) int { return strings.Compare(a.ID, b.ID) })
	r.targets = next
	return entries(failed), nil
}

func (svc *Service) removeTargets(in *api.Call) (any, error) {
	var input struct {
		Rule, EventBusName string
		Ids                []string
		Force              bool
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	r, err := svc.findRule(input.Rule, input.EventBusName)
	if err != nil {
		return nil, err
	}
	if len(input.Ids) == 0 {
		return nil, api.Refuse("ValidationException", "Value at 'ids' failed to satisfy constraint: Member must have length greater than or equal to 1")
	}
	var failed []failedEntry
	next := slices.Clone(r.targets)
	for _, id := range input.Ids {
		before := len(next)
		next = slices.DeleteFunc(next, func(t target) bool { return t.ID == id })
		if len(next) == before {
			failed = append(failed, failedEntry{id, "ResourceNotFoundException", fmt.Sprintf("Rule '%s' does not have a target with the Id '%s'.", r.name, id)})
		}
	}
	r.targets = next
	return entries(failed), nil
}

func (svc *Service) listTargets(in *api.Call) (any, error) {
	var input struct {
		listing
		Rule string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	r, err := svc.findRule(input.Rule, input.EventBusName)
	if err != nil {
		return nil, err
	}
	byID, ids := map[string]target{}, []string{}
	for _, t := range r.targets {
		byID[t.ID], ids = t, append(ids, t.ID)
	}
	rows, out, err := svc.listed(in, input.listing, ids)
	if err != nil {
		return nil, err
	}
	targets := []target{}
	for _, id := range rows {
		targets = append(targets, byID[id])
	}
	out["Targets"] = targets
	return out, nil
}

func (svc *Service) listRuleNames(in *api.Call) (any, error) {
	var input struct {
		listing
		TargetArn string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	var names []string
	for _, r := range svc.rules {
		if slices.ContainsFunc(r.targets, func(t target) bool { return t.ARN == input.TargetArn }) {
			names = append(names, r.name)
		}
	}
	rows, out, err := svc.listed(in, input.listing, names)
	if err != nil {
		return nil, err
	}
	if rows == nil {
		rows = []string{}
	}
	out["RuleNames"] = rows
	return out, nil
}
