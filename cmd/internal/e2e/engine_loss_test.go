package e2e

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// claimOf is the name of the only NodeClaim of a pool.
func (s engineSuite) claimOf(pool string) string {
	s.Helper()
	claims, err := s.claims(pool)
	if err != nil || len(claims) != 1 {
		s.Fatalf("%d NodeClaims of pool %s, %v", len(claims), pool, err)
	}
	return claims[0].Name
}

// consoleTerminates: somebody ends the instance under a pod that runs. EC2's state change comes through the queue.
func (s engineSuite) consoleTerminates() {
	const pool = "console"
	s.addPool(pool, []string{onDemand}, "m5a.large")
	s.addDeployment(pool, 1)
	first := s.waitForNodeWithPod(pool)
	claim := s.claimOf(pool)
	if err := s.AWS.Terminate(first.ID); err != nil {
		s.Fatal(err)
	}
	ended := time.Now()
	s.movesFrom(pool, first)
	s.expectEvent(claim, "InstanceTerminating")
	s.Logf("replaced %s after it was terminated", since(ended))
}

// retirementIsScheduled: AWS Health announces that the instance is retired, and its pods move before. Karpenter has it from the
// queue, since EC2 does not return the event.
func (s engineSuite) retirementIsScheduled() {
	const pool = "retired"
	s.addPool(pool, []string{onDemand}, "r5a.xlarge")
	s.addDeployment(pool, 1)
	first := s.waitForNodeWithPod(pool)
	claim := s.claimOf(pool)
	if err := s.AWS.AnnounceScheduledEvent(first.ID, "instance-retirement"); err != nil {
		s.Fatal(err)
	}
	announced := time.Now()
	s.movesFrom(pool, first)
	s.Logf("replaced %s after the announcement", since(announced))
	s.expectEvent(claim, "InstanceUnhealthy")
	if len(s.terminations(first.ID)) == 0 {
		s.Error("the engine did not end the instance itself")
	}
}

// rebalanceIsRecommended: Karpenter records the recommendation, and the node stays.
func (s engineSuite) rebalanceIsRecommended() {
	const pool = "rebalanced"
	s.addPool(pool, []string{spot}, "r5a.2xlarge")
	s.addDeployment(pool, 1)
	first := s.waitForNodeWithPod(pool)
	claim := s.claimOf(pool)
	if err := s.AWS.RecommendRebalance(first.ID); err != nil {
		s.Fatal(err)
	}
	s.expectEvent(claim, "SpotRebalanceRecommendation")
	if now := s.waitForNodeWithPod(pool); now.ID != first.ID || s.claimOf(pool) != claim {
		s.Errorf("%v took the place of %v", now, first)
	}
}

// spotIsInterrupted: the warning comes two minutes before the end, twice, and
// with rubbish around it.
func (s engineSuite) spotIsInterrupted() {
	const pool = "interrupted"
	s.addPool(pool, []string{spot}, "r5a.large")
	s.addDeployment(pool, 1)
	first := s.waitForNodeWithPod(pool)
	queue := s.aws.Queues[0]
	interrupt := func() error { return s.AWS.Interrupt(first.ID) }
	// The engine may have ended the instance before the second warning.
	again := func() error {
		if err := interrupt(); err != nil && len(s.terminations(first.ID)) == 0 {
			return err
		}
		return nil
	}
	for _, send := range []func() error{
		func() error { return s.AWS.SendMessage(queue, "{ this is no JSON") },
		interrupt,
		func() error {
			return s.AWS.SendMessage(queue, `{"source":"example.com","detail-type":"Something Else","detail":{}}`)
		},
		again,
	} {
		if err := send(); err != nil {
			s.Fatal(err)
		}
	}
	warned := time.Now()
	second := s.movesFrom(pool, first)
	s.Logf("replaced %s after the warning", since(warned))
	s.waitForNodeWithPod(pool)
	if len(s.terminations(first.ID)) == 0 {
		s.Error("the engine did not end the instance itself")
	}
	if second.Zone == first.Zone {
		s.Errorf("%v took the place of %v, where spot capacity is running out", second, first)
	}
	if len(s.logged("failed parsing interruption message")) == 0 {
		s.Error("nobody was told of the message that is no JSON")
	}
}

// nodeNeverJoins: Karpenter gives an instance fifteen minutes to register. They
// are over when the NodeClaim's own clock, the time of its condition, says so;
// that is what is turned here, since nobody's patience is that long.
func (s engineSuite) nodeNeverJoins() {
	const pool, kind = "never-joins", "m5a.xlarge"
	s.neverJoins.Store(kind, "")
	s.addPool(pool, []string{onDemand}, kind)
	s.addPod(pool)
	var claim string
	var first sandboxaws.Instance
	s.eventually("an instance runs and no node comes of it", func() error {
		claims, err := s.claims(pool)
		if err != nil {
			return err
		}
		living := s.living(pool)
		if len(claims) != 1 || len(living) != 1 {
			return fmt.Errorf("%d NodeClaims, instances %v", len(claims), living)
		}
		if id, _ := s.neverJoins.Load(kind); id != living[0].ID {
			return fmt.Errorf("the machine that never joins is %q, not %s", id, living[0].ID)
		}
		claim, first = claims[0].Name, living[0]
		if now := claims[0].StatusConditions(); !now.Get(karpv1.ConditionTypeRegistered).IsUnknown() || !now.Get(karpv1.ConditionTypeLaunched).IsTrue() {
			return fmt.Errorf("its conditions are %+v", claims[0].Status.Conditions)
		}
		return nil
	})
	// A status that the engine was just writing may bring the old time back, so
	// the clock is turned for as long as it takes.
	s.eventually("the NodeClaim is given up", func() error { return s.outlived(claim, 16*time.Minute) })
	second := s.movesFrom(pool, first)
	s.eventually("the first instance is ended by the engine", func() error {
		if ended := s.terminations(first.ID); len(ended) == 0 || len(s.living(pool)) != 1 {
			return fmt.Errorf("%v was replaced by %v and terminated by %v", first, second, ended)
		}
		return nil
	})
}

// outlived makes a NodeClaim wait for its node since so long ago. It returns nil
// once the NodeClaim goes or is gone.
func (s engineSuite) outlived(name string, d time.Duration) error {
	var claim karpv1.NodeClaim
	err := s.hand.Get(s.Context(), client.ObjectKey{Name: name}, &claim)
	if apierrors.IsNotFound(err) || err == nil && !claim.DeletionTimestamp.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	before, since := claim.DeepCopy(), metav1.NewTime(time.Now().Add(-d))
	turned := false
	for i, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeRegistered && c.LastTransitionTime.After(since.Add(time.Minute)) {
			claim.Status.Conditions[i].LastTransitionTime, turned = since, true
		}
	}
	if turned {
		err = s.hand.Status().Patch(s.Context(), &claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	return errors.Join(err, fmt.Errorf("it is still there: %+v", claim.Status.Conditions))
}
