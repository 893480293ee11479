package aws

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// bodyLimit is far above what a provisioner sends (a CreateFleet of sixty
// types in three zones is 40 KiB) and far below what would hurt.
const bodyLimit = 4 << 20

// call is one request on its way through the cloud.
type call struct {
	input
	cloud  *Cloud
	svc    service
	now    time.Time
	st     *state // what the operation sees: the present, or an old snapshot
	gone   <-chan struct{}
	id     string
	params string // what was asked, without user data
	broken error  // the request could not even be read
	record *Call  // what the journal keeps of it
}

// input is what the caller sent.
type input struct {
	op     string
	form   query.Form // of the query protocols
	body   []byte     // of the JSON protocols
	target string     // method and escaped path, for the REST protocol
	asked  url.Values // what is behind the path, for the REST protocol
	key    string     // access key id of the caller
	region string     // of the credential scope
	dry    bool
}

// operation is one line of a service's table.
type operation struct {
	params   []string                   // patterns of all the form or path parameters it knows
	read     bool                       // only reads: may answer dry runs and stale snapshots by itself
	unlocked bool                       // takes the lock itself, because it waits
	class    string                     // bucket of the rate limits, "" means the reads' or the writes'
	before   func(*Cloud) time.Duration // how long it takes before it has any effect
	run      func(*call) (any, error)
}

// apiError is an error as AWS sends it.
type apiError struct {
	status        int
	code, message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// refuse is an apiError of status 400, the usual one.
func refuse(code, format string, args ...any) error {
	return &apiError{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

func errDryRun() error {
	return &apiError{http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."}
}

var scopeForm = regexp.MustCompile(`Credential=([^/,\s]+)/\d{8}/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request`)

// read finds out which service and operation are meant. The scope inside the
// signature decides, because all services share one endpoint.
func (c *Cloud) read(r *http.Request) *call {
	in := &call{cloud: c, svc: service{name: "unknown", protocol: jsonProtocol}, gone: r.Context().Done()}
	in.target = r.Method + " " + r.URL.EscapedPath()
	in.asked = r.URL.Query()
	m := scopeForm.FindStringSubmatch(r.Header.Get("Authorization"))
	if m == nil {
		in.broken = &apiError{http.StatusForbidden, "MissingAuthenticationToken", "The request has no AWS Signature Version 4 credential scope in its Authorization header."}
		return in
	}
	in.key = m[1]
	region, name := m[2], m[3]
	in.region = region
	svc, ok := c.services[name]
	if !ok {
		in.broken = refuse("UnknownService", "The emulator does not play the service %q of the credential scope.", name)
		return in
	}
	in.svc = svc
	if !svc.servesIn(region) {
		in.broken = &apiError{http.StatusForbidden, "SignatureDoesNotMatch", fmt.Sprintf("Credential should be scoped to a valid region of %s (%s), not '%s'.", name, strings.Join(svc.regions, ", "), region)}
		return in
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	switch {
	case err != nil:
		in.broken = refuse("RequestExpired", "The request's body could not be read.")
	case len(body) > bodyLimit:
		in.broken = refuse("RequestEntityTooLarge", "The request's body is over %d bytes.", bodyLimit)
	default:
		in.broken = in.decode(r, body)
	}
	return in
}

// decode reads operation and parameters as the service's protocol says.
func (in *call) decode(r *http.Request, body []byte) error {
	in.body = body
	switch in.svc.protocol {
	case ec2Protocol, queryProtocol:
		f, err := query.Parse(string(body))
		if err != nil {
			return refuse("MalformedQueryString", "%s", err)
		}
		in.form = f
		in.op = f.Get("Action")
		if in.dry, err = f.Bool("DryRun"); err != nil {
			return refuse("InvalidParameterValue", "%s", err)
		}
		if v := f.Get("Version"); v != in.svc.version {
			return refuse("NoSuchVersion", "The requested version %q of %s is not known; it is %s.", v, in.svc.name, in.svc.version)
		}
	case jsonProtocol:
		target, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if target != in.svc.version {
			return refuse("UnknownOperationException", "The target %q is not of %s.", r.Header.Get("X-Amz-Target"), in.svc.name)
		}
		in.op = op
	case restProtocol:
		in.op = in.svc.route(r.Method, r.URL.EscapedPath())
	}
	return nil
}

// check refuses parameters that the operation does not know. JSON bodies are
// checked by the operation when it decodes them.
func (in *call) check(op operation) error {
	if in.svc.protocol == restProtocol {
		for _, name := range slices.Sorted(maps.Keys(in.asked)) {
			if !slices.Contains(op.params, name) {
				return refuse("ValidationException", "The parameter %s is not recognized by %s.", name, in.op)
			}
		}
		return nil
	}
	if in.svc.protocol != ec2Protocol && in.svc.protocol != queryProtocol {
		return nil
	}
	known := append([]string{"Action", "Version"}, op.params...)
	if in.svc.protocol == ec2Protocol {
		known = append(known, "DryRun")
	}
	if name := in.form.Unknown(known); name != "" {
		return refuse("UnknownParameter", "The parameter %s is not recognized by %s.", name, in.op)
	}
	return nil
}

// into decodes a JSON body; a field that v does not have is an error that
// names it.
func (in *call) into(v any) error {
	d := json.NewDecoder(bytes.NewReader(in.body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return refuse("ValidationException", "reading the input of %s: %s", in.op, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse("ValidationException", "reading the input of %s: more than one JSON value", in.op)
	}
	return nil
}

// digest writes the parameters in one line, without user data: it may hold
// secrets, and nobody greps in it.
func (in *call) digest() string {
	switch in.svc.protocol {
	case ec2Protocol, queryProtocol:
		var b strings.Builder
		for _, name := range in.form.Names() {
			if name == "Action" || name == "Version" {
				continue
			}
			value := in.form.Get(name)
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
		out := in.target
		if len(in.asked) > 0 {
			out += "?" + in.asked.Encode()
		}
		return strings.TrimSpace(out + " " + string(in.body))
	case jsonProtocol:
	}
	return string(in.body)
}

// clip bounds what one call leaves in the journal.
func clip(s string) string {
	const most = 2048
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
