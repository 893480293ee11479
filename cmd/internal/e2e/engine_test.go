package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// step is one step of a suite, by its name.
type step struct {
	name string
	run  func(engineSuite)
}

// runSteps runs the steps that trouble the whole engine.
func runSteps(s engineSuite, parts ...step) {
	for _, p := range parts {
		s.T.Run(p.name, func(t *testing.T) { p.run(s.in(t)) })
	}
}

// runParallel runs steps that know nothing of one another at the same time. They
// wait and do no work, so they take no turn from other tests, as t.Parallel would.
func runParallel(s engineSuite, parts ...step) {
	var all sync.WaitGroup
	for _, p := range parts {
		all.Go(func() { runSteps(s, p) })
	}
	all.Wait()
}

// Each of these is one long suite in one environment, because every start of the engine
// costs seconds.

func TestTheEngineOutlastsAWS(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := newEngineFixture(t, "--metrics-addr="+address)
	famine := s.capacityEnds()
	s.awaitSeries(s.eventually, address, "PoolwrightNodeLaunchErrors")
	s.awaitSeries(s.eventually, address, "karpenter_cloudprovider_instance_launch_failures_total")
	runParallel(s,
		step{"a zone without capacity is passed over", engineSuite.zoneIsOut},
		step{"a type without capacity is passed over", engineSuite.typeIsOut},
		step{"spot without capacity becomes on-demand", engineSuite.spotIsOut},
		step{"a fleet that is launched in part is completed", engineSuite.fleetIsPartial},
		step{"a launch that is throttled is made later", engineSuite.launchIsThrottled},
		step{"a launch without a response is not made again", engineSuite.launchIsUnanswered},
		step{"an instance that is terminated in the console is replaced", engineSuite.consoleTerminates},
		step{"an instance whose retirement is scheduled is replaced before", engineSuite.retirementIsScheduled},
		step{"a node stays where a rebalance is recommended", engineSuite.rebalanceIsRecommended},
		step{"a spot instance is replaced before its interruption", engineSuite.spotIsInterrupted},
		step{"a node that takes as long to join as on EKS is waited for", engineSuite.nodeTakesItsTime},
		step{"an instance that never registers is replaced when its time is up", engineSuite.nodeNeverJoins},
	)
	runSteps(s,
		step{"AWS that throttles, fails and returns stale data is survived", engineSuite.awsIsUnwell},
		step{"capacity that comes back is used", famine.ends},
		step{"in the end nothing is left over", engineSuite.nothingLeaks},
	)
	if held := s.logged("The engine is held"); len(held) > 0 {
		t.Errorf("the engine was held: %v", held)
	}
}

func TestTheEngineSurvivesRestarts(t *testing.T) {
	t.Parallel()
	s := newEngineFixture(t)
	runSteps(s,
		step{"an outage of the API server ends no node by accident", engineSuite.apiServerIsAway},
		step{"a kill between CreateFleet and its note leaves one instance", engineSuite.killedInALaunch},
		step{"of two replicas one acts, and the other finishes what a kill interrupts", engineSuite.standbyTakesOver},
		step{"changed settings restart the engine once, invalid ones never", engineSuite.settingsChange},
		step{"Auto Mode holds the engine and nothing else", engineSuite.autoModeHolds},
		step{"in the end nothing is left over", engineSuite.nothingLeaks},
	)
}

// nothingLeaks is what every suite ends with: instances, NodeClaims and nodes are
// the same, one for one, no pod waits, and nothing has panicked.
func (s engineSuite) nothingLeaks() {
	s.within(2*waitTimeout, "all is stable", func() error {
		var claims karpv1.NodeClaimList
		var nodes corev1.NodeList
		var pods corev1.PodList
		for _, err := range []error{s.hand.List(s.Context(), &claims), s.hand.List(s.Context(), &nodes), s.hand.List(s.Context(), &pods)} {
			if err != nil {
				return err
			}
		}
		owners := map[string]int{}
		for _, claim := range claims.Items {
			owners[claim.Status.ProviderID[strings.LastIndexByte(claim.Status.ProviderID, '/')+1:]]++
		}
		for _, node := range nodes.Items {
			if _, ours := node.Labels[karpv1.NodePoolLabelKey]; ours {
				owners[node.Spec.ProviderID[strings.LastIndexByte(node.Spec.ProviderID, '/')+1:]] += 10
			}
		}
		for _, i := range s.AWS.Instances() {
			if !over(i.State) {
				owners[i.ID] += 100
			}
		}
		for id, all := range owners {
			if all != 111 {
				return fmt.Errorf("%q has %d instances, %d nodes, %d NodeClaims", id, all/100, all/10%10, all%10)
			}
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
	for _, texts := range []string{"Observed a panic", "recovered from a panic", "goroutine 1 ["} {
		if lines := s.logged(texts); len(lines) > 0 {
			s.Errorf("the controller panicked: %v", lines)
		}
	}
}
