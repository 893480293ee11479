package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// part is one scene of a story, by its name.
type part struct {
	name string
	play func(scene)
}

// inTurn plays the scenes that trouble the whole engine.
func inTurn(s scene, parts ...part) {
	for _, p := range parts {
		s.T.Run(p.name, func(t *testing.T) { p.play(s.in(t)) })
	}
}

// sideBySide plays scenes that know nothing of one another at the same time. They
// wait and do no work, so they take no turn from other tests, as t.Parallel would.
func sideBySide(s scene, parts ...part) {
	var all sync.WaitGroup
	for _, p := range parts {
		all.Go(func() { inTurn(s, p) })
	}
	all.Wait()
}

// Each of these is one long story in one world, because every start of the engine
// costs seconds.

func TestTheEngineOutlastsAWS(t *testing.T) {
	t.Parallel()
	s := newEngineWorld(t)
	famine := s.capacityEnds()
	sideBySide(s,
		part{"a zone without capacity is passed over", scene.zoneIsOut},
		part{"a type without capacity is passed over", scene.typeIsOut},
		part{"spot without capacity becomes on-demand", scene.spotIsOut},
		part{"a fleet that is launched in part is completed", scene.fleetIsPartial},
		part{"a launch that is throttled is made later", scene.launchIsThrottled},
		part{"a launch without an answer is not made again", scene.launchIsUnanswered},
		part{"an instance that is terminated in the console is replaced", scene.consoleTerminates},
		part{"a spot instance is replaced before its interruption", scene.spotIsInterrupted},
		part{"a node that takes as long to join as on EKS is waited for", scene.nodeTakesItsTime},
		part{"an instance that never registers is replaced when its time is up", scene.nodeNeverJoins},
	)
	inTurn(s,
		part{"AWS that throttles, fails and answers stale is survived", scene.awsIsUnwell},
		part{"capacity that comes back is used", famine.ends},
		part{"in the end nothing is left over", scene.nothingLeaks},
	)
	if held := s.logged("The engine is held"); len(held) > 0 {
		t.Errorf("the engine was held: %v", held)
	}
}

func TestTheEngineHasManyLives(t *testing.T) {
	t.Parallel()
	s := newEngineWorld(t)
	inTurn(s,
		part{"an outage of the API server ends no node by mistake", scene.apiServerIsAway},
		part{"a kill between CreateFleet and its note leaves one instance", scene.killedInALaunch},
		part{"of two replicas one acts, and the other finishes what a kill interrupts", scene.standbyTakesOver},
		part{"changed settings restart the engine once, invalid ones never", scene.settingsChange},
		part{"Auto Mode holds the engine and nothing else", scene.autoModeHolds},
		part{"in the end nothing is left over", scene.nothingLeaks},
	)
}

// nothingLeaks is what every story ends with: instances, NodeClaims and nodes are
// the same, one for one, no pod waits, and nothing has panicked.
func (s scene) nothingLeaks() {
	s.within(2*patience, "all is settled", func() error {
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
	for _, words := range []string{"Observed a panic", "recovered from a panic", "goroutine 1 ["} {
		if lines := s.logged(words); len(lines) > 0 {
			s.Errorf("the controller panicked: %v", lines)
		}
	}
}
