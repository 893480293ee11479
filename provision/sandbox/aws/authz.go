package aws

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

// authorization says what a call asks of IAM: which actions, on what. The
// tables of them lie in the files authz_*.go; there is a line for every
// operation that is played, empty only where AWS asks for nothing.
type authorization func(in *call) []authorizationRequest

// authorizationRequest is one thing that a call asks of IAM.
type authorizationRequest struct {
	action, resource string
	tags             map[string]string   // of the resource, where it exists
	given            map[string]string   // tags that the request gives it
	keys             []string            // of tags that the request takes away
	context          map[string][]string // the service's own condition keys
}

// restriction is what a caller may do.
type restriction struct {
	documents []policy.Document
	boundary  *policy.Document
}

// Restrict lets the caller who signs with that access key do only what the
// policies and the permissions boundary (nil for none) allow, until lift is
// called; what he asks beyond that is denied as the service denies it. Callers
// that are not restricted may do everything.
func (c *Cloud) Restrict(accessKeyID string, documents []policy.Document, boundary *policy.Document) (lift func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &restriction{slices.Clone(documents), boundary}
	c.restricted[accessKeyID] = r
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.restricted[accessKeyID] == r {
			delete(c.restricted, accessKeyID)
		}
	}
}

// Denied lists what the policies and the boundary, nil for none, would have
// denied of what the call asked. A call that could not be read asked nothing.
func (r Call) Denied(documents []policy.Document, boundary *policy.Document) []policy.Decision {
	var out []policy.Decision
	for _, asked := range r.Asked {
		if d := policy.Evaluate(documents, boundary, asked); !d.Allowed {
			out = append(out, d)
		}
	}
	return out
}

// authorize notes what the call asks of IAM, and refuses what its caller may
// not do.
func (c *Cloud) authorize(in *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ask := in.svc.asks[in.op]
	if ask == nil {
		return fmt.Errorf("%s %s has no line in the tables of authz_*.go", in.svc.name, in.op)
	}
	in.now, in.st = c.clock.Now(), c.st
	in.record.Asked = in.requests(ask(in))
	who := c.restricted[in.key]
	if who == nil {
		return nil
	}
	for _, asked := range in.record.Asked {
		if d := policy.Evaluate(who.documents, who.boundary, asked); !d.Allowed {
			return in.denial(d)
		}
	}
	return nil
}

// requests are the questions with the condition keys that all services have.
func (in *call) requests(questions []authorizationRequest) []policy.Request {
	out := make([]policy.Request, 0, len(questions))
	for _, q := range questions {
		context := map[string][]string{"aws:RequestedRegion": {in.region}}
		for k, v := range q.tags {
			context["aws:ResourceTag/"+k] = []string{v}
		}
		for k, v := range q.given {
			context["aws:RequestTag/"+k] = []string{v}
		}
		if keys := append(slices.Sorted(maps.Keys(q.given)), q.keys...); len(keys) > 0 {
			context["aws:TagKeys"] = keys
		}
		maps.Copy(context, q.context)
		out = append(out, policy.Request{Action: q.action, Resource: q.resource, Context: context})
	}
	return out
}

// denial words a refusal as the service does.
func (in *call) denial(d policy.Decision) error {
	text := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because %s", in.caller(), d.Request.Action, d.Request.Resource, d.Why)
	if in.svc.name == "sqs" { // it keeps the code of its older protocol
		return &apiError{http.StatusForbidden, "AccessDenied", text}
	}
	switch in.svc.protocol {
	case ec2Protocol:
		return &apiError{http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation. " + text}
	case queryProtocol:
		return &apiError{http.StatusForbidden, "AccessDenied", text}
	case restProtocol:
		return &apiError{http.StatusForbidden, "AccessDeniedException", text}
	case jsonProtocol:
	}
	return &apiError{http.StatusBadRequest, "AccessDeniedException", text}
}

// peek reads from a JSON body what it has of v; the operation itself refuses a
// body that is wrong.
func (in *call) peek(v any) { _ = json.Unmarshal(in.body, v) }

// anything asks for an action that knows no resources.
func anything(action string) authorization {
	return func(*call) []authorizationRequest { return []authorizationRequest{{action: action, resource: "*"}} }
}

// nothing asks for nothing: AWS lets everybody.
func nothing(*call) []authorizationRequest { return nil }

// authorizations are all tables, by service.
func authorizations() map[string]map[string]authorization {
	return map[string]map[string]authorization{
		"ec2": ec2Authorizations(), "iam": iamAuthorizations(), "eks": eksAuthorizations(),
		"sqs": sqsAuthorizations(), "events": eventsAuthorizations(), "logs": logsAuthorizations(),
		"sts":     {"GetCallerIdentity": nothing},
		"ssm":     {"GetParameter": parameterAsks, "GetParametersByPath": parameterAsks},
		"pricing": {"GetProducts": anything("pricing:GetProducts")},
		"servicequotas": {
			"ListServiceQuotas":           anything("servicequotas:ListServiceQuotas"),
			"ListAWSDefaultServiceQuotas": anything("servicequotas:ListAWSDefaultServiceQuotas"),
			"GetServiceQuota":             anything("servicequotas:GetServiceQuota"),
		},
		"arc-zonal-shift": {"GetManagedResource": func(in *call) []authorizationRequest {
			return []authorizationRequest{{action: "arc-zonal-shift:GetManagedResource", resource: in.segment(1), tags: in.st.eks.tags}}
		}},
	}
}

// parameterAsks: AWS's own parameters belong to no account.
func parameterAsks(in *call) []authorizationRequest {
	var ask struct{ Name, Path string }
	in.peek(&ask)
	name := in.cloud.parameterRef(ask.Name + ask.Path).name // there is only one of them
	arn := name
	switch {
	case strings.HasPrefix(name, "/aws/"):
		arn = in.cloud.parameterARN(name)
	case !strings.HasPrefix(name, "arn:"):
		arn = in.cloud.localARN("ssm", "parameter"+name)
	}
	return []authorizationRequest{{action: "ssm:" + in.op, resource: arn}}
}
