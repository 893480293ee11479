package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// The real Karpenter, of its own module, runs the nodes of a cluster; Poolwright
// takes over from it, and gives them back.
func TestTakingOverFromAKarpenterAndBack(t *testing.T) {
	t.Parallel()
	s := newStocked(t)
	for _, pool := range []string{"general", gpuPool} {
		s.addPod(pool)
	}
	for _, pool := range []string{"general", gpuPool} {
		s.waitForNodeWithPod(pool)
	}
	s.Log("Karpenter's nodes are there")
	before, err := s.incarnations()
	if err != nil || len(before) != 2 {
		t.Fatalf("%v, %v", before, err)
	}
	calls := len(s.AWS.Calls())

	guide := newPage(t, "howto/take-over-karpenter.md")
	s.installedBeside(guide)
	begin := time.Now()
	s.takesOverByThePages(guide)
	s.Logf("taking over took %s", since(begin))
	s.same(before, calls)
	s.adopted()
	s.provisions(before)
	s.nobodyLeaves()
	s.startsAgain()

	s.handsBack(guide)
}

// same proves that no node was replaced or is about to be.
func (s *stocked) same(before map[string]string, calls int) {
	s.Helper()
	after, err := s.incarnations()
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		s.Fatalf("nodes (-before +after):\n%s", diff)
	}
	if made := s.launchesAndEnds(calls); len(made) > 0 {
		s.Fatalf("instances came or went: %q", made)
	}
}

// installedBeside installs Poolwright while Karpenter leads, which holds the
// engine and nothing else: the Sync adopts what kubectl applied.
func (s *stocked) installedBeside(guide *page) {
	s.Helper()
	// What only bootstrap and a person make is not there, for which a plan exits with 2.
	s.guided().block(guide.take("poolwright plan"), exitCode{2})
	s.expect(s.bootstrap("--dry-run", "--branch=live"), 1, "Karpenter "+stockVersion+" runs here already: Deployment kube-system/karpenter, with 2 NodeClaims",
		"No node would be replaced", "to keep it, set spec.engine.batchIdleDuration: 500ms", "--take-over")
	s.expect(s.bootstrap("--yes", "--branch=live", "--take-over"), 2, "made ", "not taking over yet", "Secret git")
	s.secret()
	s.startInstalled()
	s.eventually("the engine is held", func() error { return s.isReady("OtherKarpenterRunning", metav1.ConditionFalse) })
	c, err := s.cluster()
	if err != nil {
		s.Fatal(err)
	}
	held := meta.FindStatusCondition(c.Status.Conditions, "EngineBlocked")
	s.Logf("EngineBlocked says: %s", held.Message)
	for _, text := range []string{stockNamespace + "/" + stockLease, "scale"} {
		if !strings.Contains(held.Message, text) {
			s.Errorf("EngineBlocked does not say %q: %s", text, held.Message)
		}
	}
	s.applied()
}

// applied waits until the newest commit is.
func (s *stocked) applied() {
	s.Helper()
	s.eventually("the newest commit is applied", func() error {
		sync := &v1alpha1.Sync{}
		if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: engineSystem, Name: "dev"}, sync); err != nil {
			return err
		}
		return isReady(sync, s.repo.revision())
	})
}

// guided is a shell in which the commands of the pages are those of nobody who can be prompted, for the followed branch.
func (s *stocked) guided() *shell {
	s.Helper()
	return newShell(s.fixture, s.repo, "poolwright bootstrap clusters/dev", "poolwright bootstrap clusters/dev --yes --branch=live --timeout=10m",
		"registry.example.com/poolwright:v1", "registry.example.com/poolwright:1", "--replicas=2", "--replicas=1")
}

// takesOver has the command stop Karpenter and wait for the engine.
func (s *stocked) takesOver() {
	s.Helper()
	got := s.bootstrap("--yes", "--branch=live", "--take-over")
	s.expect(got, 0, tookOver...)
	s.engineRuns()
}

// tookOver are texts of a command that has taken over.
var tookOver = []string{"all gates of the engine are open but one", "from 1 to 0 replicas", "the engine runs", "to go back", "--replicas=1"}

// takesOverByThePages does the same with the commands of the pages.
func (s *stocked) takesOverByThePages(guide *page) {
	s.Helper()
	// The tutorial has all three commands. Those of the guide find nothing to change any more.
	u := s.guided()
	got := u.block(newPage(s.T, "tutorials/from-flux-and-karpenter.md").take("poolwright bootstrap"), exitCode{0})
	u.prints(got, tookOver...)
	s.engineRuns()
	u.block(guide.take("poolwright bootstrap clusters/dev --image"), exitCode{0})
	u.block(guide.take("poolwright bootstrap clusters/dev --take-over"), exitCode{0})
}

// adopted proves that the pools are the Sync's, with what Karpenter wrote on them.
func (s *stocked) adopted() {
	s.Helper()
	var pools karpv1.NodePoolList
	if err := s.hand.List(s.Context(), &pools); err != nil {
		s.Fatal(err)
	}
	for _, pool := range pools.Items {
		managers := map[string]bool{}
		for _, m := range pool.ManagedFields {
			managers[m.Manager] = true
		}
		if !managers[v1alpha1.FieldManager] {
			s.Errorf("NodePool %s is managed by %v", pool.Name, slices.Sorted(maps.Keys(managers)))
		}
		if pool.Annotations[karpv1.NodePoolHashAnnotationKey] != pool.Hash() || pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != karpv1.NodePoolHashVersion {
			s.Errorf("NodePool %s has the annotations %v", pool.Name, pool.Annotations)
		}
	}
}

