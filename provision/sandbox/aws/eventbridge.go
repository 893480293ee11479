package aws

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// eventBridge is an event of an AWS service about an instance.
type eventBridge struct {
	source, kind, instance string
	detail                 map[string]any
}

// spotTermination and its sibling are the reasons of ends that were announced.
const (
	spotTermination        = "Server.SpotInstanceTermination"
	reservationTermination = "Server.CapacityReservationTermination"
)

// notify puts an event on the default bus: every enabled rule whose pattern
// matches sends it to its targets. The caller holds the lock.
func (c *Cloud) notify(now time.Time, e eventBridge) {
	if len(c.st.rules) == 0 {
		return
	}
	about := c.localARN("ec2", "instance/"+e.instance)
	if e.source == "aws.health" {
		about = e.instance
	}
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": c.st.id("event"), "account": c.cfg.Account, "region": c.cfg.Region, "time": now.UTC().Format(time.RFC3339),
		"source": e.source, "detail-type": e.kind, "detail": e.detail, "resources": []string{about},
	})
	var event any
	if err != nil || json.Unmarshal(body, &event) != nil {
		return // strings only: it cannot fail
	}
	for _, r := range c.st.rules {
		if r.state != ruleEnabled || !r.matching.matches(event, true) {
			continue
		}
		for _, t := range r.targets {
			c.deliver(r, t, string(body), now)
		}
	}
}

// deliver sends an event to a target, or to its queue of dead letters. As on
// AWS nobody is told when neither is there and lets EventBridge in.
func (c *Cloud) deliver(r *rule, t target, body string, now time.Time) {
	if !c.send(r, t.ARN, t.form(body), now) && t.Dead != nil {
		c.send(r, t.Dead.ARN, body, now)
	}
}

// send puts a body on a queue, if there is one that lets the rule do so.
func (c *Cloud) send(r *rule, arn, body string, now time.Time) bool {
	n := slices.IndexFunc(c.st.queues, func(q *queue) bool { return c.queueARN(q.name) == arn })
	if n < 0 {
		return false
	}
	q := c.st.queues[n]
	ask := sending{service: "events.amazonaws.com", queue: arn, keys: map[string]string{
		"aws:securetransport": "true", "aws:sourcearn": c.ruleARN(r.name), "aws:sourceaccount": c.cfg.Account,
		"aws:principalisawsservice": "true", "aws:principalservicename": "events.amazonaws.com",
	}}
	if !q.policy.allows(ask) {
		return false
	}
	q.put(c.st.id("message"), body, now)
	return true
}

// Interrupt warns a spot instance, or one of an interruptible capacity
// reservation, of its interruption, and ends it after the configured delay, as
// EC2 does two minutes later.
func (c *Cloud) Interrupt(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	c.notify(c.clock.Now(), eventBridge{
		source: "aws.ec2", kind: kind, instance: id,
		detail: map[string]any{"instance-id": id, "instance-action": "terminate"},
	})
	c.afterFunc(c.cfg.Delays.Interrupt, func() { c.terminate(i, reason) })
	return nil
}

// interruptible tells whether AWS may take a reservation's instances back.
func (st *state) interruptible(reservation string) bool {
	return slices.ContainsFunc(st.reservations, func(r *Reservation) bool { return r.ID == reservation && r.Interruptible })
}

// RecommendRebalance tells that a spot instance is at a higher risk of being
// interrupted; nothing else happens to it.
func (c *Cloud) RecommendRebalance(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.st.instance(id)
	if i == nil || i.CapacityType != spot || !i.State.alive() {
		return fmt.Errorf("recommending to rebalance instance %q: it is no living spot instance", id)
	}
	c.notify(c.clock.Now(), eventBridge{source: "aws.ec2", kind: "EC2 Instance Rebalance Recommendation", instance: id, detail: map[string]any{"instance-id": id}})
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
	c.notify(now, eventBridge{source: "aws.health", kind: "AWS Health Event", instance: id, detail: map[string]any{
		"eventArn": fmt.Sprintf("arn:%s:health:%s::event/EC2/%s/%s_%s", c.partition(), c.cfg.Region, kind, kind, id),
		"service":  "EC2", "eventTypeCode": kind, "eventTypeCategory": "scheduledChange",
		"startTime":        now.Add(time.Hour).UTC().Format(time.RFC1123),
		"eventDescription": []map[string]string{{"language": "en_US", "latestDescription": "A scheduled event of the emulator."}},
		"affectedEntities": []map[string]string{{"entityValue": id}},
	}})
}
