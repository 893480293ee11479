package policy

import (
	"fmt"
	"strings"
)

// Request is one authorization request: an action on a resource. A call may need
// several.
type Request struct {
	// Action is such as ec2:RunInstances.
	Action string
	// Resource is an ARN, or "*" for an action without resource types.
	Resource string
	// Context holds the condition keys that there are, such as
	// aws:RequestTag/team, with their values. A key without values is absent.
	Context map[string][]string
}

// Decision is IAM's decision on a Request.
type Decision struct {
	Request Request
	// Allowed is true if a statement allows the request, none denies it, and
	// the boundary, where there is one, allows it, too.
	Allowed bool
	// Statement is the Sid (or "number 3") of the statement that allowed or
	// explicitly denied the request; empty if none did.
	Statement string
	// Why ends the sentence "because …" of a denial, as AWS phrases it; empty for what
	// is allowed.
	Why string
}

// String is one line: what was decided of what, and by which statement.
func (d Decision) String() string {
	if d.Allowed {
		return fmt.Sprintf("%s on %s is allowed by statement %s", d.Request.Action, d.Request.Resource, d.Statement)
	}
	text := fmt.Sprintf("%s on %s is denied because %s", d.Request.Action, d.Request.Resource, d.Why)
	if d.Statement != "" {
		text += " (statement " + d.Statement + ")"
	}
	return text
}

// Evaluate decides a request by all the policies of an identity and its
// permissions boundary, nil for none.
func Evaluate(docs []Document, boundary *Document, r Request) Decision {
	context := make(map[string][]string, len(r.Context))
	for key, values := range r.Context {
		key = strings.ToLower(key)
		context[key] = append(context[key], values...)
	}
	d := Decision{Request: r}
	allow, deny := "", ""
	for _, doc := range docs {
		a, n := doc.evaluate(r, context)
		allow, deny = first(allow, a), first(deny, n)
	}
	bounded := boundary == nil
	if !bounded {
		a, n := boundary.evaluate(r, context)
		bounded = a != ""
		if deny == "" && n != "" {
			d.Statement, d.Why = n, "of an explicit deny in a permissions boundary"
			return d
		}
	}
	switch {
	case deny != "":
		d.Statement, d.Why = deny, "of an explicit deny in an identity-based policy"
	case allow == "":
		d.Why = "no identity-based policy allows the " + r.Action + " action"
	case !bounded:
		d.Why = "no permissions boundary allows the " + r.Action + " action"
	default:
		d.Allowed, d.Statement = true, allow
	}
	return d
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// evaluate names the first statement of the document that allows the request, and
// the first that denies it.
func (doc Document) evaluate(r Request, context map[string][]string) (allow, deny string) {
	for _, s := range doc.statements {
		if !s.applies(r, context) {
			continue
		}
		if s.deny {
			deny = first(deny, s.name)
		} else {
			allow = first(allow, s.name)
		}
	}
	return allow, deny
}

func (s statement) applies(r Request, context map[string][]string) bool {
	if !s.actions.cover(r.Action, action) || !s.resources.cover(r.Resource, resource) {
		return false
	}
	for _, c := range s.conditions {
		if !c.isMet(context) {
			return false
		}
	}
	return true
}

// resource matches a resource; an action without resources is covered by "*"
// only.
func resource(pattern, name string) bool {
	return pattern == "*" || resourceLike(pattern, name)
}
