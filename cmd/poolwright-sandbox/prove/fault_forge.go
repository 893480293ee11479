package prove

import (
	"context"
	"net/http"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// forgeFaults are what happens to single requests at a forge.
func forgeFaults() []faultKind {
	forge := func(p point) bool { return p.Wire == trace.Forge }
	once := func(f wiretap.Fault) func(context.Context, *fixture.Fixture) wiretap.Fault {
		return func(context.Context, *fixture.Fixture) wiretap.Fault { return f }
	}
	return []faultKind{
		{name: "unavailable", summary: "the forge responds with status 503 once", at: forge,
			fault: once(wiretap.Fault{Do: wiretap.Respond, Status: http.StatusServiceUnavailable})},
		{name: "limited", summary: "the forge responds with status 429 and Retry-After once", at: forge,
			fault: once(wiretap.Fault{Do: wiretap.Respond, Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}})},
		{name: "duplicate", summary: "the forge gets the request twice", at: func(p point) bool { return forge(p) && p.changes() },
			fault: once(wiretap.Fault{Do: wiretap.Duplicate})},
	}
}
