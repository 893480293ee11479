package prove

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/gpupool"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

const (
	// throttled is how many requests in a row are throttled: more than the SDK sends again.
	throttled = 5
	// lag is how long AWS' reads are behind its writes.
	lag = 30 * time.Second
	// leftByOthers is the share of EC2's request quotas that other clients of the account leave.
	leftByOthers = 0.1
)

// besides is a fault beside a request of AWS.
func besides(do func(*fixture.Fixture, trace.Request) error) func(context.Context, *fixture.Fixture) wiretap.Fault {
	return func(_ context.Context, s *fixture.Fixture) wiretap.Fault {
		return wiretap.Fault{Do: wiretap.Call, Call: func(q trace.Request) { s.ByHand(do(s, q)) }}
	}
}

// awsFaults are what AWS does itself, in the form of each service.
func awsFaults() []faultKind {
	wire := []trace.Wire{trace.AWS}
	fromPodIdentity := func(s *fixture.Fixture) error { return s.Credentials(false) }
	fromMetadata := func(s *fixture.Fixture) error { return s.Credentials(true) }
	ends := besides(func(s *fixture.Fixture, _ trace.Request) error { return s.EndCredentials(outage) })
	return []faultKind{
		{name: "throttle", summary: "AWS throttles the request and the next four of its operation", at: ofAWS,
			fault: besides(func(s *fixture.Fixture, q trace.Request) error {
				_, err := s.AWS.Inject(sandboxaws.Fault{Service: q.Kind, Operation: q.Verb, Throttle: true, Times: throttled})
				return err
			})},
		{name: "request-quota", summary: "EC2's token buckets are empty, and other clients of the account leave a tenth of what is added to them", wires: wire,
			fault: besides(func(s *fixture.Fixture, _ trace.Request) error {
				_, err := s.AWS.ShareRequests(leftByOthers)
				return err
			})},
		{name: "denied", summary: "for four seconds, the controller has no permission to the operation", at: ofAWS,
			fault: besides(func(s *fixture.Fixture, q trace.Request) error { return s.Deny(q.Kind, q.Verb, outage) })},
		{name: "stale", summary: "for half a minute, the service's reads return what there was before the request", at: lagsBehind,
			fault: besides(func(s *fixture.Fixture, q trace.Request) error { return s.ReadStale(q.Kind, lag) })},
		{name: "credentials-expired", summary: "for four seconds, AWS refuses the credentials as expired", wires: wire,
			fault: besides(func(s *fixture.Fixture, _ trace.Request) error { return s.ExpireCredentials(outage) })},
		{name: "credentials-rotate", summary: "credentials come from EKS Pod Identity, last three seconds, and are refused ten seconds after the next ones were given out", wires: wire,
			prepare: fromPodIdentity, fault: besides(func(*fixture.Fixture, trace.Request) error { return nil })},
		{name: "credentials-gone", summary: "for four seconds, EKS Pod Identity is away, when credentials are to be renewed", wires: wire, prepare: fromPodIdentity, fault: ends},
		{name: "metadata-gone", summary: "for four seconds, the instance metadata service is away, when credentials are to be renewed", wires: wire, prepare: fromMetadata, fault: ends},
		capacity("no-capacity", "EC2 has no capacity of the cheapest instance type any more", "InsufficientInstanceCapacity", false),
		capacity("spot-count", "the account has as many spot instances of the cheapest type as it may", "MaxSpotInstanceCountExceeded", true),
		capacity("vcpu-limit", "the account has as many vCPUs of the cheapest instance type as it may", "VcpuLimitExceeded", true),
		capacity("unfulfillable", "EC2 cannot fulfil the request with the cheapest instance type", "UnfulfillableCapacity", true),
		capacity("unsupported", "EC2 does not support the cheapest instance type in the zones any more", "Unsupported", true),
		capacity("fleet-count", "the account has as many fleets of the cheapest instance type as it may", "MaxFleetCountExceeded", true),
		capacity("reservation-full", "the reservation of the cheapest instance type has no capacity left", "ReservationCapacityExceeded", true),
	}
}

// capacity is a fault by which the cheapest instance type cannot be launched from then on.
func capacity(name, summary, code string, named bool) faultKind {
	return faultKind{name: name, summary: summary, at: launches, named: named, fault: besides(func(s *fixture.Fixture, _ trace.Request) error {
		return s.AWS.Refuse(sandboxaws.Offering{Type: gpupool.CheapestType}, code)
	})}
}

func ofAWS(p point) bool { return p.Wire == trace.AWS }

func launches(p point) bool { return ofAWS(p) && p.Verb == "CreateFleet" && !p.DryRun }

// lagsBehind reports whether what a point changes is what a later read is about: something begins
// or ends to exist.
func lagsBehind(p point) bool {
	return ofAWS(p) && slices.ContainsFunc([]string{"Create", "PutRule", "Delete", "TerminateInstances"}, func(begin string) bool { return strings.HasPrefix(p.Verb, begin) }) &&
		!p.DryRun && p.Verb != "DeleteMessage"
}
