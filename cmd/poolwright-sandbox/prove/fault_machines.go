package prove

import (
	"context"
	"net/http"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// machineFaults are what happens to machines while they come and go.
func machineFaults() []faultKind {
	extra := func(n int) func(context.Context, *fixture.Fixture) wiretap.Fault {
		return besides(func(s *fixture.Fixture, _ trace.Request) error {
			_, err := s.AWS.Inject(sandboxaws.Fault{Service: "ec2", Operation: "CreateFleet", Extra: n, Times: 1})
			return err
		})
	}
	return []faultKind{
		{name: "kill-then-error", summary: "the controller is killed right after EC2 has launched an instance, and once the next one leads, the API server responds with status 500 for four seconds", at: launches,
			fault: func(_ context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{After: true, Do: wiretap.Kill, Call: func(q trace.Request) {
					s.KillSender(q)
					s.Tap.Arm(onceOneLeads(func() {
						s.Tap.Arm(wiretap.Fault{At: wiretap.Point{Wire: trace.Kubernetes}, Do: wiretap.Respond, Status: http.StatusInternalServerError, For: outage})
					}))
				}}
			}},
		{name: "fewer-instances", summary: "EC2 launches one instance fewer than requested, and reports no error", at: launches, named: true, fault: extra(-1)},
		{name: "more-instances", summary: "EC2 launches one instance more than requested", at: launches, named: true, fault: extra(1)},
		{name: "pod-bound", summary: "a pod is bound to an empty node right after that got the taint of its disruption", at: taints, named: true,
			fault: func(ctx context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{After: true, Do: wiretap.Call, Call: func(q trace.Request) { s.ByHand(s.BindPod(ctx, q.Name)) }}
			},
			then: func(ctx context.Context, s *fixture.Fixture) error { return s.EndPod(ctx) }},
	}
}

// onceOneLeads calls do when a process has made the lease, of which there is none after a kill.
func onceOneLeads(do func()) wiretap.Fault {
	made := wiretap.Point{Wire: trace.Kubernetes, Verb: "create", Kind: "leases.coordination.k8s.io"}
	return wiretap.Fault{At: made, After: true, Do: wiretap.Call, Call: func(trace.Request) { do() }}
}

// taints reports whether a point changes the taints of a node.
func taints(p point) bool {
	return p.Wire == trace.Kubernetes && p.Verb == "patch" && !p.DryRun && p.Kind == "nodes"
}
