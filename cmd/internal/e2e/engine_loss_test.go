package e2e

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/sandbox/aws"
)

// consoleTerminates: somebody ends the instance under a pod that runs.
func (s scene) consoleTerminates() {
	const pool = "console"
	s.addPool(pool, []string{onDemand}, "m5a.large")
	s.addDeployment(pool, 1)
	first := s.settles(pool)
	if err := s.AWS.Terminate(first.ID); err != nil {
		s.Fatal(err)
	}
	ended := time.Now()
	s.movesFrom(pool, first)
	s.Logf("replaced %s after it was terminated", since(ended))
}

// spotIsInterrupted: the warning comes two minutes before the end, twice, and
// with rubbish around it.
func (s scene) spotIsInterrupted() {
	const pool = "interrupted"
	s.addPool(pool, []string{spot}, "r5a.large")
	s.addDeployment(pool, 1)
	first := s.settles(pool)
	queue := s.aws.Queues[0]
	for _, send := range []func() error{
		func() error { return s.AWS.SendMessage(queue, "{ this is no JSON") },
		func() error { return s.AWS.Interrupt(first.ID) },
		func() error {
			return s.AWS.SendMessage(queue, `{"source":"example.com","detail-type":"Something Else","detail":{}}`)
		},
		func() error { return s.AWS.Interrupt(first.ID) },
	} {
		if err := send(); err != nil {
			s.Fatal(err)
		}
	}
	warned := time.Now()
	second := s.movesFrom(pool, first)
	s.Logf("replaced %s after the warning", since(warned))
	s.settles(pool)
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
func (s scene) nodeNeverJoins() {
	const pool, kind = "deaf", "m5a.xlarge"
	s.deaf.Store(kind, true)
	s.addPool(pool, []string{onDemand}, kind)
	s.addPod(pool)
	var claim karpv1.NodeClaim
	s.eventually("an instance runs and no node comes of it", func() error {
		claims, err := s.claims(pool)
		if err != nil {
			return err
		}
		living := s.living(pool)
		if len(claims) != 1 || len(living) != 1 || living[0].State != aws.Running {
			return fmt.Errorf("%d NodeClaims, instances %v", len(claims), living)
		}
		claim = claims[0]
		if registered := claim.StatusConditions().Get(karpv1.ConditionTypeRegistered); !registered.IsUnknown() || !claim.StatusConditions().Get(karpv1.ConditionTypeLaunched).IsTrue() {
			return fmt.Errorf("its conditions are %+v", claim.Status.Conditions)
		}
		return nil
	})
	first := s.living(pool)[0]
	s.deaf.Delete(kind) // a machine that was asked to join already stays deaf
	s.eventually("the NodeClaim is given up", func() error {
		now := &karpv1.NodeClaim{}
		err := s.hand.Get(s.Context(), client.ObjectKeyFromObject(&claim), now)
		if apierrors.IsNotFound(err) || err == nil && !now.DeletionTimestamp.IsZero() {
			return nil
		}
		// A status that the engine was just writing may bring the old time back.
		if waits := now.StatusConditions().Get(karpv1.ConditionTypeRegistered); err == nil && time.Since(waits.LastTransitionTime.Time) < 15*time.Minute {
			s.age(claim.Name, 16*time.Minute)
		}
		return errors.Join(err, errors.New("it is still there"))
	})
	second := s.movesFrom(pool, first)
	if len(s.terminations(first.ID)) == 0 {
		s.Errorf("%v was replaced by %v and not terminated", first, second)
	}
}

// age puts the time at which a NodeClaim began to wait for its node back.
func (s scene) age(name string, d time.Duration) {
	s.Helper()
	s.eventually("the NodeClaim is older", func() error {
		var claim karpv1.NodeClaim
		if err := s.hand.Get(s.Context(), client.ObjectKey{Name: name}, &claim); err != nil {
			return err
		}
		before := claim.DeepCopy()
		for i, c := range claim.Status.Conditions {
			if c.Type == karpv1.ConditionTypeRegistered {
				claim.Status.Conditions[i].LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(-d))
			}
		}
		return s.hand.Status().Patch(s.Context(), &claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}
