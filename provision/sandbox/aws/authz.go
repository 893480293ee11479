package aws

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

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
	c.account.Lock()
	defer c.account.Unlock()
	r := &restriction{slices.Clone(documents), boundary}
	c.restricted[accessKeyID] = r
	return func() {
		c.account.Lock()
		defer c.account.Unlock()
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
	c.account.Lock()
	defer c.account.Unlock()
	ask := in.svc.asks[in.Op]
	if ask == nil {
		return fmt.Errorf("%s %s has no line in the tables of authz_*.go", in.svc.name, in.Op)
	}
	in.Now, in.st = c.account.Clock.Now(), c.st
	in.record.Asked = in.requests(ask(in))
	who := c.restricted[in.Key]
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
func (in *call) requests(questions []api.AuthorizationRequest) []policy.Request {
	out := make([]policy.Request, 0, len(questions))
	for _, q := range questions {
		context := map[string][]string{"aws:RequestedRegion": {in.Region}}
		for k, v := range q.Tags {
			context["aws:ResourceTag/"+k] = []string{v}
		}
		for k, v := range q.Given {
			context["aws:RequestTag/"+k] = []string{v}
		}
		if keys := append(slices.Sorted(maps.Keys(q.Given)), q.Keys...); len(keys) > 0 {
			context["aws:TagKeys"] = keys
		}
		maps.Copy(context, q.Context)
		out = append(out, policy.Request{Action: q.Action, Resource: q.Resource, Context: context})
	}
	return out
}

// denial words a refusal as the service does.
func (in *call) denial(d policy.Decision) error {
	text := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because %s", in.cloud.account.Caller(in.Key), d.Request.Action, d.Request.Resource, d.Why)
	if in.svc.name == "sqs" { // it keeps the code of its older protocol
		return api.NewError(http.StatusForbidden, "AccessDenied", text)
	}
	switch in.svc.protocol {
	case ec2Protocol:
		return api.NewError(http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation. "+text)
	case queryProtocol:
		return api.NewError(http.StatusForbidden, "AccessDenied", text)
	case restProtocol:
		return api.NewError(http.StatusForbidden, "AccessDeniedException", text)
	case jsonProtocol:
	}
	return api.NewError(http.StatusBadRequest, "AccessDeniedException", text)
}

// authorization is one of a service that is not yet a package.
type authorization func(in *call) []api.AuthorizationRequest

// anything asks for an action that knows no resources.
func anything(action string) authorization {
	return func(in *call) []api.AuthorizationRequest { return api.Anything(action)(&in.Call) }
}

// nothing asks for nothing: AWS lets everybody.
func nothing(*call) []api.AuthorizationRequest { return nil }

// authorizations are all tables, by service.
func authorizations() map[string]map[string]authorization {
	return map[string]map[string]authorization{
		"ec2": ec2Authorizations(), "iam": iamAuthorizations(), "eks": eksAuthorizations(),
		"sts":     {"GetCallerIdentity": nothing},
		"ssm":     {"GetParameter": parameterAsks, "GetParametersByPath": parameterAsks},
		"pricing": {"GetProducts": anything("pricing:GetProducts")},
		"arc-zonal-shift": {"GetManagedResource": func(in *call) []api.AuthorizationRequest {
			return []api.AuthorizationRequest{{Action: "arc-zonal-shift:GetManagedResource", Resource: in.Segment(1), Tags: in.st.eks.tags}}
		}},
	}
}

// parameterAsks: AWS's own parameters belong to no account.
func parameterAsks(in *call) []api.AuthorizationRequest {
	var ask struct{ Name, Path string }
	in.Peek(&ask)
	name := in.cloud.parameterRef(ask.Name + ask.Path).name // there is only one of them
	arn := name
	switch {
	case strings.HasPrefix(name, "/aws/"):
		arn = in.cloud.parameterARN(name)
	case !strings.HasPrefix(name, "arn:"):
		arn = in.cloud.account.ARN("ssm", "parameter"+name)
	}
	return []api.AuthorizationRequest{{Action: "ssm:" + in.Op, Resource: arn}}
}
