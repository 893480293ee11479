package e2e

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// zoneIsOut: the first zone, by name, is what EC2 takes when prices are equal.
func (s engineSuite) zoneIsOut() {
	const pool, kind = "zone-out", "m5.large"
	s.limit(sandboxaws.Offering{Type: kind, Zone: "eu-west-1a"}, 0)
	s.addPool(pool, []string{onDemand}, kind)
	s.addPod(pool)
	if got := s.waitForNodeWithPod(pool); got.Zone != "eu-west-1b" {
		s.Errorf("%v is not in the next zone", got)
	}
	if tried := s.fleets(kind); len(tried) != 1 {
		s.Errorf("it took %d launches: %v", len(tried), tried)
	}
}

// typeIsOut: c5.xlarge is the cheaper of the two.
func (s engineSuite) typeIsOut() {
	const pool = "type-out"
	s.limit(sandboxaws.Offering{Type: "c5.xlarge"}, 0)
	s.addPool(pool, []string{onDemand}, "c5.xlarge", "m5.xlarge")
	s.addPod(pool)
	if got := s.waitForNodeWithPod(pool); got.Type != "m5.xlarge" {
		s.Errorf("%v is not of the next type", got)
	}
}

func (s engineSuite) spotIsOut() {
	const pool, kind = "spot-out", "r5.large"
	if err := s.AWS.Refuse(sandboxaws.Offering{Type: kind, CapacityType: spot}, "MaxSpotInstanceCountExceeded"); err != nil {
		s.Fatal(err)
	}
	s.addPool(pool, []string{spot, onDemand}, kind)
	s.addPod(pool)
	if got := s.waitForNodeWithPod(pool); got.CapacityType != onDemand {
		s.Errorf("%v is not on-demand", got)
	}
	// One in vain for spot, in all zones at once, and one that launched.
	if tried := s.fleets(kind); len(tried) != 2 {
		s.Errorf("it took %d launches: %v", len(tried), tried)
	}
}

// fleetIsPartial: four pods that keep apart ask for four nodes at the same time.
// EC2 has two of the cheaper type, and makes the others of the next.
func (s engineSuite) fleetIsPartial() {
	const pool, cheap, dear, replicas = "partial", "m5ad.large", "m5ad.xlarge", 4
	s.limit(sandboxaws.Offering{Type: cheap}, 2)
	s.addPool(pool, []string{onDemand}, cheap, dear)
	s.addDeployment(pool, replicas)
	s.eventually("each pod has a node", func() error {
		pods, err := s.pods(pool)
		if err != nil {
			return err
		}
		claims, err := s.claims(pool)
		if err != nil {
			return err
		}
		on, kinds := map[string]bool{}, map[string]int{}
		for _, pod := range pods {
			on[pod.Spec.NodeName] = pod.Status.Phase == corev1.PodRunning
		}
		for _, i := range s.living(pool) {
			if on[i.DNSName] {
				kinds[i.Type]++
			}
		}
		if len(pods) != replicas || len(claims) != replicas || len(s.living(pool)) != replicas || kinds[cheap] != 2 || kinds[dear] != 2 {
			return fmt.Errorf("%d pods, %d NodeClaims, instances %v", len(pods), len(claims), s.living(pool))
		}
		return nil
	})
}

// launchIsThrottled: EC2 refuses the launch over its quota, more often than the
// SDK tries again by itself.
func (s engineSuite) launchIsThrottled() {
	s.launchOnce("throttled", "c5a.large", 5, sandboxaws.Fault{Throttle: true})
}

// launchIsUnanswered: EC2 launches and the answer is lost. The SDK asks again
// with the same token.
func (s engineSuite) launchIsUnanswered() {
	s.launchOnce("unanswered", "c5a.2xlarge", 1, sandboxaws.Fault{Code: "InternalError", Status: 500, Lost: true})
}

// launchOnce proves that a launch that fails so often is made once in the end.
func (s engineSuite) launchOnce(pool, kind string, times int, f sandboxaws.Fault) {
	s.Helper()
	s.addPool(pool, []string{onDemand}, kind)
	f.Service, f.Operation, f.Match, f.Times = "ec2", "CreateFleet", kind, times
	s.inject(f)
	s.addPod(pool)
	s.waitForNodeWithPod(pool)
	if tried := s.fleets(kind); len(tried) != times+1 || tried[times].Code != "" {
		s.Errorf("the launches were %v", tried)
	}
	launched := 0
	for _, i := range s.AWS.Instances() {
		if i.Type == kind {
			launched++
		}
	}
	if launched != 1 {
		s.Errorf("%d instances were launched", launched)
	}
}

// famine is a pod that no capacity is left for.
type famine struct {
	pool, kind string
	began      time.Time
}

// capacityEnds leaves a pod without capacity anywhere: it stays pending, events
// say why, and AWS is not asked again and again. Karpenter remembers for three
// minutes what was sold out, so the end of this comes later in the suite.
func (s engineSuite) capacityEnds() *famine {
	f := &famine{pool: "famine", kind: "r5.xlarge", began: time.Now()}
	out := sandboxaws.Offering{Type: f.kind}
	if err := s.AWS.SetCapacity(out, 0); err != nil {
		s.Fatal(err)
	}
	s.addPool(f.pool, []string{spot, onDemand}, f.kind)
	s.addPod(f.pool)
	s.eventually("everything was tried", func() error {
		claims, err := s.claims(f.pool)
		if tried := s.fleets(f.kind); err == nil && (len(tried) < 2 || len(claims) > 0) {
			err = fmt.Errorf("%d NodeClaims, launches %v", len(claims), tried)
		}
		return err
	})
	s.expectEvent(f.pool, "InsufficientCapacityError", f.pool)
	s.expectEvent(f.pool, "FailedScheduling", "Failed to schedule pod", f.pool)
	f.stillLasts(s)
	if err := s.AWS.SetCapacity(out, -1); err != nil {
		s.Fatal(err)
	}
	return f
}

// stillLasts proves that the pod waits, and that waiting costs no request.
func (f *famine) stillLasts(s engineSuite) {
	s.Helper()
	pods, err := s.pods(f.pool)
	if err != nil {
		s.Fatal(err)
	}
	if len(pods) != 1 || pods[0].Status.Phase != corev1.PodPending || len(s.living(f.pool)) != 0 {
		s.Errorf("pods %v, instances %v", pods, s.living(f.pool))
	}
	// Spot in all zones, then on-demand in all zones.
	if tried := s.fleets(f.kind); len(tried) != 2 {
		s.Errorf("%d launches were tried: %v", len(tried), tried)
	}
}

// ends: capacity has been there again for a while, and is asked for once more.
// What came to nothing because AWS was unwell just then does not count.
func (f *famine) ends(s engineSuite) {
	const recorded = 3 * time.Minute
	s.within(max(recorded-time.Since(f.began), 0)+waitTimeout, "the pod has its node", func() error {
		_, err := s.nodeWithPod(f.pool)
		return err
	})
	tried := slices.DeleteFunc(s.fleets(f.kind), func(call sandboxaws.Call) bool { return call.Code != "" })
	if len(tried) != 3 {
		s.Fatalf("%d launches were tried: %v", len(tried), tried)
	}
	s.Logf("capacity was asked for again %s after it was out", tried[2].Time.Sub(tried[1].Time).Round(time.Second))
}
