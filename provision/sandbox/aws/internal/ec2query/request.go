package ec2query

import "github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"

// Request is the call that made something: another one of its client token repeats it.
type Request struct{ op, token, params string }

// RequestOf is the request of a call.
func RequestOf(in *api.Call) Request {
	return Request{in.Op, in.Form.Get("ClientToken"), in.Params}
}

// Repeated finds what was made by the request that a call repeats. The same token with other
// parameters is an error, and so is a dry run, which would succeed.
func Repeated[T any](in *api.Call, things []T, of func(T) Request) (found T, ok bool, err error) {
	now := RequestOf(in)
	for _, v := range things {
		switch before := of(v); {
		case before.token == "" || before.token != now.token || before.op != now.op:
		case in.Dry:
			return found, false, api.ErrDryRun()
		case before != now:
			return found, false, api.Refuse("IdempotentParameterMismatch", "The client token was used for a request with other parameters.")
		default:
			return v, true, nil
		}
	}
	return found, false, nil
}
