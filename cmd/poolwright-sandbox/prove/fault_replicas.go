package prove

import (
	"context"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// replicaFaults are what happens to the leader where a standby waits for the lease.
func replicaFaults() []faultKind {
	// What the leader reads of Kubernetes is read by the standby as well.
	leader := func(p point) bool {
		return p.Kind != "leases.coordination.k8s.io" && (p.changes() || p.Wire != trace.Kubernetes)
	}
	after := func(do func(context.Context, *fixture.Fixture, trace.Request)) func(context.Context, *fixture.Fixture) wiretap.Fault {
		return func(ctx context.Context, s *fixture.Fixture) wiretap.Fault {
			return wiretap.Fault{After: true, Do: wiretap.Call, Call: func(q trace.Request) { do(ctx, s, q) }}
		}
	}
	return []faultKind{
		{name: "fail-over", summary: "the leader is killed right after a request, and the standby takes over once the lease has expired", at: leader, named: true,
			fault: func(_ context.Context, s *fixture.Fixture) wiretap.Fault {
				return wiretap.Fault{After: true, Do: wiretap.Kill, Call: s.KillSender}
			}},
		{name: "pause", summary: "the leader is stopped before it has the response, and goes on once the standby leads", at: leader, named: true,
			fault: after(func(ctx context.Context, s *fixture.Fixture, q trace.Request) { s.PauseSender(ctx, q) })},
		{name: "partition", summary: "the leader is cut off from all servers right after a request until the standby leads", at: leader, named: true,
			fault: after(func(ctx context.Context, s *fixture.Fixture, q trace.Request) { s.CutSenderOff(ctx, q) })},
		{name: "terminate", summary: "the leader gets SIGTERM right after a request, and gives the lease back", at: leader, named: true,
			fault: after(func(_ context.Context, s *fixture.Fixture, q trace.Request) { s.TerminateSender(q) })},
		{name: "lease-deleted", summary: "a person deletes the lease, so that two replicas lead until the former leader learns of it", at: leader, named: true,
			fault: after(func(ctx context.Context, s *fixture.Fixture, _ trace.Request) { s.ByHand(s.DeleteLease(ctx)) })},
	}
}
