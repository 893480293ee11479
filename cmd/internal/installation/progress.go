package installation

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
)

// DiscardLogs keeps the logs of libraries away from a person's terminal: errors and
// progress are reported by ourselves.
func DiscardLogs() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
}

// recordingTarget is a target with the abilities that both of ours have.
type recordingTarget interface {
	targets.Target
	targets.InventoryWriter
	targets.Waiter
}

// progressTarget is a target whose changes are reported while they are made.
type progressTarget struct {
	recordingTarget
	progress func(string)
}

// WithProgress passes each change to report when it is made.
func WithProgress(t targets.Target, report func(string)) targets.Target {
	if w, ok := t.(recordingTarget); ok {
		return progressTarget{w, report}
	}
	return t
}

// Apply implements targets.Target.
func (n progressTarget) Apply(ctx context.Context, c plan.Change) error {
	err := n.recordingTarget.Apply(ctx, c)
	done := map[plan.Action]string{plan.Create: "created", plan.Update: "updated", plan.Delete: "deleted"}[c.Action]
	if err != nil {
		done = "failed to " + string(c.Action)
	}
	where := ""
	if c.Key.Target == aws.Name {
		where = "in AWS: "
	}
	n.progress(where + done + " " + c.Key.String())
	return err
}
