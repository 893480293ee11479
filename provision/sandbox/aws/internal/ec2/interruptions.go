package ec2

import (
	"fmt"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/events"
)

// spotTermination and its sibling are the reasons of ends that were announced.
const (
	spotTermination        = "Server.SpotInstanceTermination"
	reservationTermination = "Server.CapacityReservationTermination"
)

// Interrupt warns a spot instance, or one of an interruptible capacity
// reservation, of its interruption, and ends it after the configured delay, as
// EC2 does two minutes later.
func (svc *Service) Interrupt(id string) error {
	i := svc.instance(id)
	if i == nil {
		return fmt.Errorf("interrupting instance %q: there is none", id)
	}
	kind, reason := "", ""
	switch {
	case !i.State.alive():
	case i.CapacityType == offerings.Spot:
		kind, reason = "EC2 Spot Instance Interruption Warning", spotTermination
	case i.CapacityType == offerings.Reserved || svc.Reservations.Interruptible(i.reservation):
		kind, reason = "EC2 Capacity Reservation Instance Interruption Warning", reservationTermination
	}
	if kind == "" {
		return fmt.Errorf("interrupting instance %s: it is neither a living spot instance nor of an interruptible reservation (%s, %s)", id, i.CapacityType, i.State)
	}
	svc.publish(id, kind, map[string]any{"instance-id": id, "instance-action": "terminate"})
	svc.account.AfterFunc(svc.account.Delays.Interrupt, func() { svc.terminate(i, reason) })
	return nil
}

// RecommendRebalance announces that a spot instance is at a higher risk of being
// interrupted; nothing else happens to it.
func (svc *Service) RecommendRebalance(id string) error {
	i := svc.instance(id)
	if i == nil || i.CapacityType != offerings.Spot || !i.State.alive() {
		return fmt.Errorf("recommending to rebalance instance %q: it is no living spot instance", id)
	}
	svc.publish(id, "EC2 Instance Rebalance Recommendation", map[string]any{"instance-id": id})
	return nil
}

// scheduled announces a scheduled event of an instance by AWS Health; code is
// the one that DescribeInstanceStatus shows. The caller holds the lock.
func (svc *Service) scheduled(id, code string, now time.Time) {
	kind := map[string]string{
		"instance-reboot":     "AWS_EC2_INSTANCE_REBOOT_MAINTENANCE_SCHEDULED",
		"system-reboot":       "AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED",
		"system-maintenance":  "AWS_EC2_SYSTEM_MAINTENANCE_SCHEDULED",
		"instance-retirement": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
		"instance-stop":       "AWS_EC2_INSTANCE_STOP_SCHEDULED",
	}[code]
	svc.deps.Events.Publish(now, events.Event{Source: "aws.health", DetailType: "AWS Health Event", Resource: id, Detail: map[string]any{
		"eventArn": fmt.Sprintf("arn:%s:health:%s::event/EC2/%s/%s_%s", svc.account.Partition(), svc.account.Region, kind, kind, id),
		"service":  "EC2", "eventTypeCode": kind, "eventTypeCategory": "scheduledChange",
		"startTime":        now.Add(time.Hour).UTC().Format(time.RFC1123),
		"eventDescription": []map[string]string{{"language": "en_US", "latestDescription": "A scheduled event of the emulator."}},
		"affectedEntities": []map[string]string{{"entityValue": id}},
	}})
}
