package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/ebsdriver"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/kwokbridge"
)

// resync is how often every pod and node is reconciled again, so that a step that
// failed while the API server was away is taken once more.
const resync = 5 * time.Second

const byNode = "node"

// Simulator emulates the machines of one cluster. Use New, then Start.
type Simulator struct {
	config Config
	bridge *kwokbridge.Bridge
	ebs    *ebsdriver.Driver

	pods, nodes, leases cache.SharedIndexInformer

	ctx     context.Context // the simulator's life, set by Start
	running sync.WaitGroup

	mu       sync.RWMutex
	machines map[string]*kubelet // by instance id
	joined   map[string]*kubelet // by node name, while the machine runs
}

// New builds a simulator; nothing runs before Start. It fails on a Config that lacks
// a required field.
func New(config Config) (*Simulator, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Simulator{config: config, machines: map[string]*kubelet{}, joined: map[string]*kubelet{}}
	if err := p.buildCaches(); err != nil {
		return nil, err
	}
	p.bridge, err = kwokbridge.New(kwokbridge.Config{
		Client: config.Client, PodCIDR: config.PodCIDR, Log: config.Log,
		PodStart: config.Delays.PodStart, NodeReady: config.Delays.Ready,
		Node: func(name string) (*corev1.Node, bool) { return cached[*corev1.Node](p.nodes, name) },
		Lease: func(name string) (*coordinationv1.Lease, bool) {
			return cached[*coordinationv1.Lease](p.leases, corev1.NamespaceNodeLease+"/"+name)
		},
		Emulates: func(node string) bool { return p.on(node) != nil },
	})
	if err != nil {
		return nil, fmt.Errorf("emulating nodes: %w", err)
	}
	took := config.Delays.Volume
	p.ebs, err = ebsdriver.New(ebsdriver.Config{
		Client: config.Client, Create: took, Attach: took, Detach: took, Clock: config.Clock, Log: config.Log,
		Zone: func(name string) string {
			if node, ok := cached[*corev1.Node](p.nodes, name); ok {
				return node.Labels[labelEBSZone]
			}
			return ""
		},
	})
	return p, err
}

// buildCaches makes the informers: pods that are bound, nodes, node leases.
func (p *Simulator) buildCaches() error {
	bound := informers.NewSharedInformerFactoryWithOptions(p.config.Client, resync, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}))
	p.pods = bound.Core().V1().Pods().Informer()
	p.nodes = informers.NewSharedInformerFactory(p.config.Client, resync).Core().V1().Nodes().Informer()
	p.leases = informers.NewSharedInformerFactoryWithOptions(p.config.Client, 0, informers.WithNamespace(corev1.NamespaceNodeLease)).
		Coordination().V1().Leases().Informer()
	indexers := cache.Indexers{byNode: func(o any) ([]string, error) {
		if pod, ok := o.(*corev1.Pod); ok {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}}
	_, podErr := p.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.handlePod(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { p.handlePod(o.(*corev1.Pod)) },
		DeleteFunc: func(o any) { last(o, p.losePod) },
	})
	_, nodeErr := p.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.handleNode(o.(*corev1.Node)) },
		UpdateFunc: func(_, o any) { p.handleNode(o.(*corev1.Node)) },
		DeleteFunc: func(o any) { last(o, p.loseNode) },
	})
	if err := errors.Join(podErr, nodeErr, p.pods.AddIndexers(indexers)); err != nil {
		return fmt.Errorf("emulating nodes: building caches: %w", err)
	}
	return nil
}

