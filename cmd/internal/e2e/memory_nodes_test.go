package e2e

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// nodeCount is the number of nodes with which the memory of the controller is measured; 10, 100 and 1,000 are those of the chart's sizes.
var nodeCount = flag.Int("nodes", 10, "nodes with which TestTheControllerStaysSmallWithNodes measures the controller")

var syncObjects = flag.Int("sync-objects", 0, "objects, a multiple of 100, of a Sync beside the nodes of TestTheControllerStaysSmallWithNodes")

// smallMemLimit is GOMEMLIMIT of the chart's resources.clusterSize: Small, for about 10 nodes. Five times as many are to stay below it, too.
const smallMemLimit = 768 << 20

func TestTheControllerStaysSmallWithNodes(t *testing.T) {
	t.Parallel()
	const pool = "memory"
	s := newEngineFixture(t)
	s.addPool(pool, []string{onDemand}, "c5.large")
	if *nodeCount > 0 {
		s.onePodANode(pool, *nodeCount)
	}
	begin := time.Now()
	// So many nodes take many batches.
	s.poll(time.Second, waitTimeout+time.Duration(*nodeCount)*time.Second, fmt.Sprintf("%d nodes are ready", *nodeCount), func() error {
		claims, err := s.claims(pool)
		if err != nil {
			return err
		}
		ready := 0
		for _, c := range claims {
			if c.StatusConditions().Root().IsTrue() {
				ready++
			}
		}
		if ready != *nodeCount {
			return fmt.Errorf("%d of %d are", ready, len(claims))
		}
		return nil
	})
	if *syncObjects > 0 {
		s.followObjects(pool, *syncObjects)
	}
	m := memory(t, s.now.PID())
	t.Logf("with the engine, %d nodes, as many pods and %d objects, after %s: %s, %.0f s of CPU", *nodeCount, *syncObjects, since(begin), m, cpuSeconds(t, s.now.PID()))
	if *nodeCount <= 50 && m.peak > smallMemLimit {
		t.Errorf("the controller took %d MiB, more than %d", m.peak>>20, smallMemLimit>>20)
	}
}

// followObjects has a Sync apply so many ConfigMaps, and change one of them.
func (s engineSuite) followObjects(name string, n int) {
	s.Helper()
	g := s.followGit(name)
	writeObjects(g.repo, "default", n)
	for _, value := range []string{"v2", "v3"} {
		g.push(s, value)
		s.within(waitTimeout+time.Duration(n)*50*time.Millisecond, "the objects are applied", func() error {
			var sync v1alpha1.Sync
			if err := s.hand.Get(s.Context(), client.ObjectKey{Namespace: engineSystem, Name: name}, &sync); err != nil {
				return err
			}
			if int(sync.Status.Objects) != n+1 {
				return fmt.Errorf("%d of %d are", sync.Status.Objects, n+1)
			}
			return g.isReady(s, metav1.ConditionTrue, "")
		})
	}
}

// onePodANode creates pods of which a c5.large holds one.
func (s engineSuite) onePodANode(pool string, replicas int) {
	s.Helper()
	labels, many := map[string]string{"app": pool}, int32(replicas)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: pool, Namespace: "default"}}
	deployment.Spec.Replicas, deployment.Spec.Selector = &many, &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels, deployment.Spec.Template.Spec = labels, podSpec(pool)
	if err := s.hand.Create(s.Context(), deployment); err != nil {
		s.Fatal(err)
	}
}

// cpuSeconds is the processor time that a process has taken.
func cpuSeconds(t *testing.T, pid int) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// After the name in parentheses, which may hold blanks: utime and stime are the 12th and 13th field, in hundredths.
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields, ticks := strings.Fields(rest), 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return float64(ticks) / 100
}
