package e2e

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// awsIsUnwell: first EC2 answers nothing but errors; then its reads show the past
// for a while, as they may after a launch.
func (s engineSuite) awsIsUnwell() {
	const pool, other = "unwell", "stale"
	s.addPool(pool, []string{onDemand}, "c5.large")
	s.addPool(other, []string{onDemand}, "c5a.xlarge")
	before := s.AWS.Instances()

	throttled := s.inject(sandboxaws.Fault{Service: "ec2", Throttle: true})
	s.addPod(pool)
	s.failures("RequestLimitExceeded", 10)
	throttled()
	broken := s.inject(sandboxaws.Fault{Code: "InternalError", Status: 500})
	s.failures("InternalError", 10)
	broken()
	ended := time.Now()
	s.waitForNodeWithPod(pool)
	s.Logf("a node %s after AWS was well again", since(ended))

	recovered := s.inject(sandboxaws.Fault{Service: "ec2", Operation: "DescribeInstances", Stale: true})
	s.addPod(other)
	launched := s.waitForNodeWithPod(other)
	// Every round reads all instances, and does not find the new one.
	s.waitForInstanceLists(2)
	if now, err := s.nodeWithPod(other); err != nil || now.ID != launched.ID {
		s.Errorf("while EC2 did not show %v: %v, %v", launched, now, err)
	}
	recovered()
	s.waitForInstanceLists(2)
	if now, err := s.nodeWithPod(other); err != nil || now.ID != launched.ID {
		s.Errorf("after EC2 showed %v: %v, %v", launched, now, err)
	}
	for _, i := range before {
		if i.State == sandboxaws.Running && len(s.terminations(i.ID)) > 0 {
			s.Errorf("%v was terminated", i)
		}
	}
}

// failures waits until so many more calls have ended with the code.
func (s engineSuite) failures(code string, n int) {
	s.Helper()
	from := len(s.AWS.Calls())
	s.eventually("AWS has failed often enough", func() error {
		observed := 0
		for _, call := range s.AWS.Calls()[from:] {
			if call.Code == code {
				observed++
			}
		}
		return more(observed, n-1)
	})
}

// waitForInstanceLists waits for so many more rounds of the engine over all instances.
func (s engineSuite) waitForInstanceLists(n int) {
	s.Helper()
	from := len(s.AWS.Calls())
	s.within(2*waitTimeout, "the engine has listed all instances", func() error {
		observed := 0
		for _, call := range s.AWS.Calls()[from:] {
			if call.Operation == "DescribeInstances" && call.Done && strings.Contains(call.Params, "tag-key") {
				observed++
			}
		}
		return more(observed, n-1)
	})
}

// apiServerIsAway: it dies when an empty node is about to be taken away and when
// the answer to a launch is on its way.
func (s engineSuite) apiServerIsAway() {
	const pool, kind = "midway", "c5.2xlarge"
	s.addPool(pool, []string{onDemand}, kind)
	s.addPod(gpuPool)
	empty := s.waitForNodeWithPod(gpuPool)
	s.dropPod(gpuPool)
	s.inject(sandboxaws.Fault{Service: "ec2", Operation: "CreateFleet", Match: kind, Delay: 20 * time.Second, Times: 1})
	s.addPod(pool)
	s.eventually("the launch is made", func() error { return more(len(s.living(pool)), 0) })
	// From here on Karpenter takes fifteen seconds to make sure that it is empty.
	s.setConsolidation("5s")
	s.eventually("the empty node may be consolidated", func() error {
		claims, err := s.claims(gpuPool)
		if err != nil {
			return err
		}
		if len(claims) != 1 || !claims[0].StatusConditions().Get(karpv1.ConditionTypeConsolidatable).IsTrue() {
			return fmt.Errorf("NodeClaims %+v", claims)
		}
		return nil
	})

	if err := s.KillAPIServer(); err != nil {
		s.Fatal(err)
	}
	killed := time.Now()
	s.pass(20 * time.Second)
	for _, end := range s.terminations("") {
		if end.Time.After(killed) {
			s.Errorf("an instance was terminated without an API server: %v", end)
		}
	}
	if err := s.StartAPIServer(s.Context()); err != nil {
		s.Fatal(err)
	}
	back := time.Now()
	s.within(2*waitTimeout, "the empty node is gone", func() error {
		claims, err := s.claims(gpuPool)
		if err == nil && len(claims)+len(s.living(gpuPool)) > 0 {
			err = fmt.Errorf("%d NodeClaims, instances %v", len(claims), s.living(gpuPool))
		}
		return err
	})
	s.Logf("the empty node was gone %s after the API server came back", since(back))
	if ended := s.terminations(empty.ID); len(ended) == 0 || ended[0].Time.Before(back) {
		s.Errorf("%v was terminated by %v; the API server was back at %s", empty, ended, back)
	}
	s.waitForNodeWithPod(pool)
	s.Logf("the launch in between had settled %s after the API server came back", since(back))
	s.claimsAreUnique()
}

// setConsolidation changes how soon the GPU pool's empty nodes go.
func (s engineSuite) setConsolidation(after string) {
	s.Helper()
	pool := &karpv1.NodePool{}
	pool.Name = gpuPool
	patch := fmt.Sprintf(`{"spec":{"disruption":{"consolidateAfter":%q}}}`, after)
	if err := s.hand.Patch(s.Context(), pool, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.Fatal(err)
	}
}

// claimsAreUnique proves that no NodeClaim ever had two registered instances.
func (s engineSuite) claimsAreUnique() {
	s.Helper()
	owners := map[string]string{}
	for _, i := range s.AWS.Instances() {
		claim := i.Tags["karpenter.sh/nodeclaim"]
		if other := owners[claim]; claim != "" && other != "" {
			s.Errorf("NodeClaim %s had both %s and %s", claim, other, i.ID)
		}
		owners[claim] = i.ID
	}
}
