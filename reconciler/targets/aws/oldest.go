package aws

import (
	"context"
	"fmt"
)

// readLiveClusters finds out which Cluster decides. Where an older one than the declared one is live, AWS
// follows that one: what the declared one requires is neither written, recorded nor dropped.
// Before any Cluster is live, the declared one decides. The first observation takes up the status.
func (o *observation) readLiveClusters(ctx context.Context) error {
	o.Target.mu.Lock()
	before := o.previousRead.recalled
	o.previousRead.recalled = true
	o.Target.mu.Unlock()
	idle := o.desired.object == "" || o.items.Len() == 0 && len(o.undeclared) == 0
	if o.cfg.Live == nil || before && idle {
		return nil
	}
	live, err := o.cfg.Live(ctx)
	if err != nil {
		return fmt.Errorf("observing AWS: %w", err)
	}
	if !before && (!live.AWS.ObservedAt.IsZero() || len(live.AWS.Unknown) > 0) {
		o.status.restore(live)
	}
	if live.Cluster != "" && live.Cluster != o.desired.object && !idle {
		o.olderCluster = fmt.Sprintf("Cluster %s is older than Cluster %s, and AWS follows the oldest: it is changed once Cluster %s is deleted", live.Cluster, o.desired.object, live.Cluster)
		o.keep = true
	}
	return nil
}
