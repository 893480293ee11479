package aws

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

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
// called; any request beyond that is denied as the service denies it. Callers that are
// not restricted may do everything.
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

// Expire ends the time of an access key, as of one that is temporary: from now on, requests that
// are signed with it are refused as the services do, until renew is called.
func (c *Cloud) Expire(accessKeyID string) (renew func()) {
	c.account.Lock()
	defer c.account.Unlock()
	c.expired[accessKeyID] = true
	return func() {
		c.account.Lock()
		defer c.account.Unlock()
		delete(c.expired, accessKeyID)
	}
}

// expiry phrases the refusal of a key whose time is up as the service does.
func (in *call) expiry() error {
	const text = "The security token included in the request is expired"
	switch in.svc.protocol {
	case ec2Protocol:
		return api.NewError(http.StatusBadRequest, "RequestExpired", "Request has expired.")
	case queryProtocol:
		return api.NewError(http.StatusForbidden, "ExpiredToken", text)
	case restProtocol:
		return api.NewError(http.StatusForbidden, "ExpiredTokenException", text)
	case jsonProtocol:
	}
	return api.NewError(http.StatusBadRequest, "ExpiredTokenException", text)
}

// Denied lists what the policies and the boundary, nil for none, would have denied of
// what the call needed of IAM. A call that could not be read needed nothing.
func (r Call) Denied(documents []policy.Document, boundary *policy.Document) []policy.Decision {
	var out []policy.Decision
	for _, request := range r.Authorizations {
		if d := policy.Evaluate(documents, boundary, request); !d.Allowed {
			out = append(out, d)
		}
	}
	return out
}

// authorize records what the call needs of IAM, and refuses what its caller may
// not do.
func (c *Cloud) authorize(in *call) error {
	c.account.Lock()
	defer c.account.Unlock()
	if c.expired[in.Key] {
		return in.expiry()
	}
	authorizations := in.svc.table.Authorizations[in.Op]
	if authorizations == nil {
		return fmt.Errorf("%s %s has no line in its table of authorizations", in.svc.name, in.Op)
	}
	in.Now, in.st = c.account.Clock.Now(), c.st
	in.record.Authorizations = in.requests(authorizations(&in.Call))
	who := c.restricted[in.Key]
	if who == nil {
		return nil
	}
	for _, request := range in.record.Authorizations {
		if d := policy.Evaluate(who.documents, who.boundary, request); !d.Allowed {
			return in.denial(c.account, d)
		}
	}
	return nil
}

// requests are the needed authorizations with the condition keys that all services have.
func (in *call) requests(needed []api.AuthorizationRequest) []policy.Request {
	out := make([]policy.Request, 0, len(needed))
	for _, q := range needed {
		context := map[string][]string{"aws:RequestedRegion": {in.Region}}
		for k, v := range q.Tags {
			context["aws:ResourceTag/"+k] = []string{v}
		}
		for k, v := range q.RequestTags {
			context["aws:RequestTag/"+k] = []string{v}
		}
		if keys := append(slices.Sorted(maps.Keys(q.RequestTags)), q.Keys...); len(keys) > 0 {
			context["aws:TagKeys"] = keys
		}
		maps.Copy(context, q.Context)
		out = append(out, policy.Request{Action: q.Action, Resource: q.Resource, Context: context})
	}
	return out
}

// denial phrases a refusal as the service does.
func (in *call) denial(account *api.Account, d policy.Decision) error {
	text := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because %s", account.Caller(in.Key), d.Request.Action, d.Request.Resource, d.Why)
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
