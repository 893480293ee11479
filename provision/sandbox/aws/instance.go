package aws

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
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

// alive tells whether the instance still holds capacity and costs money.
func (s State) alive() bool { return s == Pending || s == Running }

// Instance is one instance as an observer sees it: a copy, taken at that
// moment.
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

// instance is what the cloud knows beyond that.
type instance struct {
	Instance
	number    int // launch index: the order of lists and the reservation
	kind      catalog.InstanceType
	subnet    string
	groups    []securityGroup
	profile   string
	placement placement
	data      query.Form // what it was launched with
	health    health
	end       ending
	purchase
}

// purchase is how an instance was bought.
type purchase struct {
	rate        float64           // dollars per hour
	reservation string            // capacity reservation id
	spotTags    map[string]string // of its spot request
}

// ending is when and why an instance began to end.
type ending struct {
	at     time.Time
	reason string
}

// userEnded is the reason where somebody asked for the end.
const userEnded = "Client.UserInitiatedShutdown"

// placement is where and how the launch template put it.
type placement struct {
	tenancy, preference         string // preference is that of the capacity reservation
	group, groupName, partition string // placement group
	addresses                   int    // how many of the subnet's it holds
}

func (i *instance) observed() Instance {
	out := i.Instance
	out.Tags = maps.Clone(i.Tags)
	return out
}

// Instances returns every instance that AWS still shows, by launch.
func (c *Cloud) Instances() []Instance {
	c.account.Lock()
	defer c.account.Unlock()
	out := make([]Instance, 0, len(c.st.instances))
	for _, i := range c.st.instances {
		out = append(out, i.observed())
	}
	return out
}

// Terminate ends an instance as somebody would in the console.
func (c *Cloud) Terminate(id string) error {
	c.account.Lock()
	defer c.account.Unlock()
	i := c.st.instance(id)
	if i == nil {
		return fmt.Errorf("terminating instance %q: there is none", id)
	}
	c.terminate(i, userEnded)
	return nil
}

// begin makes a launched instance part of the account and starts its life. The
// caller holds the lock.
func (c *Cloud) begin(i *instance) {
	c.st.instances = append(c.st.instances, i)
	c.enter(i, Pending)
	c.account.AfterFunc(c.account.Delays.Running, func() {
		if i.State == Pending {
			c.enter(i, Running)
		}
	})
}

// terminate starts the end of an instance; of one that is ending it does
// nothing. The caller holds the lock.
func (c *Cloud) terminate(i *instance, reason string) {
	switch i.State {
	case ShuttingDown, Terminated:
		return
	case Pending, Running:
		i.end = ending{c.account.Clock.Now(), reason}
		c.journal.bill(i)
	case stopping, stopped: // it has cost nothing since
		i.end = ending{c.account.Clock.Now(), reason}
	}
	c.enter(i, ShuttingDown)
	c.account.AfterFunc(c.account.Delays.Shutdown, func() { c.finish(i) })
}

// stop ends what an instance costs and holds of capacity, and keeps the rest; of
// one that is stopping it does nothing. Nothing here starts it again. The caller
// holds the lock.
func (c *Cloud) stop(i *instance) {
	if !i.State.alive() {
		return
	}
	i.end = ending{c.account.Clock.Now(), userEnded}
	c.journal.bill(i)
	c.enter(i, stopping)
	c.account.AfterFunc(c.account.Delays.Shutdown, func() {
		if i.State == stopping {
			c.enter(i, stopped)
		}
	})
}

// finish gives back what the instance held, and forgets it after a while.
func (c *Cloud) finish(i *instance) {
	c.enter(i, Terminated)
	c.st.detach(i)
	if s := c.st.network.subnet(i.subnet); s != nil {
		s.free += i.placement.addresses
	}
	c.account.AfterFunc(c.account.Delays.Forget, func() {
		c.st.instances = slices.DeleteFunc(c.st.instances, func(o *instance) bool { return o == i })
	})
}

// enter changes the state, tells the watchers, and tells EventBridge.
func (c *Cloud) enter(i *instance, s State) {
	i.State = s
	now := c.account.Clock.Now()
	c.journal.publish(Event{Time: now, Kind: s, Instance: i.observed()})
	c.publish(i.ID, "EC2 Instance State-change Notification", map[string]any{"instance-id": i.ID, "state": s})
}

// privateName is the private name that EC2 gives by the address.
func (c *Cloud) privateName(address string) string {
	region, b := c.account.Region, netip.MustParseAddr(address).As4()
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return fmt.Sprintf("ip-%d-%d-%d-%d.%s", b[0], b[1], b[2], b[3], domain)
}
