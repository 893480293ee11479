package pullrequest

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
)

// Reconciler comments on the pull requests of each Sync. All fields are needed.
type Reconciler struct {
	Client client.Client
	// AllSyncs lists all Syncs of the namespace, those that Client does not select included: they
	// share repositories with those that it does. It is used once a pass.
	AllSyncs client.Reader
	// Namespace is the only one in which Syncs are honoured.
	Namespace string
	// Build makes what a Sync needs.
	Build    Builder
	Recorder record.EventRecorder
	Metrics  *Metrics
	Clock    clock.PassiveClock
	// Jitter varies the interval at which a forge is polled, so that many clusters do not poll
	// one in the same second. Several workers call it at a time.
	Jitter jitter.Duration

	states  pullRequestStates
	limiter limits.RepositoryLimiter
}

// defaultInterval is how often a forge is polled where the Sync does not set it.
const defaultInterval = 30 * time.Second

// interval is how often the forge of a Sync is polled.
func interval(sync *v1alpha1.Sync) time.Duration {
	every := sync.Spec.PullRequests.Interval.Duration
	if every <= 0 {
		return defaultInterval
	}
	return every
}

// log is where a pass reports what went wrong on our side: never a text of a pull
// request.
func log(ctx context.Context) logr.Logger { return logr.FromContextOrDiscard(ctx) }

// workers is how many Syncs' pull requests are processed at a time.
const workers = 4
