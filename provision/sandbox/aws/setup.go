package aws

import (
	"fmt"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/sqs"
)

// setUp makes the queues of the config. To the first lead the five rules that
// a getting-started stack of Karpenter has; its policy lets them.
func (c *Cloud) setUp() error {
	for n, name := range c.cfg.Queues {
		given := map[string]string{"MessageRetentionPeriod": "300"}
		if n == 0 {
			given["Policy"] = sqs.InterruptionPolicy(c.st.sqs.ARN(name))
		}
		if err := c.st.sqs.Create(name, given); err != nil {
			return fmt.Errorf("making queue %q of the emulator's config: %w", name, err)
		}
	}
	if len(c.cfg.Queues) == 0 {
		return nil
	}
	for name, kind := range map[string][2]string{
		"ScheduledChangeRule":                 {"aws.health", "AWS Health Event"},
		"SpotInterruptionRule":                {"aws.ec2", "EC2 Spot Instance Interruption Warning"},
		"RebalanceRule":                       {"aws.ec2", "EC2 Instance Rebalance Recommendation"},
		"InstanceStateChangeRule":             {"aws.ec2", "EC2 Instance State-change Notification"},
		"CapacityReservationInterruptionRule": {"aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"},
	} {
		name = "Karpenter-" + c.cfg.Cluster.Name + "-" + name
		eventPattern := fmt.Sprintf(`{"source":[%q],"detail-type":[%q]}`, kind[0], kind[1])
		if err := c.st.events.Create(name, eventPattern, "KarpenterInterruptionQueueTarget", c.st.sqs.ARN(c.cfg.Queues[0])); err != nil {
			return fmt.Errorf("making rule %q of the emulator's queue: %w", name, err)
		}
	}
	return nil
}

// SendMessage puts a message on a queue.
func (c *Cloud) SendMessage(queueName, body string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.sqs.Send(queueName, body)
}

// SetQuota changes one of EC2's quotas, by its name in Service Quotas, as AWS
// does upon a request; what runs stays.
func (c *Cloud) SetQuota(name string, value float64) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.quotas.Set(name, value)
}

// UnsetQuota removes the value that EC2's quota of that name has in this
// account: Service Quotas then lists it only among AWS's defaults, as it does
// with quotas of which the account has used nothing yet.
func (c *Cloud) UnsetQuota(name string) error {
	c.account.Lock()
	defer c.account.Unlock()
	return c.st.quotas.Unset(name)
}
