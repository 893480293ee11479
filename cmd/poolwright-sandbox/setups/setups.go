// Package setups has the reference set-ups under examples/: which folder each cluster
// follows, and the sandbox that it is written for, as it was before Poolwright came. It
// has no scenario and no test; the demo and the end-to-end tests run theirs in these
// sandboxes.
//
// Start reading at All.
package setups

import (
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// Setup is one reference set-up.
type Setup struct {
	// Name is the example's folder below examples/.
	Name string
	// Path is the folder in it that the cluster follows, as a Sync's spec.path.
	Path string
	// SyncFile is the file in it with the Sync's manifest, which gives its variables;
	// empty where it has none.
	SyncFile string
	// Cluster, Region and Version are the EKS cluster's; Version is Kubernetes'.
	Cluster, Region, Version string
	// Groups are the managed node groups that are there and stay.
	Groups []sandboxaws.NodeGroup
}

// Account is the AWS account of every set-up.
const Account = "111122223333"

// All are the set-ups, in the order of their numbers: 000 to 004.
func All() []Setup {
	return []Setup{
		{Name: "altanova", Path: "clusters/dev", Cluster: "altanova-dev-euw1-eks", Region: "eu-west-1", Version: "1.33", Groups: []sandboxaws.NodeGroup{
			{Name: "system", Min: 2, Desired: 2, Max: 2, InstanceTypes: []string{"t3.small"}, Taints: []string{"CriticalAddonsOnly=true:NO_SCHEDULE"}},
		}},
		{Name: "timeslicing", Path: "clusters/dev", SyncFile: "sync.yaml", Cluster: "gpu-timeslicing", Region: "us-east-1", Version: "1.33"},
		{Name: "piksel", Path: "clusters/dev", Cluster: "piksel-dev-cluster", Region: "ap-southeast-3", Version: "1.32"},
		{Name: "pingvas", Path: "clusters/studio", Cluster: "pingvas-studio-cluster", Region: "ap-northeast-2", Version: "1.32", Groups: []sandboxaws.NodeGroup{
			{Name: "system-nodes", Min: 2, Desired: 3, Max: 6, Labels: map[string]string{"role": "system"}, InstanceTypes: []string{"t4g.medium", "t4g.large"}, CapacityType: "SPOT"},
		}},
		{Name: "baseten", Path: "clusters/dev", Cluster: "baseten-dev", Region: "us-west-2", Version: "1.32", Groups: []sandboxaws.NodeGroup{
			{Name: "autoscaled", Min: 1, Desired: 2, Max: 5},
		}},
	}
}

// Names are the names of the set-ups, in the same order.
func Names() (names []string) {
	for _, s := range All() {
		names = append(names, s.Name)
	}
	return names
}

// Named finds a set-up by its name; the error lists those that there are.
func Named(name string) (Setup, error) {
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
	}
	return Setup{}, fmt.Errorf("there is no set-up %q; choose one of %s", name, strings.Join(Names(), ", "))
}

// SandboxConfig is the sandbox as the set-up's Terraform or eksctl left it: the cluster,
// its network, its node groups. Everything else is for the repository to declare
// and for bootstrap to make: no role, no queue, no discovery tag is there. The
// delays are those of sandbox.DefaultConfig.
func (s Setup) SandboxConfig() sandbox.Config {
	config := sandbox.DefaultConfig()
	config.AWS.Region, config.AWS.Account = s.Region, Account
	config.AWS.Cluster.Name, config.AWS.Cluster.Version, config.AWS.Cluster.OIDC = s.Cluster, s.Version, true
	config.AWS.Cluster.NodeGroups = s.Groups
	config.AWS.Roles, config.AWS.Queues, config.AWS.Tags = nil, nil, map[string]string{}
	return config
}
