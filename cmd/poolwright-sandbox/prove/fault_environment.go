package prove

import (
	"context"
	"net/http"
	"time"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

const (
	// outage is how long an environment fault lasts: longer than a retry of the product, shorter
	// than what its lease outlasts.
	outage = 4 * time.Second
	// slowness is what a slow server adds to each request.
	slowness = time.Second
)

// period is a fault of each request for the length of an outage.
func period(f wiretap.Fault) func(context.Context, *fixture.Fixture) wiretap.Fault {
	f.For = outage
	return func(context.Context, *fixture.Fixture) wiretap.Fault { return f }
}

// call is a fault beside the first request.
func call(do func(context.Context, *fixture.Fixture) error) func(context.Context, *fixture.Fixture) wiretap.Fault {
	return func(ctx context.Context, s *fixture.Fixture) wiretap.Fault {
		return wiretap.Fault{Do: wiretap.Call, Call: func(trace.Request) { s.ByHand(do(ctx, s)) }}
	}
}

// environmentFaults are what happens to all requests of a wire for a while, or around it. They
// have one case for each wire of a scenario.
func environmentFaults() []faultKind {
	servers := []trace.Wire{trace.Kubernetes, trace.Git, trace.Forge}
	kubernetes, git := servers[:1], servers[1:2]
	throttled := wiretap.Fault{Do: wiretap.Respond, Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}
	return []faultKind{
		{name: "gone", summary: "for four seconds, connections to the server break off", wires: servers,
			fault: period(wiretap.Fault{Do: wiretap.Drop})},
		{name: "slow", summary: "for four seconds, the server takes a second longer for each request", wires: servers,
			fault: period(wiretap.Fault{Do: wiretap.Delay, Wait: slowness})},
		{name: "error", summary: "for four seconds, the server responds with status 500", wires: servers,
			fault: period(wiretap.Fault{Do: wiretap.Respond, Status: http.StatusInternalServerError})},
		{name: "throttled", summary: "for four seconds, the server responds with status 429 and Retry-After, as one does whose priority levels are full", wires: servers,
			fault: period(throttled)},
		{name: "timeout", summary: "for four seconds, the server carries each request out and responds with status 504", wires: kubernetes,
			fault: period(wiretap.Fault{After: true, Do: wiretap.Respond, Status: http.StatusGatewayTimeout})},
		{name: "truncated", summary: "for four seconds, each response breaks off in its middle", wires: git,
			fault: period(wiretap.Fault{After: true, Do: wiretap.Truncate})},
		{name: "watches-closed", summary: "every watch ends at once, and the watches after that end with status 410 for four seconds", wires: kubernetes,
			fault: func(_ context.Context, s *fixture.Fixture) wiretap.Fault {
				s.CloseWatches()
				return wiretap.Fault{At: wiretap.Point{Verb: "watch"}, For: outage, Do: wiretap.Respond, Status: http.StatusGone}
			}},
		{name: "webhook-hangs", summary: "an admission webhook for the declared objects hangs until the API server gives it up, and is removed four seconds after its first request", wires: kubernetes,
			fault: call(func(ctx context.Context, s *fixture.Fixture) error { return s.HangWebhook(ctx, outage) })},
		{name: "disk-full", summary: "for four seconds, the volume of the caches is full", wires: git,
			prepare: (*fixture.Fixture).LimitDisk,
			fault:   call(func(_ context.Context, s *fixture.Fixture) error { return s.FillDisk(outage) })},
	}
}
