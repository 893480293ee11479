package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

const recordedPool = "recorded"

// TestANodeIsRecordedOnceAlthoughTheLeaderIsKilled: a node lives through a SIGKILL of the controller, and another one is
// deleted by hand.
func TestANodeIsRecordedOnceAlthoughTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	s := newEngineFixture(t)
	s.addPool(recordedPool, []string{onDemand}, "m5.2xlarge")
	s.addPod(recordedPool)
	first := s.waitForNodeWithPod(recordedPool)
	if err := s.now.Kill(); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.engineRuns()
	pool := &karpv1.NodePool{}
	pool.Name = recordedPool
	if err := s.hand.Patch(t.Context(), pool, mergePatch(`{"spec":{"disruption":{"consolidateAfter":"1s"}}}`)); err != nil {
		t.Fatal(err)
	}
	s.dropPod(recordedPool)
	s.ended()
	s.addPod(recordedPool)
	second := s.waitForNodeWithPod(recordedPool)
	claims, err := s.claims(recordedPool)
	if err != nil || len(claims) != 1 {
		t.Fatalf("there are %d NodeClaims, %v", len(claims), err)
	}
	if err := s.hand.Delete(t.Context(), &claims[0]); err != nil {
		t.Fatal(err)
	}
	s.dropPod(recordedPool)
	s.ended()
	s.eventually("both nodes are recorded", func() error {
		nodes, err := s.recordedNodes()
		if err != nil {
			return err
		}
		if len(nodes) != 2 || nodes[0].Terminated.IsZero() || nodes[1].Terminated.IsZero() {
			return fmt.Errorf("recorded are %+v", nodes)
		}
		return nil
	})
	nodes, err := s.recordedNodes()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		id     string
		reason history.Reason
	}{{first.ID, history.ReasonEmpty}, {second.ID, history.ReasonDeleted}} {
		n := nodes[i]
		if n.Reason != want.reason || n.TerminationUnobserved || n.USD == nil || *n.USD <= 0 {
			t.Errorf("recorded is %+v, want %s", n, want.reason)
		}
		calls := s.terminations(want.id)
		if len(calls) == 0 {
			t.Fatalf("instance %s was never terminated", want.id)
		}
		if d := n.Terminated.Sub(calls[0].Time).Abs(); d > 3*time.Second {
			t.Errorf("%s was terminated at %s, and EC2 was called %s before or after", n.Name, n.Terminated, d)
		}
	}
	page := newPage(t, "howto/history.md")
	u := newShell(s.fixture, &repo{dir: t.TempDir()}, "--pool gpu", "--pool "+recordedPool)
	u.prints(u.block(page.take("poolwright events"), exitCode{0}), "Launched", "Terminated", nodes[0].Name)
	u.prints(u.block(page.take("poolwright history costs"), exitCode{0}), recordedPool)
	u.prints(u.block(page.take("poolwright history nodes"), exitCode{0}), nodes[0].Name, "Empty", "Deleted")
	u.block(page.take("poolwright history pullrequests"), exitCode{0})
}

// ended waits until the pool has no node.
func (s engineSuite) ended() {
	s.Helper()
	s.within(2*waitTimeout, "pool "+recordedPool+" has no node", func() error {
		claims, err := s.claims(recordedPool)
		if living := s.living(recordedPool); err != nil || len(claims)+len(living) > 0 {
			return fmt.Errorf("%d NodeClaims, instances %v, %w", len(claims), living, err)
		}
		return nil
	})
}

// recordedNodes are the nodes of the pool that the command history prints.
func (s engineSuite) recordedNodes() ([]history.NodeClaim, error) {
	s.Helper()
	got := typed(s.T, s.Environment, s.Dir, "history", "nodes", "--pool", recordedPool, "-o", "json")
	var h struct {
		metav1.TypeMeta `json:",inline"`
		history.History `json:",inline"`
	}
	if err := json.Unmarshal([]byte(got.out), &h); err != nil || got.code != 0 || h.Kind != "History" {
		return nil, fmt.Errorf("exit code %d: %s%s, %w", got.code, got.out, got.err, err)
	}
	return h.NodeClaims, nil
}
