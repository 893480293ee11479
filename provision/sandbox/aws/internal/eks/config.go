package eks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Cluster is the EKS cluster that DescribeCluster shows.
type Cluster struct {
	Name        string
	Version     string // Kubernetes minor version, for example "1.33"
	Endpoint    string // https URL of the API server; may come later by SetCluster
	CA          []byte // PEM of the API server's authority; may come later by SetCluster
	ServiceCIDR string // IPv4 range of Services
	AutoMode    bool   // whether EKS Auto Mode runs the cluster's nodes

	// What there is from the start; only New reads it.
	OIDC       bool     // whether IAM has an OIDC provider for the cluster's issuer
	Logging    []string // control-plane log types that are on: api, audit, authenticator, controllerManager, scheduler
	NodeGroups []NodeGroup
	Addons     map[string]string // EKS add-ons: name to version
}

// NodeGroup is a managed node group of the cluster. Only its sizes need to be
// given: what is empty becomes an on-demand m5.large with 20 GiB.
type NodeGroup struct {
	Name              string
	Min, Desired, Max int               // numbers of nodes
	Labels            map[string]string // of the nodes
	Taints            []string          // as in "dedicated=system:NO_SCHEDULE"; also PREFER_NO_SCHEDULE, NO_EXECUTE
	InstanceTypes     []string
	DiskSize          int    // GiB
	CapacityType      string // ON_DEMAND, SPOT or CAPACITY_BLOCK
}

// Network is where the cluster and its nodes are.
type Network struct {
	VPC          string
	Subnets      []string // ids of the private ones
	ClusterGroup string   // id of the security group that EKS made
	NodeGroup    string   // id of the security group of nodes
	Release      string   // of the image that nodes of node groups run, as in v20250505
}

var versionForm = regexp.MustCompile(`^1\.\d{2}$`)

// Validate returns what is wrong with a cluster or one of its node groups.
func (c Cluster) Validate() error {
	switch {
	case c.Name == "":
		return fmt.Errorf("reading the emulator's cluster: it has no name")
	case !versionForm.MatchString(c.Version):
		return fmt.Errorf("reading the emulator's cluster: version %q is not of the form 1.33", c.Version)
	case c.ServiceCIDR == "":
		return fmt.Errorf("reading the emulator's cluster: no service range: give one, as 172.20.0.0/16")
	}
	for _, t := range c.Logging {
		if !slices.Contains(logTypes(), t) {
			return fmt.Errorf("reading the emulator's cluster: log type %q is none of %q", t, logTypes())
		}
	}
	for _, g := range c.NodeGroups {
		if err := g.validate(); err != nil {
			return err
		}
	}
	return nil
}

// validate returns what is wrong with the group of a config.
func (g NodeGroup) validate() error {
	if g.Name == "" {
		return fmt.Errorf("reading the emulator's cluster: a node group has no name")
	}
	if err := checkSizes(g.Min, g.Desired, g.Max); err != nil {
		return fmt.Errorf("reading the emulator's node group %q: %w", g.Name, err)
	}
	for _, t := range g.Taints {
		if _, err := parseTaint(t); err != nil {
			return fmt.Errorf("reading the emulator's node group %q: %w", g.Name, err)
		}
	}
	if g.CapacityType != "" && !slices.Contains([]string{"ON_DEMAND", "SPOT", "CAPACITY_BLOCK"}, g.CapacityType) {
		return fmt.Errorf("reading the emulator's node group %q: capacity type %q is not ON_DEMAND, SPOT or CAPACITY_BLOCK", g.Name, g.CapacityType)
	}
	return nil
}

// taint is one as EKS writes it.
type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

func effects() []string { return []string{"NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE"} }

// parseTaint reads "key=value:EFFECT" or "key:EFFECT".
func parseTaint(s string) (taint, error) {
	pair, effect, _ := strings.Cut(s, ":")
	key, value, _ := strings.Cut(pair, "=")
	if key == "" || !slices.Contains(effects(), effect) {
		return taint{}, fmt.Errorf("taint %q is not of the form key=value:NO_SCHEDULE; effects are %q", s, effects())
	}
	return taint{key, value, effect}, nil
}

func checkSizes(least, desired, most int) error {
	switch {
	case least < 0 || most < 1:
		return invalid("Minimum capacity %d must be at least 0, and maximum size %d at least 1", least, most)
	case least > desired:
		return invalid("Minimum capacity %d can't be greater than desired size %d", least, desired)
	case desired > most:
		return invalid("desired capacity %d can't be greater than max size %d", desired, most)
	}
	return nil
}

func (t taint) same(o taint) bool { return t.Key == o.Key && t.Effect == o.Effect }

// logTypes are the control plane's, in the order in which EKS shows them.
func logTypes() []string {
	return []string{"api", "audit", "authenticator", "controllerManager", "scheduler"}
}
