package nodes

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// removeNode emulates the cloud controller for a machine that is gone. The pods that
// were left on the Node are then the pod garbage collector's.
func (p *Simulator) removeNode(k *kubelet) {
	k.mu.Lock()
	node := k.node
	k.mu.Unlock()
	if node == nil {
		return
	}
	for delay := p.config.Delays.NodeGone; p.sleep(delay); delay = retry {
		err := p.config.Client.CoreV1().Nodes().Delete(p.ctx, node.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &node.UID}})
		switch {
		case err == nil:
			k.notify(Removed, "the cloud controller deleted the Node")
			return
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return // somebody was faster, or the name is another machine's now
		}
	}
}

// sleep waits; false means that the simulator ends.
func (p *Simulator) sleep(d time.Duration) bool {
	timer := p.config.Clock.NewTimer(max(d, time.Nanosecond))
	defer timer.Stop()
	select {
	case <-timer.C():
		return p.ctx.Err() == nil
	case <-p.ctx.Done():
		return false
	}
}
