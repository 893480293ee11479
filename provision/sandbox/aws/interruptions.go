package aws

import (
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/events"
)

// spotTermination and its sibling are the reasons of ends that were announced.
const (
	spotTermination        = "Server.SpotInstanceTermination"
	reservationTermination = "Server.CapacityReservationTermination"
)

// publish puts an event of EC2 about an instance on the default bus.
func (c *Cloud) publish(id, kind string, detail map[string]any) {
	c.st.events.Publish(c.account.Clock.Now(), events.Event{Source: "aws.ec2", DetailType: kind, Resource: c.account.ARN("ec2", "instance/"+id), Detail: detail})
}

// Interrupt warns a spot instance, or one of an interruptible capacity
// reservation, of its interruption, and ends it after the configured delay, as
// EC2 does two minutes later.
func (c *Cloud) Interrupt(id string) error {
	c.account.Lock()
	defer c.account.Unlock()
	i := c.st.instance(id)
	if i == nil {
		return fmt.Errorf("interrupting instance %q: there is none", id)
	}
	kind, reason := "", ""
	switch {
	case !i.State.alive():
	case i.CapacityType == spot:
		kind, reason = "EC2 Spot Instance Interruption Warning", spotTermination
	case i.CapacityType == reserved || c.st.interruptible(i.reservation):
		kind, reason = "EC2 Capacity Reservation Instance Interruption Warning", reservationTermination
	}
	if kind == "" {
		return fmt.Errorf("interrupting instance %s: it is neither a living spot instance nor of an interruptible reservation (%s, %s)", id, i.CapacityType, i.State)
	}
	c.publish(id, kind, map[string]any{"instance-id": id, "instance-action": "terminate"})
	c.account.AfterFunc(c.account.Delays.Interrupt, func() { c.terminate(i, reason) })
	return nil
}

// interruptible tells whether AWS may take a reservation's instances back.
func (st *state) interruptible(reservation string) bool {
	return slices.ContainsFunc(st.reservations, func(r *Reservation) bool { return r.ID == reservation && r.Interruptible })
}

// RecommendRebalance tells that a spot instance is at a higher risk of being
// interrupted; nothing else happens to it.
func (c *Cloud) RecommendRebalance(id string) error {
	c.account.Lock()
	defer c.account.Unlock()
	i := c.st.instance(id)
	if i == nil || i.CapacityType != spot || !i.State.alive() {
		return fmt.Errorf("recommending to rebalance instance %q: it is no living spot instance", id)
	}
	c.publish(id, "EC2 Instance Rebalance Recommendation", map[string]any{"instance-id": id})
	return nil
}

// scheduled announces a scheduled event of an instance by AWS Health; code is
// the one that DescribeInstanceStatus shows. The caller holds the lock.
func (c *Cloud) scheduled(id, code string, now time.Time) {
	kind := map[string]string{
		"instance-reboot":     "AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED",
		"system-reboot":       "AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED",
		"system-maintenance":  "AWS_EC2_SYSTEM_MAINTENANCE_SCHEDULED",
		"instance-retirement": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
		"instance-stop":       "AWS_EC2_INSTANCE_STOP_SCHEDULED",
	}[code]
	c.st.events.Publish(now, events.Event{Source: "aws.health", DetailType: "AWS Health Event", Resource: id, Detail: map[string]any{
		"eventArn": fmt.Sprintf("arn:%s:health:%s::event/EC2/%s/%s_%s", c.account.Partition(), c.account.Region, kind, kind, id),
		"service":  "EC2", "eventTypeCode": kind, "eventTypeCategory": "scheduledChange",
		"startTime":        now.Add(time.Hour).UTC().Format(time.RFC1123),
		"eventDescription": []map[string]string{{"language": "en_US", "latestDescription": "A scheduled event of the emulator."}},
		"affectedEntities": []map[string]string{{"entityValue": id}},
	}})
}
