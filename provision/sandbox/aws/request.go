package aws

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// bodyLimit is far above what a provisioner sends (a CreateFleet of sixty
// types in three zones is 40 KiB) and far below what would hurt.
const bodyLimit = 4 << 20

// call is one request on its way through the cloud.
type call struct {
	api.Call
	svc    service
	st     *state // what the operation reads: the present, or an old snapshot
	id     string
	broken error // the request could not even be read
	record *Call // what the journal keeps of it
}

var scopeForm = regexp.MustCompile(`Credential=([^/,\s]+)/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request`)

// read finds out which service and operation are meant. The scope inside the
// signature decides, because all services share one endpoint.
func read(services map[string]service, r *http.Request) *call {
	in := &call{svc: service{name: "unknown", protocol: jsonProtocol}}
	in.Gone = r.Context().Done()
	in.Target = r.Method + " " + r.URL.EscapedPath()
	in.Query = r.URL.Query()
	m := scopeForm.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil {
		in.broken = api.NewError(http.StatusForbidden, "MissingAuthenticationToken", "The request has no AWS Signature Version 4 credential scope in its Authorization header.")
		return in
	}
	in.Key = m[1]
	region, name := m[2], m[3]
	in.Region = region
	svc, ok := services[name]
	if !ok {
		in.broken = api.Refuse("UnknownService", "The emulator does not emulate the service %q of the credential scope.", name)
		return in
	}
	in.svc = svc
	if !svc.servesIn(region) {
		in.broken = api.NewError(http.StatusForbidden, "SignatureDoesNotMatch", fmt.Sprintf("Credential should be scoped to a valid region of %s (%s), not '%s'.", name, strings.Join(svc.regions, ", "), region))
		return in
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	switch {
	case err != nil:
		in.broken = api.Refuse("RequestExpired", "The request's body could not be read.")
	case len(body) > bodyLimit:
		in.broken = api.Refuse("RequestEntityTooLarge", "The request's body is over %d bytes.", bodyLimit)
	default:
		in.broken = in.decode(r, body)
	}
	return in
}

// decode reads operation and parameters as the service's protocol has them.
func (in *call) decode(r *http.Request, body []byte) error {
	in.Body = body
	switch in.svc.protocol {
	case ec2Protocol, queryProtocol:
		f, err := query.Parse(string(body))
		if err != nil {
			return api.Refuse("MalformedQueryString", "%s", err)
		}
		in.Form = f
		in.Op = f.Get("Action")
		if in.Dry, err = f.Bool("DryRun"); err != nil {
			return api.Refuse("InvalidParameterValue", "%s", err)
		}
		if v := f.Get("Version"); v != in.svc.version {
			return api.Refuse("NoSuchVersion", "The requested version %q of %s is not known; it is %s.", v, in.svc.name, in.svc.version)
		}
	case jsonProtocol:
		target, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if target != in.svc.version {
			return api.Refuse("UnknownOperationException", "The target %q is not of %s.", r.Header.Get("X-Amz-Target"), in.svc.name)
		}
		in.Op = op
	case restProtocol:
		in.Op = in.svc.route(r.Method, r.URL.EscapedPath())
	}
	return nil
}

// check refuses parameters that the operation does not take. JSON bodies are checked by
// the operation when it decodes them.
func (in *call) check(op api.Operation) error {
	if in.svc.protocol == restProtocol {
		for _, name := range slices.Sorted(maps.Keys(in.Query)) {
			if !slices.Contains(op.Params, name) {
				return api.Refuse("ValidationException", "The parameter %s is not recognized by %s.", name, in.Op)
			}
		}
		return nil
	}
	if in.svc.protocol != ec2Protocol && in.svc.protocol != queryProtocol {
		return nil
	}
	known := append([]string{"Action", "Version"}, op.Params...)
	if in.svc.protocol == ec2Protocol {
		known = append(known, "DryRun")
	}
	if name := in.Form.Unknown(known); name != "" {
		return api.Refuse("UnknownParameter", "The parameter %s is not recognized by %s.", name, in.Op)
	}
	return nil
}

// digest writes the parameters in one line, without user data: it may hold
// secrets, and nobody greps in it.
func (in *call) digest() string {
	switch in.svc.protocol {
	case ec2Protocol, queryProtocol:
		var b strings.Builder
		for _, name := range in.Form.Names() {
			if name == "Action" || name == "Version" {
				continue
			}
			value := in.Form.Get(name)
			if name == "UserData" || strings.HasSuffix(name, ".UserData") {
				value = fmt.Sprintf("(%d bytes)", len(value))
			}
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(name + "=" + value)
		}
		return b.String()
	case restProtocol:
		out := in.Target
		if len(in.Query) > 0 {
			out += "?" + in.Query.Encode()
		}
		return strings.TrimSpace(out + " " + string(in.Body))
	case jsonProtocol:
	}
	return string(in.Body)
}

// clip bounds what one call leaves in the journal.
func clip(s string) string {
	const most = 2048
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
