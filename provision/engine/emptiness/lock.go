package emptiness

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"

	"github.com/poolwright/poolwright/provision/engine/batcher"
)

// Lock serialises disruption controllers, and what they launch with what the provisioner does.
// Make it with NewLock.
//
// Each disruption controller begins with the removal of taints that belong to no command of the
// queue, and a command is in the queue only after its nodes are tainted: at the same time, one
// would remove the taints of the other. And a disruption launches nodes for all pods that are
// pending when it is simulated, as the provisioner does: at the same time, both would launch a
// node for the same pod.
type Lock struct {
	mu sync.Mutex
	// launches is held while pods are scheduled and their NodeClaims created: by the provisioner,
	// and by the controller that has mu while it starts its commands, which is launching then.
	launches  sync.Mutex
	launching bool
	// pods reads them from the cache that Karpenter simulates by.
	pods client.Reader
	// synced is whether each NodeClaim has an instance, and so counts in a simulation.
	synced func(context.Context) bool
	// release takes back places of a static pool's node limit; nil where nothing reserves any.
	release func(nodePool string, count int64)
	// changes counts the commands that were computed, and the NodeClaims that were created.
	changes atomic.Int64
}

// NewLock returns a lock that nobody has. pods must read from the cache that Karpenter simulates
// by; synced is that of the cluster's state.
func NewLock(pods client.Reader, synced func(context.Context) bool) *Lock {
	return &Lock{pods: pods, synced: synced}
}

// SetReleaseFunc sets what releases the places of a static pool's node limit that a dropped command had
// reserved for its replacement.
func (l *Lock) SetReleaseFunc(release func(nodePool string, count int64)) { l.release = release }

// Reconciler runs one reconciliation of inner, a disruption controller, while it has the lock.
func (l *Lock) Reconciler(inner singleton.Reconciler) singleton.Reconciler {
	return locked{l, inner}
}

type locked struct {
	lock  *Lock
	inner singleton.Reconciler
}

func (l locked) Reconcile(ctx context.Context) (reconciler.Result, error) {
	l.lock.mu.Lock()
	defer l.lock.mu.Unlock()
	defer l.lock.endLaunches()
	return l.inner.Reconcile(ctx)
}

// LaunchLocker is the lock that the provisioner holds while it schedules pods and creates their
// NodeClaims. No disruption launches then.
func (l *Lock) LaunchLocker() sync.Locker { return &l.launches }

// Client returns inner with each NodeClaim counted that it creates. It is the provisioner's, which
// also creates the replacements of a disruption.
func (l *Lock) Client(inner client.Client) client.Client { return countingClient{inner, l} }

type countingClient struct {
	client.Client
	lock *Lock
}

// Create counts the request, since what it created is not known where the response is lost.
func (c countingClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if _, ok := object.(*karpv1.NodeClaim); ok {
		c.lock.changes.Add(1)
	}
	return c.Client.Create(ctx, object, options...)
}

// Decorate returns inner with the lock released while its commands are computed: that has
// a simulation, and a validation of fifteen seconds. Where a command of another controller was
// computed or a NodeClaim created meanwhile, inner's commands are dropped, because the budgets,
// candidates and pending pods that they come from are outdated. So are they where a replacement is
// for pods that need no node any more. None is computed while a NodeClaim has no instance yet, since
// the simulation would not count it. The controller of inner must run by Reconciler.
func (l *Lock) Decorate(inner disruption.Method) disruption.Method {
	return decorated{inner, l}
}

type decorated struct {
	disruption.Method
	lock *Lock
}

// SetNodePoolTotals implements disruption.NodePoolTotalsSetter for the methods that do.
func (d decorated) SetNodePoolTotals(totals map[string]disruption.NodePoolTotals) {
	if setter, ok := d.Method.(disruption.NodePoolTotalsSetter); ok {
		setter.SetNodePoolTotals(totals)
	}
}

// ComputeCommands implements disruption.Method.
func (d decorated) ComputeCommands(ctx context.Context, budgets map[string]int, candidates ...*disruption.Candidate) ([]disruption.Command, error) {
	d.lock.endLaunches()
	// The controller checked it once for all its methods, and between them the lock is released.
	if !d.lock.synced(ctx) {
		return nil, nil
	}
	before := d.lock.changes.Load()
	commands, err := d.compute(ctx, budgets, candidates)
	if err != nil || len(commands) == 0 {
		return nil, err
	}
	d.lock.launches.Lock()
	d.lock.launching = true
	if d.lock.changes.Load() != before || d.lock.outdated(ctx, commands) {
		d.lock.endLaunches()
		d.lock.drop(commands)
		return nil, nil
	}
	return commands, nil
}

// outdated reports whether a replacement is for pods that were evicted or bound meanwhile.
func (l *Lock) outdated(ctx context.Context, commands []disruption.Command) bool {
	return slices.ContainsFunc(commands, func(command disruption.Command) bool {
		return slices.ContainsFunc(command.Replacements, func(r *disruption.Replacement) bool {
			return !batcher.NodeNeeded(ctx, l.pods, r.NodeClaim)
		})
	})
}

func (l *Lock) drop(commands []disruption.Command) {
	for i := range commands {
		for _, r := range commands[i].Replacements {
			if r.IsStaticNodeClaim && l.release != nil {
				l.release(r.NodePoolName, 1)
			}
		}
	}
}

func (d decorated) compute(ctx context.Context, budgets map[string]int, candidates []*disruption.Candidate) ([]disruption.Command, error) {
	d.lock.mu.Unlock()
	defer d.lock.mu.Lock()
	return d.Method.ComputeCommands(ctx, budgets, candidates...)
}

// endLaunches lets the provisioner go on after the commands were started.
func (l *Lock) endLaunches() {
	if l.launching {
		l.launching = false
		l.launches.Unlock()
	}
}
