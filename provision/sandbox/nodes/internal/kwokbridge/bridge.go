package kwokbridge

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kwok/pkg/config/resources"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/informer"
)

const (
	// workers is how many stages run at the same time, per kind.
	workers = 8
	// leaseSeconds and renewal are kubelet's: a lease lives 40 s and is renewed
	// after a quarter of that.
	leaseSeconds  = 40
	renewal       = leaseSeconds * time.Second / 4
	renewalJitter = 0.04
)

// Config is what the bridge needs. All fields are required, durations may be 0.
type Config struct {
	Client kubernetes.Interface
	// Node and Lease read the simulator's caches.
	Node  func(name string) (*corev1.Node, bool)
	Lease func(name string) (*coordinationv1.Lease, bool)
	// Emulates returns whether a node's machine runs; pods elsewhere are left alone.
	Emulates func(node string) bool
	// PodCIDR is where pod addresses come from.
	PodCIDR string
	// PodStart is the time from a pod's admission to its containers running;
	// NodeReady the time from a node's registration as not ready to ready.
	PodStart, NodeReady time.Duration
	Log                 *slog.Logger
}

// Bridge feeds kwok. Use New; Start before anything else.
type Bridge struct {
	config Config
	nodes  *controllers.NodeController
	pods   *controllers.PodController

	nodeEvents chan informer.Event[*corev1.Node]
	podEvents  chan informer.Event[*corev1.Pod]
}

// New builds kwok's controllers; nothing runs yet.
func New(config Config) (*Bridge, error) {
	b := &Bridge{config: config,
		nodeEvents: make(chan informer.Event[*corev1.Node]), podEvents: make(chan informer.Event[*corev1.Pod])}
	nodeStages, err := loadStages("Node", map[string]time.Duration{"node-ready": config.NodeReady})
	if err != nil {
		return nil, err
	}
	podStages, err := loadStages("Pod", map[string]time.Duration{"pod-start": config.PodStart})
	if err != nil {
		return nil, err
	}
	b.nodes, err = controllers.NewNodeController(controllers.NodeControllerConfig{
		TypedClient: config.Client, Lifecycle: resources.NewStaticGetter(nodeStages), PlayStageParallelism: workers,
	})
	if err != nil {
		return nil, fmt.Errorf("building kwok's node controller: %w", err)
	}
	b.pods, err = controllers.NewPodController(controllers.PodControllerConfig{
		TypedClient: config.Client, Lifecycle: resources.NewStaticGetter(podStages), PlayStageParallelism: workers,
		CIDR: config.PodCIDR, NodeCacheGetter: nodeCache{config.Node},
		NodeGetFunc: func(node string) (*controllers.NodeInfo, bool) {
			return &controllers.NodeInfo{}, config.Emulates(node)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("building kwok's pod controller: %w", err)
	}
	return b, nil
}

// Start runs the controllers until the context ends.
func (b *Bridge) Start(ctx context.Context) error {
	ctx = b.logged(ctx)
	if err := b.nodes.Start(ctx, b.nodeEvents); err != nil {
		return fmt.Errorf("starting kwok's node controller: %w", err)
	}
	if err := b.pods.Start(ctx, b.podEvents); err != nil {
		return fmt.Errorf("starting kwok's pod controller: %w", err)
	}
	return nil
}

// Node hands a node's state to kwok.
func (b *Bridge) Node(ctx context.Context, node *corev1.Node) {
	send(ctx, b.nodeEvents, informer.Modified, node)
}

// NodeGone makes kwok drop a node and what it had planned for it.
func (b *Bridge) NodeGone(ctx context.Context, node *corev1.Node) {
	send(ctx, b.nodeEvents, informer.Deleted, node)
}

// Pod hands the state of an admitted pod to kwok.
func (b *Bridge) Pod(ctx context.Context, pod *corev1.Pod) {
	send(ctx, b.podEvents, informer.Modified, timed(pod))
}

// PodGone makes kwok drop a pod and what it had planned for it. The pod's node must
// still emulate.
func (b *Bridge) PodGone(ctx context.Context, pod *corev1.Pod) {
	send(ctx, b.podEvents, informer.Deleted, pod)
}

// Flush returns when kwok has taken every event sent before.
func (b *Bridge) Flush(ctx context.Context) {
	// Events are taken one at a time, in order; one of no known type does nothing.
	send[*corev1.Node](ctx, b.nodeEvents, "", nil)
	send[*corev1.Pod](ctx, b.podEvents, "", nil)
}

func send[T runtime.Object](ctx context.Context, to chan<- informer.Event[T], kind informer.EventType, object T) {
	select {
	case to <- informer.Event[T]{Type: kind, Object: object}:
	case <-ctx.Done():
	}
}

// Heartbeat creates the node's lease and renews it until the context ends. Each
// node has a holder of its own, as each kubelet is one.
func (b *Bridge) Heartbeat(ctx context.Context, node *corev1.Node) error {
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	leases, err := controllers.NewNodeLeaseController(controllers.NodeLeaseControllerConfig{
		HolderIdentity: node.Name, TypedClient: b.config.Client, LeaseDurationSeconds: leaseSeconds, LeaseParallelism: 1,
		GetLease: b.config.Lease, RenewInterval: renewal, RenewIntervalJitter: renewalJitter,
		MutateLeaseFunc: func(lease *coordinationv1.Lease) error {
			lease.OwnerReferences = owner
			return nil
		},
	})
	if err != nil {
		return fmt.Errorf("building kwok's lease controller: %w", err)
	}
	if err := leases.Start(b.logged(ctx)); err != nil {
		return fmt.Errorf("starting kwok's lease controller: %w", err)
	}
	leases.TryHold(node.Name)
	return nil
}

// nodeCache is the simulator's cache in the shape that kwok requires.
type nodeCache struct {
	get func(name string) (*corev1.Node, bool)
}

func (c nodeCache) Get(name string) (*corev1.Node, bool) { return c.get(name) }

func (c nodeCache) GetWithNamespace(name, _ string) (*corev1.Node, bool) { return c.get(name) }

func (c nodeCache) List() []*corev1.Node { return nil }

// logged makes kwok log its warnings and errors to ours.
func (b *Bridge) logged(ctx context.Context) context.Context {
	return log.NewContext(ctx, log.NewLogger(lines{b.config.Log}, log.LevelWarn))
}

type lines struct{ log *slog.Logger }

// Write implements io.Writer with one record a line.
func (l lines) Write(text []byte) (int, error) {
	l.log.Debug("kwok", "line", strings.TrimSpace(string(text)))
	return len(text), nil
}
