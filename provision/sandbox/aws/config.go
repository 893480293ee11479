package aws

import (
	"fmt"
	"regexp"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/images"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/eks"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/quotas"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/sqs"
)

// Config is what a Cloud is made of. Start from DefaultConfig; The error of New names
// the field that is wrong.
type Config struct {
	Region  string // for example "us-east-1"; catalog.Regions has those with zones
	Account string // twelve digits
	Cluster Cluster
	// Tags are carried by the private subnets and by the node and cluster
	// security groups; nil means karpenter.sh/discovery and
	// kubernetes.io/cluster/NAME of the cluster.
	Tags     map[string]string
	Delays   Delays
	Queues   []string          // SQS queues; Karpenter's five EventBridge rules lead to the first
	Roles    []string          // IAM roles that exist; EC2 may take them, and they have no policies
	Profiles map[string]string // IAM instance profiles that exist, with their role
	// Releases are the dates of the Amazon Linux images, as in "v20250505",
	// oldest first; the last is the recommended one.
	Releases []string
	// LimitsRequests makes EC2's request quotas bind (token buckets per class of
	// operation); off, only faults throttle.
	LimitsRequests bool
	// Quotas are EC2's in Service Quotas, by name; those left out are high.
	// In vCPUs of instances they bind launches.
	Quotas  map[string]float64
	Clock   Clock            // nil means the machine's clock
	Catalog *catalog.Catalog // instance types and prices; nil means all that are known
	// NotOffered are the zones that do not offer an instance type, by it: DescribeInstanceTypeOfferings
	// leaves them out, and CreateFleet launches none there.
	NotOffered map[string][]string
}

// Cluster is the EKS cluster that DescribeCluster shows.
type Cluster = eks.Cluster

// NodeGroup is a managed node group of the cluster. Only its sizes need to be
// given: what is empty becomes an on-demand m5.large with 20 GiB.
type NodeGroup = eks.NodeGroup

// Delays are the times that AWS takes.
type Delays = api.Delays

// Clock has the time and its timers.
type Clock = api.Clock

// DefaultConfig is an account in us-east-1 with the cluster "sandbox", a queue
// of the same name, a node role and delays near the real ones.
func DefaultConfig() Config {
	return Config{
		Region:   "us-east-1",
		Account:  "000000000000",
		Cluster:  Cluster{Name: "sandbox", Version: "1.33", ServiceCIDR: "172.20.0.0/16"},
		Delays:   Delays{Response: 2 * time.Millisecond, Fleet: 1200 * time.Millisecond, Running: 2 * time.Second, Shutdown: 3 * time.Second, Interrupt: 2 * time.Minute, Removal: time.Hour},
		Queues:   []string{"sandbox"},
		Roles:    []string{"KarpenterNodeRole-sandbox"},
		Releases: []string{"v20250505", "v20250904", "v20260115", "v20260611", "v20261102"},
	}
}

var (
	regionForm  = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d$`)
	accountForm = regexp.MustCompile(`^\d{12}$`)
)

func (c Config) validate() error {
	switch {
	case !regionForm.MatchString(c.Region):
		return fmt.Errorf("reading the emulator's config: region %q is not of the form us-east-1", c.Region)
	case !accountForm.MatchString(c.Account):
		return fmt.Errorf("reading the emulator's config: account %q is not twelve digits", c.Account)
	case len(c.Releases) == 0:
		return fmt.Errorf("reading the emulator's config: no image releases: give at least one, as v20250505")
	}
	for _, r := range c.Releases {
		if !images.IsRelease(r) {
			return fmt.Errorf("reading the emulator's config: image release %q is not of the form v20250505", r)
		}
	}
	for profile, role := range c.Profiles {
		if profile == "" || role == "" {
			return fmt.Errorf("reading the emulator's config: instance profile %q with role %q: both need a name", profile, role)
		}
	}
	for _, name := range c.Queues {
		if !sqs.ValidName(name) {
			return fmt.Errorf("reading the emulator's config: queue %q: a name has 1 to 80 letters, digits, - and _", name)
		}
	}
	for name, value := range c.Quotas {
		if err := quotas.Check(name, value); err != nil {
			return fmt.Errorf("reading the emulator's config: %w", err)
		}
	}
	return c.Cluster.Validate()
}

// wallClock is the machine's clock.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
