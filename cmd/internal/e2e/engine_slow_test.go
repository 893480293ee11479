package e2e

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// slowType is the instance type whose machines take realJoin to join, as on EKS;
// all others of these environments are ten times as fast and more.
const (
	slowType = "m5n.large"
	realJoin = 45 * time.Second
)

// nodeTakesItsTime: while a node is on its way, which is longer than most of what
// Karpenter waits for, its pod stays promised to it.
func (s engineSuite) nodeTakesItsTime() {
	const pool = "slow"
	s.addPool(pool, []string{onDemand}, slowType, "m5n.xlarge")
	s.addPod(pool)
	var only sandboxaws.Instance
	s.within(realJoin+waitTimeout, "the pod runs on the node that takes its time", func() (err error) {
		only, err = s.nodeWithPod(pool)
		return err
	})
	if tried := s.fleets(slowType); len(tried) != 1 || only.Type != slowType {
		s.Errorf("%v came of %d launches: %v", only, len(tried), tried)
	}
	s.eventually("the NodeClaim shows how long it took", func() error {
		claims, err := s.claims(pool)
		if err != nil || len(claims) != 1 {
			return fmt.Errorf("%d NodeClaims: %w", len(claims), err)
		}
		now := claims[0].StatusConditions()
		took := now.Get(karpv1.ConditionTypeRegistered).LastTransitionTime.Sub(now.Get(karpv1.ConditionTypeLaunched).LastTransitionTime.Time)
		if took < realJoin-time.Second { // times in the API are whole seconds
			s.Errorf("it registered %s after its launch", took)
		}
		return nil
	})
}