// Start begins to emulate: it returns when the caches are filled and the system
// machines' Nodes exist. The simulator ends with the context; Wait then returns.
func (p *Simulator) Start(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	p.mu.Unlock()
	if err := p.bridge.Start(ctx); err != nil {
		return fmt.Errorf("emulating nodes: %w", err)
	}
	if err := p.ebs.Start(ctx); err != nil {
		return err
	}
	p.running.Go(p.ebs.Wait)
	for _, informer := range []cache.SharedIndexInformer{p.pods, p.nodes, p.leases} {
		p.running.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), p.pods.HasSynced, p.nodes.HasSynced, p.leases.HasSynced) {
		return fmt.Errorf("emulating nodes: filling caches: %w", context.Cause(ctx))
	}
	for _, m := range p.config.System {
		k, err := p.power(m)
		if err == nil && k == nil {
			err = errors.New("another machine has its id")
		}
		if err != nil {
			return fmt.Errorf("emulating the system node %s: %w", m, err)
		}
		if err := k.join(); err != nil {
			return fmt.Errorf("emulating the system node %s: %w", m, err)
		}
	}
	return nil
}

// Wait returns when everything that the simulator started has ended.
func (p *Simulator) Wait() { p.running.Wait() }

// Launch emulates a machine that the cloud has just started to run. It returns at
// once; what becomes of the machine is reported by Config.Notify. An id that is emulated
// already is ignored.
func (p *Simulator) Launch(m Machine) {
	k, err := p.power(m)
	if err != nil {
		p.config.Log.Warn("machine not emulated", "machine", m.String(), "reason", err.Error())
		return
	}
	if k == nil {
		return
	}
	p.running.Go(func() {
		if k.sleep(p.config.Delays.Join + p.config.Fault(m).JoinsLater) {
			if err := k.join(); err != nil && k.ctx.Err() == nil {
				k.notify(NeverJoins, err.Error())
			}
		}
	})
}

// Stop silences a machine that shuts down: no heartbeats, no work on its pods.
// Its Node stays.
func (p *Simulator) Stop(id string) {
	if k := p.machine(id); k != nil {
		k.stop()
	}
}

// Gone emulates the cloud controller: the terminated machine's Node is deleted after
// Delays.NodeGone, unless somebody else was faster.
func (p *Simulator) Gone(id string) {
	k := p.machine(id)
	if k == nil {
		return
	}
	k.stop()
	p.mu.Lock()
	delete(p.machines, id)
	p.mu.Unlock()
	p.running.Go(func() { p.removeNode(k) })
}

// power takes a machine into the books. It returns nil for one that is there.
func (p *Simulator) power(m Machine) (*kubelet, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return nil, errors.New("the player is not started")
	}
	if p.machines[m.ID] != nil {
		return nil, nil
	}
	k := newKubelet(p, m)
	p.machines[m.ID] = k
	return k, nil
}

func (p *Simulator) machine(id string) *kubelet {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.machines[id]
}

// on returns the kubelet that emulates a node, nil when none does.
func (p *Simulator) on(node string) *kubelet {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.joined[node]
}

func (p *Simulator) handlePod(pod *corev1.Pod) {
	if k := p.on(pod.Spec.NodeName); k != nil {
		k.syncPod(pod)
	}
}

func (p *Simulator) losePod(pod *corev1.Pod) {
	if k := p.on(pod.Spec.NodeName); k != nil {
		k.losePod(pod)
	}
}

func (p *Simulator) handleNode(node *corev1.Node) {
	if k := p.on(node.Name); k != nil {
		k.syncNode(node)
	}
}

// loseNode silences a kubelet whose Node was deleted under it: it does not
// register again before its machine restarts, and machines here never do.
func (p *Simulator) loseNode(node *corev1.Node) {
	if k := p.on(node.Name); k != nil && k.owns(node) {
		k.stop()
	}
}

// boundTo returns the cached pods of a node.
func (p *Simulator) boundTo(node string) []*corev1.Pod {
	objects, _ := p.pods.GetIndexer().ByIndex(byNode, node)
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, o := range objects {
		pods = append(pods, o.(*corev1.Pod))
	}
	return pods
}

func cached[T any](informer cache.SharedIndexInformer, key string) (T, bool) {
	o, ok, err := informer.GetStore().GetByKey(key)
	t, is := o.(T)
	return t, ok && is && err == nil
}

// last unwraps a deleted object that the watch may have missed.
func last[T any](o any, then func(T)) {
	if lost, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = lost.Obj
	}
	if t, ok := o.(T); ok {
		then(t)
	}
}
