package aws

import (
	"encoding/json"
	"fmt"
	"time"
)

// eventBridge is an event that a rule sends to the first queue.
type eventBridge struct {
	source, kind, instance string
	detail                 map[string]any
}

// notify puts an event on the first queue. The caller holds the lock.
func (c *Cloud) notify(now time.Time, e eventBridge) {
	if len(c.queues) == 0 {
		return
	}
	id := c.st.id("event")
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": id, "account": c.cfg.Account, "region": c.cfg.Region, "time": now.UTC().Format(time.RFC3339),
		"source": e.source, "detail-type": e.kind, "detail": e.detail,
		"resources": []string{fmt.Sprintf("arn:%s:ec2:%s:%s:instance/%s", c.partition(), c.cfg.Region, c.cfg.Account, e.instance)},
	})
	if err != nil {
		return // strings only: it cannot fail
	}
	c.queues[0].put(c.st.id("message"), string(body), now)
}

// Interrupt warns a spot instance of its interruption, and ends it after the
// configured delay, as EC2 does two minutes later.
func (c *Cloud) Interrupt(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.st.instance(id)
	switch {
	case i == nil:
		return fmt.Errorf("interrupting instance %q: there is none", id)
	case i.CapacityType != spot || !i.State.alive():
		return fmt.Errorf("interrupting instance %s: it is no living spot instance (%s, %s)", id, i.CapacityType, i.State)
	}
	c.notify(c.clock.Now(), eventBridge{
		source: "aws.ec2", kind: "EC2 Spot Instance Interruption Warning", instance: id,
		detail: map[string]any{"instance-id": id, "instance-action": "terminate"},
	})
	c.clock.AfterFunc(c.cfg.Delays.Interrupt, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.terminate(i, "Server.SpotInstanceTermination")
	})
	return nil
}
