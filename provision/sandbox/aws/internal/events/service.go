// Package events is EventBridge: the default bus with its rules and their targets,
// of which only queues get events.
package events

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service is EventBridge in one account.
type Service struct {
	account  *api.Account
	queues   Queues
	passRole PassRole
	rules    []*rule // by name
}

// Queues takes what rules send to queues.
type Queues interface {
	// Deliver puts a body on the queue of an ARN, and reports whether there is
	// one that lets the rule do so.
	Deliver(queueARN, ruleARN, body string, now time.Time) bool
}

// PassRole is the request to IAM for giving a role to a service.
type PassRole func(role, service string) api.AuthorizationRequest

// New has no rules.
func New(account *api.Account, queues Queues, passRole PassRole) *Service {
	return &Service{account: account, queues: queues, passRole: passRole}
}

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.rules = api.Clones(svc.rules)
	for _, r := range out.rules {
		r.targets, r.tags = append([]target(nil), r.targets...), maps.Clone(r.tags)
	}
	return &out
}

// Table is what EventBridge can do here.
func (svc *Service) Table() api.Table {
	return api.Table{Operations: svc.operations(), Authorizations: svc.authorizations(), Required: required()}
}

// Create makes an enabled rule with one target.
func (svc *Service) Create(name, eventPattern, targetID, targetARN string) error {
	matching, err := parsePattern(eventPattern)
	if err != nil {
		return err
	}
	svc.addRule(&rule{name: name, state: ruleEnabled, tags: map[string]string{}, pattern: eventPattern, matching: matching,
		targets: []target{{ID: targetID, ARN: targetARN}}})
	return nil
}

// Event is an event of an AWS service.
type Event struct {
	Source, DetailType string
	Resource           string // what it is about
	Detail             map[string]any
}

// Publish puts an event on the default bus: every enabled rule whose pattern
// matches sends it to its targets. The caller holds the lock.
func (svc *Service) Publish(now time.Time, e Event) {
	if len(svc.rules) == 0 {
		return
	}
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": svc.account.NewID("event"), "account": svc.account.ID, "region": svc.account.Region, "time": now.UTC().Format(time.RFC3339),
		"source": e.Source, "detail-type": e.DetailType, "detail": e.Detail, "resources": []string{e.Resource},
	})
	var event any
	if err != nil || json.Unmarshal(body, &event) != nil {
		return // strings only: it cannot fail
	}
	for _, r := range svc.rules {
		if r.state != ruleEnabled || !r.matching.matches(event, true) {
			continue
		}
		for _, t := range r.targets {
			svc.deliver(r, t, string(body), now)
		}
	}
}

// deliver sends an event to a target, or to its queue of dead letters. As on
// AWS reports nothing when neither is there and lets EventBridge in.
func (svc *Service) deliver(r *rule, t target, body string, now time.Time) {
	if !svc.queues.Deliver(t.ARN, svc.ruleARN(r.name), t.form(body), now) && t.Dead != nil {
		svc.queues.Deliver(t.Dead.ARN, svc.ruleARN(r.name), body, now)
	}
}
