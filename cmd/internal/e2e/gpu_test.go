package e2e

import (
	"slices"

	"github.com/poolwright/poolwright/provision/gpu"
)

// gpuSteps is what the repository says of GPUs in the suite below, which changes
// it as it goes.
type gpuSteps struct {
	version string
	all     []*gpu.PluginConfig
	// metrics is where the controller shows its own.
	metrics string
}

// The pools of the suite, and the configurations that serve them.
const (
	racePool    = "race"
	changedPool = "changed"
	neverPool   = "never"
	otherPool   = "other"
)

// The versions of the plugin before and after its upgrade.
const (
	oldPlugin = "v0.19.2"
	newPlugin = "v0.19.3"
)

// text is the DevicePlugin as it is declared now.
func (l *gpuSteps) text() string {
	var configs []string
	for _, p := range l.all {
		configs = append(configs, configText(*p))
	}
	return devicePluginText(l.version, configs...)
}

// declares commits it.
func (l *gpuSteps) declares(g gpuSuite, message string) {
	g.Helper()
	g.commits(message, map[string]string{"device-plugin.yaml": l.text()})
}

func (l *gpuSteps) configs() (names []string) {
	for _, p := range l.all {
		names = append(names, p.Name)
	}
	return names
}

func (l *gpuSteps) config(name string) *gpu.PluginConfig {
	return l.all[slices.IndexFunc(l.all, func(p *gpu.PluginConfig) bool { return p.Name == name })]
}

func (l *gpuSteps) drop(name string) {
	l.all = slices.DeleteFunc(l.all, func(p *gpu.PluginConfig) bool { return p.Name == name })
}
