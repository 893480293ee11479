package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

// contender is a pool in the comparison, and what came of it.
type contender struct {
	strategy gpu.SharingStrategy
	renamed  bool
	ours     bool

	first, second    int // nodes after each wave
	running, refused int // pods
}

// The pods of each wave, and the shares of a GPU.
const (
	waveSize    = 40
	gpuReplicas = 10
)

// karpenterFails is how Karpenter's event begins about a pod that no pool is for;
// those of kube-scheduler have the same reason.
const karpenterFails = "Failed to schedule pod"

func contenders() (all []*contender) {
	for _, strategy := range []gpu.SharingStrategy{gpu.SharingStrategyTimeSlicing, gpu.SharingStrategyMPS} {
		for _, renamed := range []bool{false, true} {
			for _, ours := range []bool{false, true} {
				all = append(all, &contender{strategy: strategy, renamed: renamed, ours: ours})
			}
		}
	}
	return all
}

// pool is also the name of the configuration, or of the stock plugin.
func (c *contender) pool() string {
	name := map[gpu.SharingStrategy]string{gpu.SharingStrategyTimeSlicing: "sliced", gpu.SharingStrategyMPS: "mps"}[c.strategy]
	if c.renamed {
		name += "-renamed"
	}
	if c.ours {
		return name + "-ours"
	}
	return name + "-stock"
}

func (c *contender) resource() corev1.ResourceName {
	return gpu.PluginConfig{Renamed: c.renamed}.Resource()
}

func (c *contender) who() string {
	if c.ours {
		return "Poolwright"
	}
	return "stock"
}

// TestSharedGPUsTakeFewNodes compares, in one cluster under one engine, what
// Karpenter does beside NVIDIA's plugin as its chart sets it up with what it does
// for a pool with a configuration: the same pods, the same pools, the same shares.
func TestSharedGPUsTakeFewNodes(t *testing.T) {
	t.Parallel()
	all := contenders()
	files, configs := map[string]string{}, []string{}
	for _, c := range all {
		files[c.pool()+".yaml"] = gpuPoolText(c.pool(), 2*waveSize)
		if c.ours {
			configs = append(configs, configText(gpu.PluginConfig{Name: c.pool(), Pools: []string{c.pool()}, Strategy: c.strategy, Replicas: gpuReplicas, Renamed: c.renamed}))
		} else {
			files[c.pool()+"-plugin.yaml"] = stockPlugin(c)
		}
	}
	files["device-plugin.yaml"] = devicePluginText("", configs...)
	g := newGPUFixture(t, "gpu-compare", files)
	var parts []step
	for _, c := range all {
		parts = append(parts, step{c.pool(), func(s engineSuite) { g.in(s).compete(c) }})
	}
	runParallel(g.engineSuite, parts...)
	for _, c := range all {
		c.wants(t)
	}
	if !t.Failed() {
		compareDoc(t, tableOf(t, all))
	}
}

// compete has the pods come in two waves, the second while no node has offered
// anything yet: the plugins start only after Karpenter has done its part.
func (g gpuSuite) compete(c *contender) {
	pool, begin := c.pool(), time.Now()
	g.faults.Store(pool, nodes.Fault{NoPlugin: true})
	g.gpuPods(pool+"-1", pool, c.resource(), 1, waveSize)
	if !c.ours && c.renamed {
		// Karpenter knows no instance type that has any of these.
		g.expectEvent(pool+"-1-0", "FailedScheduling", karpenterFails)
		g.gpuPods(pool+"-2", pool, c.resource(), 1, waveSize)
		g.expectEvent(pool+"-2-0", "FailedScheduling", karpenterFails)
	} else {
		c.first = g.provisioned(pool, c.resource(), waveSize)
		g.Logf("the first wave had its nodes after %s", since(begin))
		g.gpuPods(pool+"-2", pool, c.resource(), 1, waveSize)
		c.second = g.provisioned(pool, c.resource(), 2*waveSize)
		g.Logf("the second wave had its nodes after %s", since(begin))
		if now, err := g.podCensus(pool); err != nil || now.bound > 0 {
			g.Errorf("before any GPU is offered the pods are %+v, %v", now, err)
		}
		g.faults.Delete(pool)
		c.running = g.allRun(pool).running
		g.Logf("the pods ran after %s", since(begin))
	}
	c.refused = g.refused(pool + "-")
	if n := g.launched(pool); n != c.second {
		g.Errorf("%d instances were launched, for %d nodes", n, c.second)
	}
}

// wants compares the outcome with what is promised.
func (c *contender) wants(t *testing.T) {
	t.Helper()
	want := contender{strategy: c.strategy, renamed: c.renamed, ours: c.ours, first: 10, second: 20, running: 2 * waveSize}
	switch {
	case c.ours:
		want.first, want.second = 1, 2
	case c.renamed:
		want.first, want.second, want.running = 0, 0, 0
	}
	if *c != want {
		t.Errorf("%s: got %+v, want %+v", c.pool(), *c, want)
	}
}

// tableOf writes the outcome as the table of the document.
func tableOf(t *testing.T, all []*contender) string {
	t.Helper()
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	price, err := types.OnDemand(gpuRegion, gpuMachine)
	if err != nil {
		t.Fatal(err)
	}
	dollars := func(n int) string { return fmt.Sprintf("%.2f", float64(n)*price.USDPerHour) }
	var out strings.Builder
	fmt.Fprintf(&out, "| sharing | advertised as | | nodes for %d pods | $/h | nodes for %d pods | $/h | pods that run | refused by a kubelet |\n", waveSize, 2*waveSize)
	out.WriteString("|---|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, c := range all {
		fmt.Fprintf(&out, "| %s | `%s` | %s | %d | %s | %d | %s | %d | %d |\n", c.strategy, c.resource(), c.who(),
			c.first, dollars(c.first), c.second, dollars(c.second), c.running, c.refused)
	}
	return out.String()
}

// compareDoc holds the document to the table, or rewrites it.
func compareDoc(t *testing.T, table string) {
	t.Helper()
	const begin, end = "<!-- begin: comparison -->\n", "<!-- end: comparison -->"
	path := filepath.Join("..", "..", "..", "docs", "gpu-sharing.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s lacks the lines %q and %q", path, begin, end)
	}
	if golden.Updating() {
		if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(old, table); diff != "" {
		t.Errorf("docs/gpu-sharing.md differs from the run; -update rewrites it:\n%s", diff)
	}
}
