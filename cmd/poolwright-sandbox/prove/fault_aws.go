package prove

import (
	"context"
	"strings"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// throttled is how many requests in a row are throttled: more than the SDK sends again.
const throttled = 5

// awsFaults are what AWS does itself, in the form of each service.
func awsFaults() []faultKind {
	return []faultKind{
		{name: "throttle", summary: "AWS throttles the request and the next four of its operation", at: ofAWS,
			fault: func(_ context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{Do: wiretap.Call, Call: func(q history.Request) {
					_, err := s.AWS.Inject(aws.Fault{Service: q.Kind, Operation: strings.TrimSuffix(q.Verb, history.DryRun), Throttle: true, Times: throttled})
					s.ByHand(err)
				}}
			}},
		{name: "no-capacity", summary: "EC2 has no capacity of the cheapest instance type any more", at: launches,
			fault: func(_ context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{Do: wiretap.Call, Call: func(history.Request) {
					s.ByHand(s.AWS.Refuse(aws.Offering{Type: fixture.CheapestType}, "InsufficientInstanceCapacity"))
				}}
			}},
	}
}

func ofAWS(p point) bool { return p.Wire == history.AWS }

func launches(p point) bool { return ofAWS(p) && p.Verb == "CreateFleet" }
