package sqs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// queuePolicy is a queue's resource policy, as far as it decides who may send:
// statements without the Not… elements, which it refuses.
type queuePolicy struct {
	Version   string
	ID        string `json:"Id"`
	Statement list[statement]
}

type statement struct {
	Sid       string
	Effect    string
	Principal principals
	Action    list[string]
	Resource  list[string]
	Condition map[string]map[string]list[string] // operator, key, values
}

// list is a JSON value or several of them: policies may leave the brackets out.
type list[T any] []T

// UnmarshalJSON reads one value or a list of them; unknown fields are errors.
func (l *list[T]) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		var many []T
		err := api.DecodeStrict(data, &many)
		*l = many
		return err
	}
	var one T
	err := api.DecodeStrict(data, &one)
	*l = list[T]{one}
	return err
}

// principals are those that a statement is about: everybody, or some by kind.
type principals struct {
	everybody bool
	byKind    map[string]list[string] // AWS, Service, Federated
}

// UnmarshalJSON reads "*" or an object.
func (p *principals) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		p.everybody = text == "*"
		if !p.everybody {
			return fmt.Errorf("principal %q is not *", text)
		}
		return nil
	}
	return api.DecodeStrict(data, &p.byKind)
}

// parseQueuePolicy reads a policy; its errors name what is wrong with it.
func parseQueuePolicy(text string) (*queuePolicy, error) {
	p := &queuePolicy{}
	if err := api.DecodeStrict([]byte(text), p); err != nil {
		return nil, err
	}
	if p.Version != "" && p.Version != "2012-10-17" && p.Version != "2008-10-17" {
		return nil, fmt.Errorf("version %q is neither 2012-10-17 nor 2008-10-17", p.Version)
	}
	if len(p.Statement) == 0 {
		return nil, errors.New("it has no statement")
	}
	for _, s := range p.Statement {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("statement %q: %w", s.Sid, err)
		}
	}
	return p, nil
}

func (s statement) check() error {
	switch {
	case s.Effect != "Allow" && s.Effect != "Deny":
		return fmt.Errorf("effect %q is neither Allow nor Deny", s.Effect)
	case !s.Principal.everybody && len(s.Principal.byKind) == 0:
		return errors.New("it has no principal")
	case len(s.Action) == 0:
		return errors.New("it has no action")
	case len(s.Resource) == 0:
		return errors.New("it has no resource")
	}
	for _, a := range s.Action {
		if a != "*" && !strings.HasPrefix(strings.ToLower(a), "sqs:") {
			return fmt.Errorf("action %q is not of sqs", a)
		}
	}
	for kind := range s.Principal.byKind {
		if !slices.Contains([]string{"AWS", "Service", "Federated", "CanonicalUser"}, kind) {
			return fmt.Errorf("principal of the unknown kind %q", kind)
		}
	}
	return nil
}

// sending is a service that is to put a message on a queue.
type sending struct {
	service string // events.amazonaws.com
	queue   string // the queue's ARN
	keys    map[string]string
}

// allows reports whether the policy lets it: some statement allows and none
// denies. A condition that cannot be evaluated keeps an Allow from holding and lets a
// Deny hold.
func (p *queuePolicy) allows(s sending) bool {
	if p == nil {
		return false
	}
	allowed := false
	for _, st := range p.Statement {
		if !st.covers(s) {
			continue
		}
		hold, evaluated := st.conditionsMatch(s.keys)
		switch {
		case !hold:
		case st.Effect == "Deny":
			return false
		default:
			allowed = allowed || evaluated
		}
	}
	return allowed
}

func (s statement) covers(want sending) bool {
	anyOf := func(patterns []string, v string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return query.Wildcard(p, v) })
	}
	who := s.Principal.everybody || slices.Contains(s.Principal.byKind["AWS"], "*") || slices.Contains(s.Principal.byKind["Service"], want.service)
	act := slices.ContainsFunc(s.Action, func(a string) bool { return query.Wildcard(strings.ToLower(a), "sqs:sendmessage") })
	return who && act && anyOf(s.Resource, want.queue)
}

// conditionsMatch reports whether no condition fails; evaluated is false if one of
// them uses an operator or a key that is not known here.
func (s statement) conditionsMatch(keys map[string]string) (hold, evaluated bool) {
	hold, evaluated = true, true
	for operator, tests := range s.Condition {
		for key, desired := range tests {
			have, known := keys[strings.ToLower(key)]
			var match func(want string) bool
			switch operator {
			case "StringEquals":
				match = func(want string) bool { return want == have }
			case "Bool":
				match = func(want string) bool { return strings.EqualFold(want, have) }
			case "StringLike":
				match = func(want string) bool { return query.Wildcard(want, have) }
			case "ArnEquals", "ArnLike":
				match = func(want string) bool { return arnMatches(want, have) }
			}
			if !known || match == nil {
				evaluated = false
				continue
			}
			hold = hold && slices.ContainsFunc(desired, match)
		}
	}
	return hold, evaluated
}

// arnMatches compares two ARNs part by part: in a condition no wildcard covers a colon
// of the first five parts.
func arnMatches(pattern, arn string) bool {
	p, a := strings.SplitN(pattern, ":", 6), strings.SplitN(arn, ":", 6)
	return slices.EqualFunc(p, a, query.Wildcard)
}

// InterruptionPolicy is the policy of the queue that EventBridge's rules lead
// to, as Karpenter's getting-started stack writes it.
func InterruptionPolicy(queueARN string) string {
	return fmt.Sprintf(`{"Version":"2012-10-17","Statement":[`+
		`{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":%[1]q},`+
		`{"Sid":"DenyHTTP","Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":%[1]q,"Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`, queueARN)
}
