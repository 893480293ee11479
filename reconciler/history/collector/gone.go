package collector

import (
	"context"
	"fmt"
	"maps"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

// deleteGone deletes what is kept of NodeClaims that are gone.
func (c *Collector) deleteGone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.interruptions, func(uid string, _ history.Reason) bool { return !c.present[uid] })
	maps.DeleteFunc(c.recorded, func(uid string, _ bool) bool { return !c.present[uid] })
}

// gone finds which NodeClaims are gone without their deletion having been observed: those that were in no cache for two
// observations, and are not there. A cache may begin with what is older than the State.
func (c *Collector) gone(ctx context.Context) error {
	missing := map[string]bool{}
	var twice []string
	for _, uid := range c.state.Open() {
		if c.present[uid] {
			continue
		}
		missing[uid] = true
		if c.missing[uid] {
			twice = append(twice, uid)
		}
	}
	c.missing = missing
	if len(twice) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, goneTimeout)
	defer cancel()
	var all karpv1.NodeClaimList
	if err := c.cfg.Live.List(ctx, &all); err != nil {
		return fmt.Errorf("reading NodeClaims: %w", err)
	}
	there := map[string]bool{}
	for i := range all.Items {
		there[string(all.Items[i].UID)] = true
	}
	for _, uid := range twice {
		if !there[uid] {
			c.state.Gone(uid)
		}
	}
	return nil
}
