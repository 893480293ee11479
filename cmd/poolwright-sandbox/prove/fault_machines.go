package prove

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// machineFaults are what happens to machines while they come and go.
func machineFaults() []faultKind {
	extra := func(n int) func(context.Context, *fixture.Fixture) wiretap.Fault {
		return besides(func(s *fixture.Fixture, _ history.Request) error {
			_, err := s.AWS.Inject(aws.Fault{Service: "ec2", Operation: "CreateFleet", Extra: n, Times: 1})
			return err
		})
	}
	return []faultKind{
		{name: "fewer-instances", summary: "EC2 launches one instance fewer than requested, and reports no error", at: launches, named: true, fault: extra(-1)},
		{name: "more-instances", summary: "EC2 launches one instance more than requested", at: launches, named: true, fault: extra(1)},
		{name: "pod-bound", summary: "a pod is bound to an empty node right after that got the taint of its disruption", at: taints, named: true,
			fault: func(ctx context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{After: true, Do: wiretap.Call, Call: func(q history.Request) { s.ByHand(s.BindPod(ctx, q.Name)) }}
			},
			then: func(ctx context.Context, s *fixture.Fixture) error { return s.EndPod(ctx) }},
	}
}

// taints reports whether a point changes the taints of a node.
func taints(p point) bool {
	return p.Wire == history.Kubernetes && p.Verb == "patch" && p.Kind == "nodes"
}