// provisions has the engine make a node of its own, and remove an empty one that
// it has not made.
func (s *stocked) provisions(before map[string]string) {
	s.Helper()
	empty := s.living("general")[0]
	s.dropPod("general")
	s.addCritical()
	s.waitForNodeWithPod("critical")
	s.eventually("the empty node is gone", func() error {
		if left := s.living("general"); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if ends := s.terminations(empty.ID); len(ends) == 0 || !slices.ContainsFunc(ends, func(c sandboxaws.Call) bool { return c.Code == "" }) {
		s.Errorf("%v was ended by %v", empty, ends)
	}
	now, err := s.incarnations()
	if err != nil {
		s.Fatal(err)
	}
	maps.DeleteFunc(before, func(_, one string) bool { return !strings.HasPrefix(one, gpuPool+" ") })
	maps.DeleteFunc(now, func(_, one string) bool { return !strings.HasPrefix(one, gpuPool+" ") })
	if diff := cmp.Diff(before, now); diff != "" || len(now) != 1 {
		s.Errorf("the GPU node (-before +after):\n%s", diff)
	}
}

// addCritical adds a pod that only the pool for critical workloads takes.
func (s *stocked) addCritical() {
	s.Helper()
	spec := podSpec("critical")
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: "workload", Operator: corev1.TolerationOpExists})
	if err := s.hand.Create(s.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "critical", Namespace: "default"}, Spec: spec}); err != nil {
		s.Fatal(err)
	}
}

// nobodyLeaves waits until two nodes are there, and none on its way out.
func (s *stocked) nobodyLeaves() {
	s.Helper()
	s.eventually("no NodeClaim is leaving", func() error {
		var claims karpv1.NodeClaimList
		if err := s.hand.List(s.Context(), &claims); err != nil {
			return err
		}
		if len(claims.Items) != 2 {
			return fmt.Errorf("%d NodeClaims", len(claims.Items))
		}
		return nil
	})
}

// startsAgain starts Karpenter beside the engine, as a forgotten helm upgrade does.
// The engine sees it, stops, and is the only one again after another take-over, with
// not a node touched by all of it.
func (s *stocked) startsAgain() {
	s.Helper()
	before, err := s.incarnations()
	if err != nil {
		s.Fatal(err)
	}
	earlier, err := os.ReadFile(s.now.Log())
	if err != nil {
		s.Fatal(err)
	}
	calls, begin := len(s.AWS.Calls()), time.Now()
	s.scaleStock(1)
	s.eventually("the engine is held", func() error { return s.isReady("OtherKarpenterRunning", metav1.ConditionFalse) })
	s.Logf("two ran for at most %s", since(begin))
	// Noticed by the look around, and not because all gates happened to be due.
	texts, err := os.ReadFile(s.now.Log())
	if err != nil {
		s.Fatal(err)
	}
	if !strings.Contains(string(texts[len(earlier):]), "Somebody else leads as well") {
		s.Error("the engine did not say why it stopped")
	}
	s.takesOver()
	s.same(before, calls)
}

// handsBack gives the nodes to Karpenter again, in the order of the guide.
func (s *stocked) handsBack(guide *page) {
	s.Helper()
	before, err := s.incarnations()
	if err != nil {
		s.Fatal(err)
	}
	calls := len(s.AWS.Calls())
	const file = "clusters/dev/cluster.yaml"
	text, err := os.ReadFile(filepath.Join(s.repo.dir, file))
	if err != nil {
		s.Fatal(err)
	}
	s.repo.write(file, strings.ReplaceAll(string(text), "mode: Embedded", "mode: External"))
	s.repo.commit("Leave the nodes to Karpenter")
	// With nodes, nobody but a person lets the engine stop.
	if got := s.types("reconcile", "dev"); got.code == 0 {
		s.Errorf("the engine stops without confirmation: %s%s", got.out, got.err)
	}
	u := s.guided()
	u.block(guide.take("token="), exitCode{0})
	s.expect(s.types("reconcile", "dev"), 0)
	u.block(guide.take("kubectl wait"), exitCode{0})
	stopped := time.Now()
	u.block(guide.take("kubectl -n kube-system scale"), exitCode{0})
	s.eventually("Karpenter leads again", s.stockLeads)
	s.Logf("nobody provisioned for %s", since(stopped))
	s.addPod("general")
	s.waitForNodeWithPod("general")
	after, err := s.incarnations()
	if err != nil {
		s.Fatal(err)
	}
	maps.DeleteFunc(after, func(_, one string) bool { return strings.HasPrefix(one, "general ") })
	if diff := cmp.Diff(before, after); diff != "" {
		s.Errorf("nodes (-before +after):\n%s", diff)
	}
	if calls := s.launchesAndEnds(calls); len(calls) != 1 {
		s.Errorf("instances came or went: %q", calls)
	}
}
