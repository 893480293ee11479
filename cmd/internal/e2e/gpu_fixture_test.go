package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// gpuSuite is an environment for examples/timeslicing: its classes, and pools of
// g4dn.12xlarge, which has four GPUs. All that the cluster holds comes through a
// Sync, except pods.
type gpuSuite struct {
	engineSuite
	git *gitLoop
	*gpuMachines
}

// gpuMachines is what goes on in the machines of a gpuSuite.
type gpuMachines struct {
	// faults are what goes wrong on a pool's machines, by its name.
	faults   sync.Map
	mu       sync.Mutex
	observed []nodes.Notice
}

// The machine of all GPU pools here, and what it has.
const (
	gpuMachine     = "g4dn.12xlarge"
	gpusPerMachine = 4
	cpusPerMachine = 48
	gpuRegion      = "us-east-1"
)

// poolLabel finds the NodePool in the user data of a machine.
var poolLabel = regexp.MustCompile(regexp.QuoteMeta(karpv1.NodePoolLabelKey) + `=([a-z0-9-]+)`)

func (m *gpuMachines) fault(machine nodes.Machine) nodes.Fault {
	if found := poolLabel.FindStringSubmatch(machine.UserData); found != nil {
		if f, ok := m.faults.Load(found[1]); ok {
			return f.(nodes.Fault)
		}
	}
	return nodes.Fault{}
}

func (m *gpuMachines) notify(n nodes.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observed = append(m.observed, n)
}

// notices are those of an event whose message holds the words.
func (m *gpuMachines) notices(event nodes.Event, texts string) (found []nodes.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.observed {
		if n.Event == event && strings.Contains(n.Message, texts) {
			found = append(found, n)
		}
	}
	return found
}

// refused counts the pods of that name's beginning that a kubelet did not admit.
func (m *gpuMachines) refused(prefix string) int {
	return len(m.notices(nodes.Rejected, "pod default/"+prefix))
}

// newGPUFixture starts the environment, a controller with the given further arguments and
// a Sync, and returns when the repository's first commit, which holds a Cluster,
// the classes and the given files, is applied and the engine runs.
func newGPUFixture(t *testing.T, name string, files map[string]string, args ...string) gpuSuite {
	t.Helper()
	config := sandbox.DefaultConfig()
	config.WithoutGit = true // the other environment's serves
	config.AWS.Region, config.AWS.Account = gpuRegion, "111122223333"
	config.AWS.Cluster.Name = "gpu-timeslicing"
	config.AWS.Roles = []string{"KarpenterNodeRole-gpu-timeslicing"}
	config.AWS.Delays.Fleet, config.AWS.Delays.Running, config.AWS.Delays.Shutdown = 500*time.Millisecond, time.Second, time.Second
	config.Nodes = nodes.Delays{Join: 500 * time.Millisecond, NodeGone: time.Second, PluginRetry: time.Second, CrashBackOff: 100 * time.Millisecond}
	machines := &gpuMachines{}
	config.Fault, config.Notify = machines.fault, machines.notify
	started := sandboxtest.Start(t, config)
	g := gpuSuite{engineSuite: engineSuite{newFixture(t, started), &engineFixture{aws: config.AWS}}, gpuMachines: machines}
	t.Cleanup(func() {
		if g.now != nil && t.Failed() {
			t.Log(logTail(g.now.Log()))
		}
	})
	g.runs(args...)
	g.eventually("the controller has brought its namespace and kinds", func() error {
		var syncs v1alpha1.SyncList
		if err := g.hand.List(t.Context(), &syncs); err != nil {
			return err
		}
		return g.hand.Get(t.Context(), client.ObjectKey{Name: engineSystem}, &corev1.Namespace{})
	})
	g.git = g.followGit(name)
	g.variables()
	g.declare("Declare the cluster", files, map[string]string{"cluster.yaml": gpuCluster, "classes.yaml": g.example("clusters/dev/nodeclasses.yaml")})
	g.engineRuns()
	return g
}

// gpuCluster declares nothing of AWS: what the nodes need is there.
const gpuCluster = `apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: cluster}
spec: {name: gpu-timeslicing, region: us-east-1, account: "111122223333"}
`

// example reads a file of examples/timeslicing.
func (g gpuSuite) example(name string) string {
	g.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "timeslicing", name))
	if err != nil {
		g.Fatal(err)
	}
	return string(text)
}

// variables gives the Sync those of the example's, images of SSM parameters among them.
func (g gpuSuite) variables() {
	g.Helper()
	var of v1alpha1.Sync
	if err := yaml.Unmarshal([]byte(g.example("sync.yaml")), &of); err != nil {
		g.Fatal(err)
	}
	spec, err := json.Marshal(map[string]any{"spec": map[string]any{"substitute": of.Spec.Substitute, "substituteFrom": of.Spec.SubstituteFrom}})
	if err != nil {
		g.Fatal(err)
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: g.git.name, Namespace: engineSystem}}
	if err := g.hand.Patch(g.Context(), sync, mergePatch(string(spec))); err != nil {
		g.Fatal(err)
	}
}

// in is the step as a subtest sees it.
func (g gpuSuite) in(s engineSuite) gpuSuite {
	g.engineSuite = s
	return g
}

// runs begins the controller's next life, with further arguments.
func (g gpuSuite) runs(args ...string) {
	g.Helper()
	args = append([]string{"run", "--namespace=" + engineSystem, "--cache-dir=" + filepath.Join(g.Dir, "caches-poolwright"), "--health-addr=0"}, args...)
	if !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--metrics-addr=") }) {
		args = append(args, "--metrics-addr=0")
	}
	var err error
	if g.now, err = g.Environment.Run("poolwright", binary, args...); err != nil {
		g.Fatal(err)
	}
}

// declare commits files, where an empty one means none, and waits until the Sync
// has applied them.
func (g gpuSuite) declare(message string, files ...map[string]string) {
	g.Helper()
	g.commits(message, files...)
	g.eventually("the Sync is ready: "+message, func() error {
		sync, err := g.sync()
		if err != nil {
			return err
		}
		return isReady(sync, g.git.repo.revision())
	})
}

// commits is declare without the wait.
func (g gpuSuite) commits(message string, files ...map[string]string) {
	g.Helper()
	for _, some := range files {
		for name, text := range some {
			if text == "" {
				g.git.repo.remove("config/" + name)
				continue
			}
			g.git.repo.write("config/"+name, text)
		}
	}
	g.git.repo.commit(message)
	g.requests()
}

// requests has the Sync look now, as `poolwright reconcile` does.
func (g gpuSuite) requests() string {
	g.Helper()
	token := time.Now().Format(time.RFC3339Nano)
	g.annotates(fluxmeta.ReconcileRequestAnnotation, token)
	return token
}

// annotates writes an annotation of the Sync.
func (g gpuSuite) annotates(key, value string) {
	g.Helper()
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: g.git.name, Namespace: engineSystem}}
	if err := g.hand.Patch(g.Context(), sync, mergePatch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))); err != nil {
		g.Fatal(err)
	}
}

func (g gpuSuite) sync() (*v1alpha1.Sync, error) {
	var sync v1alpha1.Sync
	return &sync, g.hand.Get(g.Context(), client.ObjectKey{Namespace: engineSystem, Name: g.git.name}, &sync)
}

// until is eventually for many pods: it asks less often.
func (g gpuSuite) until(what string, check func() error) {
	g.Helper()
	g.poll(500*time.Millisecond, 2*waitTimeout, what, check)
}
