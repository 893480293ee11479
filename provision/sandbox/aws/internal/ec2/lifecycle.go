package ec2

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/events"
)

// Instances returns every instance that AWS still shows, by launch.
func (svc *Service) Instances() []Instance {
	out := make([]Instance, 0, len(svc.instances))
	for _, i := range svc.instances {
		out = append(out, i.observed())
	}
	return out
}

// Terminate ends an instance as somebody would in the console.
func (svc *Service) Terminate(id string) error {
	i := svc.instance(id)
	if i == nil {
		return fmt.Errorf("terminating instance %q: there is none", id)
	}
	svc.terminate(i, userInitiated)
	return nil
}

// begin makes a launched instance part of the account and starts its life. The
// caller holds the lock.
func (svc *Service) begin(i *instance) {
	svc.instances = append(svc.instances, i)
	svc.enter(i, Pending)
	svc.account.AfterFunc(svc.account.Delays.Running, func() {
		if i.State == Pending {
			svc.enter(i, Running)
		}
	})
}

// terminate starts the end of an instance; of one that is ending it does
// nothing. The caller holds the lock.
func (svc *Service) terminate(i *instance, reason string) {
	switch i.State {
	case ShuttingDown, Terminated:
		return
	case Pending, Running:
		i.termination = termination{svc.account.Clock.Now(), reason}
		svc.bill(i)
	case stopping, stopped: // it has cost nothing since
		i.termination = termination{svc.account.Clock.Now(), reason}
	}
	svc.enter(i, ShuttingDown)
	svc.account.AfterFunc(svc.account.Delays.Shutdown, func() { svc.finish(i) })
}

// stop ends what an instance costs and holds of capacity, and keeps the rest; of
// one that is stopping it does nothing. Nothing here starts it again. The caller
// holds the lock.
func (svc *Service) stop(i *instance) {
	if !i.State.alive() {
		return
	}
	i.termination = termination{svc.account.Clock.Now(), userInitiated}
	svc.bill(i)
	svc.enter(i, stopping)
	svc.account.AfterFunc(svc.account.Delays.Shutdown, func() {
		if i.State == stopping {
			svc.enter(i, stopped)
		}
	})
}

// finish gives back what the instance held, and drops it after a while.
func (svc *Service) finish(i *instance) {
	svc.enter(i, Terminated)
	svc.ebs.Detach(i.ID)
	svc.VPC.Detach(i.ID, i.subnet, i.placement.addresses)
	svc.account.AfterFunc(svc.account.Delays.Removal, func() {
		svc.instances = slices.DeleteFunc(svc.instances, func(o *instance) bool { return o == i })
	})
}

// enter changes the state, and sends that to watchers and EventBridge.
func (svc *Service) enter(i *instance, s State) {
	i.State = s
	now := svc.account.Clock.Now()
	svc.deps.Entered(now, s, i.observed())
	svc.publish(i.ID, "EC2 Instance State-change Notification", map[string]any{"instance-id": i.ID, "state": s})
}

func (svc *Service) instance(id string) *instance {
	for _, i := range svc.instances {
		if i.ID == id {
			return i
		}
	}
	return nil
}

// publish puts an event of EC2 about an instance on the default bus.
func (svc *Service) publish(id, kind string, detail map[string]any) {
	svc.deps.Events.Publish(svc.account.Clock.Now(), events.Event{Source: "aws.ec2", DetailType: kind, Resource: svc.account.ARN("ec2", "instance/"+id), Detail: detail})
}
