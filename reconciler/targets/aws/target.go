package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/connection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// Name is the Target in the keys of this target's items.
const Name = resource.TargetName

// Config is how AWS is reached, and for which Sync.
type Config struct {
	// AWS makes the SDK's configuration for a region: credentials, endpoint.
	// Retries and time limits are the Target's.
	AWS func(ctx context.Context, region string) (sdk.Config, error)
	// REST reaches the API server that keeps the inventory.
	REST *rest.Config
	// Sync is the Sync's name; Namespace holds the inventory: the controller's
	// own.
	Sync, Namespace string
	// Bootstrap allows to write the controller's own role.
	Bootstrap bool
	// Begin is called before each writing request. An error, such as a lost lease,
	// keeps it from being sent; end is called with the result. Nil allows all.
	Begin func() (end func(), err error)
	// Clock is the time; nil is the real one.
	Clock clock.Clock
	// Log gets one line for each event; the zero value discards them.
	Log logr.Logger
	// OnStatus is called after each complete observation, and after corrections;
	// may be nil. It should return soon.
	OnStatus func(Status)
	// Check finds problems in the declared Cluster object beyond the Target's
	// own, such as those that its schema refuses; may be nil.
	Check func(cluster state.Item) []state.Problem
	// Live returns the name of the live Cluster that decides, the oldest, and what its status
	// shows of AWS; the zero Status while there is none. What another Cluster declares of AWS
	// is read-only, and what is unknown keeps its time over restarts. May be nil.
	Live func(ctx context.Context) (Status, error)
	// Poll is the interval at which Watch reads AWS, up to a tenth sooner or later; five minutes
	// where zero.
	Poll time.Duration
}

// Target is the AWS side of one Sync's Cluster. Its items are computed from what is
// declared before they are observed or corrected. It is safe for concurrent use.
type Target struct {
	cfg    Config
	api    *api.Client
	store  *inventory.Store
	kinds  table
	pool   *connection.ClientCache
	status *statusReporter

	polling sync.Mutex // held by one poll at a time

	mu sync.Mutex
	// desired is what Desired read last.
	desired desiredState
	// lastValid is the desired state of the last complete observation: what Watch reads.
	lastValid    desiredState
	previousRead previousRead
	// preview is nil but for previews for people that may not read the account.
	preview *previewState
}

// previousRead is what one read leaves to the next.
type previousRead struct {
	// applying is true between Begin and End: what differs then is on its way.
	applying bool
	// good is the last desired state that had no problem.
	good desiredState
	// desiredCalled is true when Desired was called since the last observation.
	desiredCalled bool
	// recalled is true when Live has been called.
	recalled bool
	// without counts the observations in a row without a Cluster.
	without int
	// absent are the recorded, undesired things that the last observation did
	// not find.
	absent map[state.Key]bool
	// states are how the desired things were, as far as no correction ends it.
	states map[state.Key]string
}

// defaultPoll is how often AWS is read for drift.
const defaultPoll = 5 * time.Minute

// NewPreview makes a Target for who serves people that may not read the account: it
// reads from AWS what is in the inventory, and what is read-only where the revision
// that a preview starts from compares it. It sends no request, and is not to correct.
func NewPreview(cfg Config) (*Target, error) { return create(cfg, &previewState{}) }

// New makes a Target. It sends no request.
func New(cfg Config) (*Target, error) { return create(cfg, nil) }

func create(cfg Config, of *previewState) (*Target, error) {
	if cfg.AWS == nil || cfg.REST == nil || cfg.Sync == "" || cfg.Namespace == "" {
		return nil, fmt.Errorf("making the AWS target: AWS, REST, Sync and Namespace must be set")
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log.GetSink() == nil {
		cfg.Log = logr.Discard()
	}
	if cfg.Poll <= 0 {
		cfg.Poll = defaultPoll
	}
	// The API server's warnings are dropped: nothing is sent but ConfigMaps, and read but them
	// and what Karpenter runs.
	client, err := api.New(cfg.REST, v1alpha1.FieldManager, rest.NoWarnings{}, nil)
	if err != nil {
		return nil, err
	}
	w := &Target{
		cfg: cfg, api: client, kinds: kinds(), status: newStatusReporter(cfg.Clock), preview: of,
		store: inventory.NewStore(client, inventory.Location{
			Target: Name, Namespace: cfg.Namespace,
			Prefix: inventory.TruncateName(cfg.Sync, 200) + "-inventory-aws", Value: inventory.TruncateName(cfg.Sync, 63),
			ReadOnly: of != nil,
		}),
	}
	w.pool = connection.NewClientCache(connection.Config{AWS: cfg.AWS, Begin: cfg.Begin, Clock: cfg.Clock})
	return w, nil
}

// current is the desired state that the verbs use: the last, or where that one could
// not be read, the one before, which still is what Watch reads.
func (w *Target) current() desiredState {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.desired.Region == "" {
		return w.lastValid
	}
	return w.desired
}

// Orphan deletes the inventory; what AWS holds stays, with its tags, and
// belongs to nobody.
func (w *Target) Orphan(ctx context.Context) error {
	if _, err := w.store.Load(ctx); err != nil {
		return err
	}
	return w.store.DeleteAll(ctx)
}

// sleep waits on the injected clock. It reports false when ctx ended first.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) bool {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C():
		return true
	}
}

// reportStatus passes on what has changed, if anybody listens.
func (w *Target) reportStatus() {
	if w.cfg.OnStatus == nil {
		return
	}
	if s, changed := w.status.next(); changed {
		w.cfg.OnStatus(s)
	}
}

// previewState is what one comparison for a preview keeps.
type previewState struct {
	// base is what was desired first; nil before.
	base *desiredState
}
