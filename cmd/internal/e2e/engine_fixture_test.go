package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
	"github.com/poolwright/poolwright/provision/sandbox/process"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
)

// engineFixture is a second environment, with the engine on: the cluster and the AWS
// account of examples/altanova, and its objects. All of its tests share the one
// controller, so they say which of them may run beside others.
type engineFixture struct {
	aws sandboxaws.Config
	// pools are the example's, by name.
	pools map[string]*karpv1.NodePool
	// neverJoins has, by instance type, the ID of the machine that never joins; ""
	// until the first machine of that type is launched, which then is the one.
	neverJoins *sync.Map
	// flags are what the controllers are started with, beside the usual.
	flags []string
	// now is the controller's newest life.
	now *process.Process
}

// engineSystem is the controller's namespace there.
const engineSystem = "poolwright-system"

// engineSuite is one test's part of that environment.
type engineSuite struct {
	fixture
	*engineFixture
}

// newEngineFixture starts the environment and the controller with further flags, and returns once
// the engine runs and its pools are ready.
func newEngineFixture(t *testing.T, flags ...string) engineSuite {
	t.Helper()
	config := sandbox.DefaultConfig()
	config.WithoutGit = true // where a test needs Git, it takes the other environment's
	config.AWS.Region, config.AWS.Account = "eu-west-1", "111122223333"
	config.AWS.Cluster.Name = "altanova-dev-euw1-eks"
	config.AWS.Roles = []string{"altanova-dev-euw1-eks-karpenter-node"}
	config.AWS.Queues = []string{"altanova-dev-euw1-eks"}
	config.AWS.Delays.Fleet, config.AWS.Delays.Running, config.AWS.Delays.Shutdown = 500*time.Millisecond, time.Second, time.Second
	config.Nodes = nodes.Delays{Join: 500 * time.Millisecond, NodeGone: time.Second}
	neverJoins := &sync.Map{}
	config.Fault = func(m nodes.Machine) nodes.Fault {
		if m.Type == slowType {
			return nodes.Fault{JoinsLater: realJoin}
		}
		neverJoins.CompareAndSwap(m.Type, "", m.ID)
		id, found := neverJoins.Load(m.Type)
		return nodes.Fault{NeverJoins: found && id == m.ID}
	}
	started := sandboxtest.Start(t, config)
	s := engineSuite{newFixture(t, started), &engineFixture{aws: config.AWS, neverJoins: neverJoins, pools: map[string]*karpv1.NodePool{}, flags: flags}}
	t.Cleanup(func() {
		if s.now != nil && t.Failed() {
			t.Log(logTail(s.now.Log()))
		}
	})
	s.start()
	s.createExample()
	s.engineRuns()
	return s
}

// in is the step as a subtest sees it.
func (s engineSuite) in(t *testing.T) engineSuite {
	s.T = t
	return s
}

// start begins the controller's next life. All lives write to the same log.
func (s engineSuite) start() {
	s.Helper()
	s.startReplica("poolwright")
}

// startReplica starts a controller, which is then the one to watch.
func (s engineSuite) startReplica(name string) {
	s.Helper()
	var err error
	s.now, err = s.Environment.Run(name, binary, append([]string{"run", "--namespace=" + engineSystem,
		"--cache-dir=" + filepath.Join(s.Dir, "caches-"+name), "--metrics-addr=0", "--health-addr=0"}, s.flags...)...)
	if err != nil {
		s.Fatal(err)
	}
}

