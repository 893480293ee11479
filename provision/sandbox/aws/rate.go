package aws

import (
	"fmt"
	"strings"
	"time"
)

// bucket is a token bucket: EC2's way to limit requests per account and region.
type bucket struct {
	tokens, most, perSecond float64
	at                      time.Time
}

func (b *bucket) take(now time.Time) bool {
	b.tokens = min(b.most, b.tokens+now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// limitsRequests reports whether the quotas bind. The caller holds the lock.
func (c *Cloud) limitsRequests() bool { return c.cfg.LimitsRequests || c.leftByOthers > 0 }

// ShareRequests has other callers of the account use up EC2's request quotas until lift is
// called: the quotas bind, as with Config.LimitsRequests, all buckets are empty at first, and the
// others leave only that share of what is added to them.
func (c *Cloud) ShareRequests(share float64) (lift func(), err error) {
	if share <= 0 || share > 1 {
		return nil, fmt.Errorf("sharing EC2's request quotas: a share of %g is not above 0 and at most 1", share)
	}
	c.account.Lock()
	defer c.account.Unlock()
	c.leftByOthers, c.buckets = share, map[string]*bucket{}
	return func() {
		c.account.Lock()
		defer c.account.Unlock()
		c.leftByOthers, c.buckets = 0, map[string]*bucket{}
	}, nil
}

// newBucket has the default quota of a class of EC2 operations: operations
// that only read and those that change share one each, except the classes that
// EC2 limits by themselves.
func newBucket(class string, now time.Time) *bucket {
	rates := map[string][2]float64{ // burst, per second
		"read": {100, 20}, "write": {50, 5}, "RunInstances": {5, 2}, "CreateFleet": {50, 5}, "TerminateInstances": {100, 5},
	}
	r := rates[class]
	return &bucket{tokens: r[0], most: r[0], perSecond: r[1], at: now}
}

// allow spends a token of the request's bucket; only EC2 is limited. The
// caller holds the lock.
func (c *Cloud) allow(in *call, now time.Time) bool {
	if in.svc.name != "ec2" {
		return true
	}
	class := in.svc.table.Operations[in.Op].RateLimitBucket
	switch {
	case class != "":
	case strings.HasPrefix(in.Op, "Describe"):
		class = "read"
	default:
		class = "write"
	}
	b, ok := c.buckets[class]
	if !ok {
		b = newBucket(class, now)
		if c.leftByOthers > 0 {
			b.tokens, b.perSecond = 0, b.perSecond*c.leftByOthers
		}
		c.buckets[class] = b
	}
	return b.take(now)
}
