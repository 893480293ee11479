package controller

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/state"
)

// killedAfter lets so many statuses be written while do runs, and none after them.
func (s *stage) killedAfter(statuses int, do func()) {
	s.Helper()
	whole := s.r.Client
	s.r.Client = interceptor.NewClient(whole.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if statuses--; statuses < 0 {
				return errors.New("killed")
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
	do()
	s.r.Client = whole
}

// A process that dies between an apply and its status leaves a token that was used; the next
// must find that out also where it cannot be read from what waits.
func TestATokenIsUsedUpByAProcessThatDied(t *testing.T) {
	for name, tt := range map[string]struct {
		// then is what happens before the next process begins.
		then func(*stage)
		// refused is why the confirmed change could not be made; else it was.
		refused bool
	}{
		"the repository has a problem": {then: func(s *stage) { s.problems = []state.Problem{{Message: "problem"}} }},
		"another roll-out waits": {then: func(s *stage) {
			s.cluster.live["np-b"], s.cluster.applied["np-b"] = "1", "1"
			s.commit("kubernetes/np-gpu=2", "kubernetes/np-b=2")
		}},
		"it was not made": {then: func(*stage) {}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := heldStage(t)
			token := s.required("NodeReplacementHeld")
			if tt.refused {
				s.cluster.refused["np-gpu"] = "busy"
			}
			written := s.sync().Status
			s.confirm(token)
			s.killedAfter(1, func() { s.later() })
			if made := s.cluster.live["np-gpu"] == "2"; made == tt.refused || s.sync().Status.LastHandledConfirmationTokens != written.LastHandledConfirmationTokens {
				t.Fatalf("cluster %v, %+v", s.cluster.live, s.sync().Status)
			}
			s.restart()
			tt.then(s)
			delete(s.cluster.refused, "np-gpu")
			s.later()
			s.later()
			s.problems = nil
			if tt.refused && s.cluster.live["np-gpu"] != "2" {
				t.Fatalf("what was confirmed is not made: cluster %v", s.cluster.live)
			}
			if status := s.sync().Status; status.LastHandledConfirmationTokens != token || status.LastAttemptedConfirmationTokens != "" {
				t.Errorf("handled %q, attempted %q", status.LastHandledConfirmationTokens, status.LastAttemptedConfirmationTokens)
			}
			// The same change again asks again.
			s.nodes = 1
			s.commit("kubernetes/np-gpu=1", "kubernetes/np-b=1")
			s.later()
			s.nodes = 14
			s.commit("kubernetes/np-gpu=2", "kubernetes/np-b=1")
			s.later()
			if s.cluster.live["np-gpu"] != "1" || s.required("NodeReplacementHeld") == token {
				t.Errorf("the token of before lets it go: cluster %v", s.cluster.live)
			}
		})
	}
}

// Without a record of it, no change is made by a confirmation; the others are.
func TestAConfirmationThatCannotBeRecordedLetsNothingPass(t *testing.T) {
	s, _, rollout := doubleStage(t)
	s.confirm(rollout)
	s.commit("kubernetes/np-gpu=2", "kubernetes/map=2", "aws/role=1")
	s.killedAfter(0, func() { s.later() })
	if s.cluster.live["np-gpu"] != "1" || s.cluster.live["map"] != "2" {
		t.Errorf("cluster %v", s.cluster.live)
	}
	s.later()
	s.later()
	if s.cluster.live["np-gpu"] != "2" || s.sync().Status.LastHandledConfirmationTokens != rollout {
		t.Errorf("later: cluster %v, handled %q", s.cluster.live, s.sync().Status.LastHandledConfirmationTokens)
	}
}
