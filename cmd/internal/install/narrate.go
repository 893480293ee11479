package install

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
)

// silence keeps the logs of libraries away from a person's terminal: what there
// is to say comes as an error, or by Say.
func silence() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
}

// world is a target with the abilities that both of ours have.
type world interface {
	targets.Target
	targets.Recorder
	targets.Waiter
}

// narration is a world whose changes are told while they are made.
type narration struct {
	world
	say func(string)
}

func narrated(t targets.Target, say func(string)) targets.Target {
	if w, ok := t.(world); ok {
		return narration{w, say}
	}
	return t
}

// Correct implements targets.Target.
func (n narration) Correct(ctx context.Context, c plan.Change) error {
	err := n.world.Correct(ctx, c)
	done := map[plan.Action]string{plan.Create: "created", plan.Update: "updated", plan.Delete: "deleted"}[c.Action]
	if err != nil {
		done = "failed to " + string(c.Action)
	}
	where := ""
	if c.Key.Target == aws.Name {
		where = "in AWS: "
	}
	n.say(where + done + " " + c.Key.String())
	return err
}
