package aws

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// managed is what stands beside the nodes and is set up once: queues, event
// rules, log groups and quotas.
type managed struct {
	queues  []*queue             // by creation; clusters have one or two
	deleted map[string]time.Time // names of deleted queues, and when
	rules   []*rule              // by name
	logs    []*logGroup          // by name
	quotas  map[string]float64   // EC2's, by name
}

func newManaged(cfg Config) managed {
	m := managed{deleted: map[string]time.Time{}, quotas: map[string]float64{}}
	for _, q := range ec2Quotas() {
		m.quotas[q.name] = q.value
	}
	maps.Copy(m.quotas, cfg.Limits.Quotas)
	return m
}

// clone copies what a stale read could show otherwise.
func (m managed) clone() managed {
	m.queues = clones(m.queues)
	for _, q := range m.queues {
		q.attributes, q.tags, q.messages = maps.Clone(q.attributes), maps.Clone(q.tags), clones(q.messages)
	}
	m.rules = clones(m.rules)
	for _, r := range m.rules {
		r.targets, r.tags = append([]target(nil), r.targets...), maps.Clone(r.tags)
	}
	m.logs = clones(m.logs)
	for _, g := range m.logs {
		g.tags = maps.Clone(g.tags)
	}
	m.deleted, m.quotas = maps.Clone(m.deleted), maps.Clone(m.quotas)
	return m
}

// setUp makes the queues of the config. To the first lead the five rules that
// a getting-started stack of Karpenter has; its policy lets them.
func (c *Cloud) setUp() error {
	now := c.clock.Now()
	for n, name := range c.cfg.Queues {
		q := newQueue(name, now.Add(-c.cfg.Delays.Visible)) // they have been there for long
		given := map[string]string{"MessageRetentionPeriod": "300"}
		if n == 0 {
			given["Policy"] = interruptionPolicy(c.queueARN(name))
		}
		if err := q.set(given); err != nil {
			return fmt.Errorf("making queue %q of the emulator's config: %w", name, err)
		}
		c.st.queues = append(c.st.queues, q)
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
		r := &rule{name: "Karpenter-" + c.cfg.Cluster.Name + "-" + name, state: ruleEnabled, tags: map[string]string{}}
		var err error
		r.pattern = fmt.Sprintf(`{"source":[%q],"detail-type":[%q]}`, kind[0], kind[1])
		if r.matching, err = parsePattern(r.pattern); err != nil {
			return fmt.Errorf("making rule %q of the emulator's queue: %w", r.name, err)
		}
		r.targets = []target{{ID: "KarpenterInterruptionQueueTarget", ARN: c.queueARN(c.cfg.Queues[0])}}
		c.st.addRule(r)
	}
	return nil
}

// localARN names a resource of the account in its region.
func (c *Cloud) localARN(service, resource string) string {
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", c.partition(), service, c.cfg.Region, c.cfg.Account, resource)
}

// tagged is tags with more put over them, or what is wrong with more.
func tagged(tags, more map[string]string) (out map[string]string, problem string) {
	for k, v := range more {
		switch {
		case k == "" || len(k) > 128 || len(v) > 256:
			return nil, fmt.Sprintf("Tag key '%s' or its value is empty or too long (128 and 256 characters).", k)
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return nil, fmt.Sprintf("Tag keys starting with 'aws:' are reserved for internal use: '%s'", k)
		}
	}
	out = with(tags)
	maps.Copy(out, more)
	if len(out) > mostTags {
		return nil, fmt.Sprintf("A resource has at most %d tags.", mostTags)
	}
	return out, ""
}
