package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// devicePlugin reads the object.
func (g gpuSuite) devicePlugin() (*v1alpha1.DevicePlugin, error) {
	var plugin v1alpha1.DevicePlugin
	return &plugin, g.hand.Get(g.Context(), client.ObjectKey{Name: "nvidia"}, &plugin)
}

// poolStatus is what the DevicePlugin's status says of a pool; the zero value
// where it says nothing.
func (g gpuSuite) poolStatus(pool string) (v1alpha1.GPUPoolStatus, error) {
	plugin, err := g.devicePlugin()
	if err != nil {
		return v1alpha1.GPUPoolStatus{}, err
	}
	for _, p := range plugin.Status.Pools {
		if p.Name == pool {
			return p, nil
		}
	}
	return v1alpha1.GPUPoolStatus{}, nil
}

// agrees waits until all that counts a pool's GPUs has the same numbers: nodes,
// what we vouch for, Karpenter's overlay and the status; and until each node runs
// the plugin that its DaemonSet declares.
func (g gpuSuite) agrees(pool, config string, strategy gpu.PluginConfig, many int) {
	g.Helper()
	g.until(fmt.Sprintf("%d nodes of pool %s agree with configuration %s", many, pool, config), func() error {
		nodes, err := g.gpuNodes(pool)
		if err != nil {
			return err
		}
		if len(nodes) != many {
			return fmt.Errorf("there are %d nodes", len(nodes))
		}
		offer := strategy.Allocatable(gpusPerMachine)
		revision, err := g.declaredRevision(config)
		if err != nil {
			return err
		}
		plugins := g.pluginPods(config)
		for i := range nodes {
			node, name := &nodes[i], nodes[i].Name
			if differs := offer.Differs(node.Status.Allocatable); differs != "" || held(node) || node.Annotations[gpu.AllocatableAnnotation] != offer.String() {
				return fmt.Errorf("node %s differs: %q, is held: %t, and we vouch for %q", name, differs, held(node), node.Annotations[gpu.AllocatableAnnotation])
			}
			if got := plugins[name].Annotations[gpu.PluginHashAnnotation]; got != revision {
				return fmt.Errorf("the plugin on %s is of revision %q, declared is %q", name, got, revision)
			}
		}
		got, err := g.overlayOffer(config)
		if err != nil || got != offer.String() {
			return fmt.Errorf("the overlay says %q, %w", got, err)
		}
		return g.statusIs(pool, many, offer)
	})
}

// statusIs compares the status of a pool that has no trouble.
func (g gpuSuite) statusIs(pool string, many int, each gpu.Resources) error {
	p, err := g.poolStatus(pool)
	if err != nil {
		return err
	}
	for name, n := range each {
		if p.Allocatable[string(name)] != n*int64(many) {
			return fmt.Errorf("the status of pool %s is %+v", pool, p)
		}
	}
	if int(p.Nodes) != many || int(p.UpdatedNodes) != many || len(p.UnhealthyNodes) > 0 || p.PluginUpdate != "" {
		return fmt.Errorf("the status of pool %s is %+v", pool, p)
	}
	return nil
}

// pluginReady waits until the DevicePlugin, as it is declared now, is or is not
// ready for the reason, and returns the message.
func (g gpuSuite) pluginReady(status metav1.ConditionStatus, reason string) (message string) {
	g.Helper()
	g.until("the DevicePlugin's Ready is "+string(status)+", "+reason, func() error {
		plugin, err := g.devicePlugin()
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(plugin.Status.Conditions, "Ready")
		if ready == nil || ready.Status != status || ready.Reason != reason || ready.ObservedGeneration != plugin.Generation {
			return fmt.Errorf("at generation %d it is %+v", plugin.Generation, ready)
		}
		message = ready.Message
		return nil
	})
	return message
}

// freeAddress is one of this machine's that nobody listens on, and that nobody is given
// who listens on any port: those come from 32768 on.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer func() { _ = listener.Close() }()
			return listener.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// metric adds up the series of a name whose labels hold all the words.
func (g gpuSuite) metric(address, name string, texts ...string) (sum float64) {
	g.Helper()
	var text string
	// A controller that loses its lease, as on a busy machine, is away for a moment.
	g.until("the metrics are served", func() (err error) {
		text, err = g.scrape(address)
		return err
	})
series:
	for line := range strings.Lines(text) {
		labels, found := strings.CutPrefix(strings.TrimSpace(line), name)
		if !found || labels == "" || labels[0] != '{' && labels[0] != ' ' {
			continue
		}
		for _, part := range texts {
			if !strings.Contains(labels, part) {
				continue series
			}
		}
		value, err := strconv.ParseFloat(labels[strings.LastIndexByte(labels, ' ')+1:], 64)
		if err != nil {
			g.Fatal(err)
		}
		sum += value
	}
	return sum
}
