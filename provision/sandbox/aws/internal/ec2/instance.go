package ec2

import (
	"fmt"
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/vpc"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// State is where an instance is in its life.
type State string

// The states that instances go through here, in this order; "stopping" and
// "stopped" come between only where somebody stops them.
const (
	Pending      State = "pending"
	Running      State = "running"
	stopping     State = "stopping"
	stopped      State = "stopped"
	ShuttingDown State = "shutting-down"
	Terminated   State = "terminated"
)

// code is the number that EC2 sends with the state.
func (s State) code() int {
	switch s {
	case Pending:
		return 0
	case Running:
		return 16
	case ShuttingDown:
		return 32
	case Terminated:
		return 48
	case stopping:
		return 64
	case stopped:
		return 80
	}
	return -1 // there are no others
}

// alive reports whether the instance still holds capacity and costs money.
func (s State) alive() bool { return s == Pending || s == Running }

// Instance is a copy of one instance, as it was at that moment.
type Instance struct {
	ID           string
	Type         string // instance type, "g5.xlarge"
	Zone         string // "us-east-1a"
	ZoneID       string // "use1-az1"
	CapacityType string // on-demand, spot, capacity-block or reserved-capacity
	State        State
	Image        string // image id
	Address      string // private IPv4 address
	DNSName      string // private DNS name, the name of its Node
	Launched     time.Time
	Tags         map[string]string
	UserData     string // decoded; it may hold secrets, so String leaves it out
}

// String names the instance without its user data.
func (i Instance) String() string {
	return fmt.Sprintf("%s (%s, %s, %s, %s)", i.ID, i.Type, i.Zone, i.CapacityType, i.State)
}

// Format keeps every verb, also %+v, from printing user data.
func (i Instance) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(i.String())) }

// instance is what the cloud holds beyond that.
type instance struct {
	Instance
	number      int // launch index: the order of lists and the reservation
	kind        catalog.InstanceType
	subnet      string
	groups      []vpc.SecurityGroup
	profile     string
	placement   instancePlacement
	data        query.Form // what it was launched with
	health      health
	termination termination
	purchase
}

// purchase is how an instance was bought.
type purchase struct {
	rate        float64           // dollars per hour
	reservation string            // capacity reservation id
	spotTags    map[string]string // of its spot request
}

// termination is when and why an instance began to end.
type termination struct {
	at     time.Time
	reason string
}

// userInitiated is the reason where somebody requested the end.
const userInitiated = "Client.UserInitiatedShutdown"

// instancePlacement is where and how the launch template put it.
type instancePlacement struct {
	tenancy, preference         string // preference is that of the capacity reservation
	group, groupName, partition string // placement group
	addresses                   int    // how many of the subnet's it holds
}

func (i *instance) observed() Instance {
	out := i.Instance
	out.Tags = maps.Clone(i.Tags)
	return out
}

// health is what DescribeInstanceStatus shows.
type health struct {
	impaired map[string]time.Time // by check: instance, system or ebs; since when
	events   []string             // scheduled event codes
}

func (h health) status(check string) string {
	if _, bad := h.impaired[check]; bad {
		return "impaired"
	}
	return "ok"
}

func (i *instance) spotRequest() string {
	if i.CapacityType != offerings.Spot {
		return ""
	}
	return "sir-" + i.ID[3:11]
}

// lifecycle is how DescribeInstances marks what is not plain on demand.
func lifecycle(capacityType string) string {
	switch capacityType {
	case offerings.Spot, offerings.CapacityBlock:
		return capacityType
	case offerings.Reserved:
		return "interruptible-capacity-reservation"
	}
	return ""
}
