package gpulint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// configurations finds configurations of pools that there are not, and of pools without GPUs.
// Where the repository declares no pool at all, they are declared elsewhere.
func (c *linter) configs() {
	if c.plugin == nil || len(c.pools) == 0 {
		return
	}
	var declared []string
	for _, p := range c.pools {
		declared = append(declared, p.name)
	}
	for i, config := range c.plugin.Spec.Configs {
		for j, name := range config.NodePools {
			path := fmt.Sprintf("spec.configs[%d].nodePools[%d]", i, j)
			at := slices.IndexFunc(c.pools, func(p *pool) bool { return p.name == name })
			switch {
			case at < 0 && c.partial:
			case at < 0:
				c.warn(c.plugin.item, path, codeConfigPoolUndeclared, "NodePool %q is not declared here%s",
					finding.NewFact("nodePool", name), finding.As("suggestion", manifest.ClosestName(name, declared), manifest.Suggestion(name, declared)))
			case c.pools[at].withoutGPUs():
				c.warn(c.plugin.item, path, codeConfigPoolWithoutGPUs, "NodePool %s (%s) allows no instance type with an NVIDIA GPU, so that there is nothing to advertise",
					finding.NewFact("nodePool", name), finding.NewFact("declaredAt", c.pools[at].item.Origin))
			}
		}
	}
}

// leastTimeout is below what a driver that starts and the plugin's image of some 400
// MB may take together.
const leastTimeout = 5 * time.Minute

// timeouts finds configurations that give nodes too little time.
func (c *linter) timeouts() {
	if c.plugin == nil {
		return
	}
	for i, p := range c.plugin.Spec.Configs {
		if t := p.ReadyTimeout; t != nil && t.Duration < leastTimeout {
			c.warn(c.plugin.item, fmt.Sprintf("spec.configs[%d].readyTimeout", i), codeReadyTimeoutShort, "until a node advertises its GPUs, its driver has to start and the plugin's image, some 400 MB, to come: a node that takes longer than %s is replaced by one that takes as long; write 5m or more, or leave it out for 10m",
				finding.As("timeoutSeconds", t.Seconds(), t.Duration))
		}
	}
}

// sharingSettings are Bottlerocket's settings of its own plugin. What is left out
// has a default that is Bottlerocket's to change.
type sharingSettings struct {
	Settings struct {
		Plugins struct {
			NVIDIA struct {
				Strategy    string `toml:"device-sharing-strategy"`
				TimeSlicing struct {
					Replicas *int64 `toml:"replicas"`
					Rename   *bool  `toml:"rename-by-default"`
					FailMany *bool  `toml:"fail-requests-greater-than-one"`
				} `toml:"time-slicing"`
				MPS struct {
					Replicas *int64 `toml:"replicas"`
					Rename   *bool  `toml:"rename-by-default"`
				} `toml:"mps"`
			} `toml:"nvidia"`
		} `toml:"kubelet-device-plugins"`
	} `toml:"settings"`
}

// bottlerocket finds pools whose nodes have the plugin built in, and set otherwise
// than their configuration. Nothing of the user data is repeated: it may be secret.
func (c *linter) bottlerocket() {
	for _, p := range c.pools {
		k := c.classOf(p)
		if !p.served || !p.forGPUs() || !k.bottlerocket {
			continue
		}
		differs, err := unlike(k.Spec.UserData, p.config)
		if err != nil {
			c.problem(k.item, "spec.userData", codeUserDataInvalid, "%v", finding.NewFact("reason", err))
			continue
		}
		if differs != "" {
			c.problem(k.item, "spec.userData", codeBottlerocketSharingDiffers, "Bottlerocket runs a device plugin of its own, and %s, unlike configuration %s of DevicePlugin %s, which serves NodePool %s: the numbers never agree, and its nodes are replaced again and again; write %s",
				finding.NewFact("difference", differs), finding.NewFact("config", p.config.Name), finding.NewFact("devicePlugin", c.sharing.Name), finding.NewFact("nodePool", p.name), settingsOf(p.config))
		}
	}
}

// maxUserData is above what EC2 takes.
const maxUserData = 64 << 10

// unlike names the setting in which the user data is not what the configuration requires.
func unlike(userData string, p gpu.PluginConfig) (string, error) {
	var s sharingSettings
	if len(userData) > maxUserData || toml.Unmarshal([]byte(userData), &s) != nil {
		return "", errors.New("this is not TOML with Bottlerocket's settings, so that no node of this class starts")
	}
	n := s.Settings.Plugins.NVIDIA
	want := string(p.Strategy)
	if n.Strategy == "" {
		n.Strategy = "none"
	}
	if n.Strategy != want {
		return "device-sharing-strategy is not " + want, nil
	}
	replicas, rename := n.TimeSlicing.Replicas, n.TimeSlicing.Rename
	if p.Strategy == gpu.SharingStrategyMPS {
		replicas, rename = n.MPS.Replicas, n.MPS.Rename
	}
	switch {
	case p.Strategy == gpu.SharingStrategyNone:
		return "", nil
	case replicas == nil || *replicas != int64(p.Replicas):
		return fmt.Sprintf("replicas is not %d", p.Replicas), nil
	case rename == nil || *rename != p.Renamed:
		return fmt.Sprintf("rename-by-default is not %t", p.Renamed), nil
	case p.Strategy == gpu.SharingStrategyTimeSlicing && (n.TimeSlicing.FailMany == nil || *n.TimeSlicing.FailMany != p.OnePerRequest):
		return fmt.Sprintf("fail-requests-greater-than-one is not %t", p.OnePerRequest), nil
	}
	return "", nil
}

// settingsOf is the configuration in Bottlerocket's settings, each table in a line.
func settingsOf(p gpu.PluginConfig) string {
	const table = "settings.kubelet-device-plugins.nvidia"
	strategy := string(p.Strategy)
	out := []string{fmt.Sprintf("%s.device-sharing-strategy = %q", table, strategy)}
	if p.Strategy == gpu.SharingStrategyNone {
		return out[0]
	}
	out = append(out, fmt.Sprintf("%s.%s.replicas = %d", table, strategy, p.Replicas), fmt.Sprintf("%s.%s.rename-by-default = %t", table, strategy, p.Renamed))
	if p.Strategy == gpu.SharingStrategyTimeSlicing {
		out = append(out, fmt.Sprintf("%s.%s.fail-requests-greater-than-one = %t", table, strategy, p.OnePerRequest))
	}
	return strings.Join(out, ", ")
}
