package nodes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/devicemanager"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/userdata"
)

// retry is how long a kubelet waits before it repeats a failed request.
const retry = 250 * time.Millisecond

// kubelet emulates one machine from power-on to silence.
type kubelet struct {
	simulator *Simulator
	machine   Machine
	ctx       context.Context // ends when the machine stops
	cancel    context.CancelFunc
	image     image
	sharing   userdata.Sharing // Bottlerocket's own device plugin

	feeding sync.Mutex // held while kwok is fed, so that nothing follows the stop

	mu             sync.Mutex
	node           *corev1.Node // as registered; nil before
	pods           map[types.UID]*podRecord
	devices        devicemanager.Table
	devicesChanged chan struct{}
	// draReady is true while NVIDIA's DRA driver runs here and has published its devices.
	draReady bool
}

func newKubelet(p *Simulator, m Machine) *kubelet {
	k := &kubelet{simulator: p, machine: m, pods: map[types.UID]*podRecord{}, devices: devicemanager.Table{},
		devicesChanged: make(chan struct{}, 1)}
	k.ctx, k.cancel = context.WithCancel(p.ctx)
	return k
}

// join reads the user data, registers the Node and begins to work. An error is
// why the machine never becomes a Node.
func (k *kubelet) join() error {
	fault := k.simulator.config.Fault(k.machine)
	if fault.NeverJoins {
		return fmt.Errorf("a fault keeps the kubelet from reaching the API server")
	}
	node, err := k.describe()
	if err != nil {
		return err
	}
	if fault.NeverReady || k.simulator.config.Delays.Ready > 0 {
		notReady(node)
	}
	if node, err = k.register(node); err != nil {
		return err
	}
	if !k.enter(node) {
		k.simulator.running.Go(func() { k.simulator.removeNode(k) })
		return context.Cause(k.ctx)
	}
	if err := k.simulator.bridge.Heartbeat(k.ctx, node); err != nil {
		return err
	}
	if err := k.simulator.ebs.Register(k.ctx, node, k.machine.ID); err != nil {
		return err
	}
	k.notify(Joined, "the node registered")
	k.syncNode(node)
	for _, pod := range k.simulator.boundTo(node.Name) {
		k.syncPod(pod)
	}
	k.simulator.running.Go(k.runDevices)
	return nil
}

// enter takes the registered Node into the books, unless the machine stopped
// while it registered.
func (k *kubelet) enter(node *corev1.Node) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.node = node
	if k.ctx.Err() != nil {
		return false
	}
	k.simulator.mu.Lock()
	defer k.simulator.mu.Unlock()
	k.simulator.joined[node.Name] = k
	return true
}

// register creates the Node, again and again until the API server takes it. A
// Node of the same name that belongs to another machine must go first. A request
// outlives the machine's end, so that a Node never exists without being known.
func (k *kubelet) register(node *corev1.Node) (*corev1.Node, error) {
	client := k.simulator.config.Client.CoreV1().Nodes()
	for {
		created, err := client.Create(k.simulator.ctx, node, metav1.CreateOptions{})
		switch {
		case err == nil:
			return created, nil
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
			return nil, fmt.Errorf("the API server refuses the Node: %w", err)
		case apierrors.IsAlreadyExists(err):
			old, getErr := client.Get(k.ctx, node.Name, metav1.GetOptions{})
			if getErr == nil && old.Spec.ProviderID == node.Spec.ProviderID {
				return old, nil
			}
		}
		if !k.sleep(retry) {
			return nil, context.Cause(k.ctx)
		}
	}
}

// syncNode hands the Node to kwok, which keeps it ready. Pods that waited for a
// ready node go on.
func (k *kubelet) syncNode(node *corev1.Node) {
	if k.simulator.config.Fault(k.machine).NeverReady {
		return
	}
	k.feed(func(ctx context.Context) { k.simulator.bridge.Node(ctx, node) })
	k.notifyDevices()
	if ready(node) {
		k.resume()
	}
}

// stop silences the machine. What kwok had planned for it is dropped first.
func (k *kubelet) stop() {
	k.mu.Lock()
	node, pods := k.node, k.boundPods()
	already := k.ctx.Err() != nil
	k.cancel()
	k.mu.Unlock()
	if already || node == nil {
		return
	}
	k.feeding.Lock()
	defer k.feeding.Unlock()
	for _, pod := range pods {
		k.simulator.bridge.PodGone(k.simulator.ctx, pod)
	}
	k.simulator.bridge.NodeGone(k.simulator.ctx, node)
	k.simulator.bridge.Flush(k.simulator.ctx)
	k.simulator.mu.Lock()
	if k.simulator.joined[node.Name] == k {
		delete(k.simulator.joined, node.Name)
	}
	k.simulator.mu.Unlock()
	k.notify(Stopped, "the kubelet stopped reporting")
}

// feed lets kwok have something, unless the machine has stopped.
func (k *kubelet) feed(give func(ctx context.Context)) {
	k.feeding.Lock()
	defer k.feeding.Unlock()
	if k.ctx.Err() == nil {
		give(k.ctx)
	}
}

func (k *kubelet) owns(node *corev1.Node) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.node != nil && k.node.UID == node.UID
}

// sleep waits; false means that the machine stopped meanwhile.
func (k *kubelet) sleep(d time.Duration) bool {
	if d <= 0 {
		return k.ctx.Err() == nil
	}
	timer := k.simulator.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return k.ctx.Err() == nil
	case <-k.ctx.Done():
		return false
	}
}

func (k *kubelet) notify(event Event, message string) {
	name := ""
	k.mu.Lock()
	if k.node != nil {
		name = k.node.Name
	}
	k.mu.Unlock()
	notice := Notice{Time: k.simulator.config.Clock.Now(), Event: event, Machine: k.machine.ID, Node: name, Message: message}
	k.simulator.config.Log.Info(message, "event", string(event), "machine", k.machine.ID, "node", name)
	k.simulator.config.Notify(notice)
}