// createExample creates what the example declares, as its Sync would, with a
// short batch window: no test here has pods to wait for.
func (s engineSuite) createExample() {
	s.Helper()
	found, err := declared.Load(os.DirFS(filepath.Join("..", "..", "..", "examples", "altanova")), "clusters/dev", declared.Options{})
	if err != nil || len(found.Problems) > 0 {
		s.Fatal(err, found.Problems)
	}
	for _, item := range found.Set.Items() {
		object := &unstructured.Unstructured{Object: item.Object}
		object = object.DeepCopy()
		switch object.GetKind() {
		case "NodePool":
			pool := &karpv1.NodePool{}
			if err := clientgoscheme.Scheme.Convert(object, pool, nil); err != nil {
				s.Fatal(err)
			}
			s.pools[pool.Name] = pool
		case "DevicePlugin":
			// No Sync makes anything of it here.
			object = &unstructured.Unstructured{Object: s.stockPlugin()}
		case "Cluster":
			if err := unstructured.SetNestedField(object.Object, "100ms", "spec", "engine", "batchIdleDuration"); err != nil {
				s.Fatal(err)
			}
		}
		// The controller brings the kinds.
		s.eventually("the kind of "+object.GetKind()+" is there", func() error { return s.hand.Create(s.Context(), object.DeepCopy()) })
	}
}

// stockPlugin is NVIDIA's plugin as a plain DaemonSet.
func (s engineSuite) stockPlugin() (object map[string]any) {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "device-plugin.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &object)
	}
	if err != nil {
		s.Fatal(err)
	}
	return object
}

// engineRuns waits until the newest settings run and the example's pools can be
// launched from.
func (s engineSuite) engineRuns() {
	s.Helper()
	s.eventually("the engine runs", func() error { return s.isReady("EngineRunning", metav1.ConditionTrue) })
	s.eventually("the pools are ready", func() error {
		var pools karpv1.NodePoolList
		if err := s.hand.List(s.Context(), &pools); err != nil {
			return err
		}
		for _, pool := range pools.Items {
			if !pool.StatusConditions().Root().IsTrue() {
				return fmt.Errorf("NodePool %s: %+v", pool.Name, pool.Status.Conditions)
			}
		}
		return nil
	})
}

// cluster reads the Cluster object.
func (s engineSuite) cluster() (*v1alpha1.Cluster, error) {
	var c v1alpha1.Cluster
	return &c, s.hand.Get(s.Context(), client.ObjectKey{Name: "cluster"}, &c)
}

// isReady says how the Cluster's condition Ready differs, or nil.
func (s engineSuite) isReady(reason string, status metav1.ConditionStatus) error {
	c, err := s.cluster()
	if err != nil {
		return err
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
	if ready == nil || ready.Reason != reason || ready.Status != status || ready.ObservedGeneration != c.Generation {
		return fmt.Errorf("generation %d, Ready is %+v", c.Generation, ready)
	}
	return nil
}

// engineSet changes the engine's settings by a merge patch.
func (s engineSuite) engineSet(patch string) {
	s.Helper()
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	if err := s.hand.Patch(s.Context(), c, mergePatch(`{"spec":{"engine":`+patch+`}}`)); err != nil {
		s.Fatal(err)
	}
}

// eventually is within the ordinary patience.
func (s engineSuite) eventually(what string, check func() error) {
	s.Helper()
	s.within(waitTimeout, what, check)
}

// within is eventually for so long.
func (s engineSuite) within(limit time.Duration, what string, check func() error) {
	s.Helper()
	s.poll(100*time.Millisecond, limit, what, check)
}

// poll calls check at this interval until it returns nil, for at most limit, or until
// the controller or the environment ends.
func (s engineSuite) poll(interval, limit time.Duration, what string, check func() error) {
	s.Helper()
	s.waitUntil(func() *process.Process { return s.now }, interval, limit, what, check)
}

// pass lets time go by while something lasts that a test inflicts.
func (s engineSuite) pass(d time.Duration) {
	s.Helper()
	select {
	case <-time.After(d):
	case <-s.Environment.Done():
		s.Fatal(s.Environment.Err())
	}
}

// logged returns the lines of all controllers' logs that hold all the words, log
// by log.
func (s engineSuite) logged(texts ...string) (lines []string) {
	s.Helper()
	logs, err := filepath.Glob(filepath.Join(s.Dir, "logs", "poolwright*.log"))
	if err != nil || len(logs) == 0 {
		s.Fatalf("no log of a controller: %v", err)
	}
	for _, path := range logs {
		content, err := os.ReadFile(path)
		if err != nil {
			s.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
