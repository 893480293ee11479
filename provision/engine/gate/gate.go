// Package gate decides whether the engine may start, and whether it may go on.
//
// Karpenter terminates every EC2 instance that carries the cluster's tag and has
// no NodeClaim in the API server that it is connected to. So before it runs, five
// things must be proven: that the API server is the one of the named EKS cluster, that
// the credentials belong to the named account and region, that EKS Auto Mode does not
// run the same kinds, that no other Karpenter runs in this cluster, and that no
// instance in use would be garbage-collected as leaked.
//
// What it refuses: what contradicts one of these, and what cannot be checked. A request
// that is denied or gets no response proves nothing, so it is a refusal too, marked
// Unproven. Start reading at Gates.Check; each gate has a file.
package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Name is a gate's name, as conditions and logs show it.
type Name string

// The gates, in the order in which they are checked and reported.
const (
	Identity          Name = "Identity"
	Account           Name = "Account"
	AutoMode          Name = "AutoMode"
	OtherKarpenter    Name = "OtherKarpenter"
	GarbageCollection Name = "GarbageCollection"
)

// The reasons of a Cluster's conditions while a gate is closed because of what was found.
const (
	ClusterMismatch           = "ClusterMismatch"
	AccountMismatch           = "AccountMismatch"
	AutoModeEnabled           = "AutoModeEnabled"
	OtherKarpenterRunning     = "OtherKarpenterRunning"
	InstancesWithoutNodeClaim = "InstancesWithoutNodeClaim"
)

// found are the reasons by gate.
var found = map[Name]string{
	Identity: ClusterMismatch, Account: AccountMismatch, AutoMode: AutoModeEnabled,
	OtherKarpenter: OtherKarpenterRunning, GarbageCollection: InstancesWithoutNodeClaim,
}

// checkTimeout bounds one gate, the SDK's retries included.
const checkTimeout = 30 * time.Second

// ClosedGate is a closed gate.
type ClosedGate struct {
	// Gate is which one.
	Gate Name
	// Message is what was found, without the remedy.
	Message string
	// Remedy is what a person can do about it.
	Remedy string
	// Unproven is true where nothing bad was found, but the check could not be made.
	Unproven bool
}

// Reason is the reason of a condition for this refusal: one of those above, or the gate's
// name and "Unknown", as a condition's status is, where it is Unproven.
func (r ClosedGate) Reason() string {
	if r.Unproven {
		return string(r.Gate) + "Unknown"
	}
	return found[r.Gate]
}

// Error is the refusal as one sentence.
func (r ClosedGate) Error() string {
	return fmt.Sprintf("gate %s: %s: %s", r.Gate, r.Message, r.Remedy)
}

// Gates hold what the checks need. All fields but ConfirmGarbageCollection and Clock are
// required.
type Gates struct {
	// Cluster, Region and Account are what the Cluster object claims.
	Cluster, Region, Account string
	// REST is the connection that the engine will use.
	REST *rest.Config
	// Kube reads through that connection, past any cache.
	Kube client.Reader
	// AWS is the configuration that the engine will use, as [engine.LoadAWS] returns it.
	AWS aws.Config
	// OwnLease is this process's own leader lease, which is not another
	// Karpenter's even if it is named like one. A lease of this name in another
	// namespace is another Poolwright's; see LeaseLabels.
	OwnLease types.NamespacedName
	// ConfirmGarbageCollection returns what a person quoted from a refusal to let leaked
	// instances go, "" for nothing. It is called at every check.
	ConfirmGarbageCollection func() string
	// Clock is the time. Default: the real one.
	Clock clock.Clock
}

// Check runs all gates and returns the closed ones in a fixed order; none means
// that the engine may run. The error is for gates that were not filled in, and
// for a context that ended.
func (g Gates) Check(ctx context.Context) ([]ClosedGate, error) {
	g, err := g.complete()
	if err != nil {
		return nil, err
	}
	cluster, describeErr := g.describe(ctx)
	var closed []ClosedGate
	for _, check := range []func(context.Context) *ClosedGate{
		func(ctx context.Context) *ClosedGate { return g.identity(ctx, cluster, describeErr) },
		func(ctx context.Context) *ClosedGate { return g.account(ctx, cluster, describeErr) },
		func(ctx context.Context) *ClosedGate { return g.autoMode(ctx, cluster, describeErr) },
		func(ctx context.Context) *ClosedGate { return g.otherKarpenter(ctx) },
		g.garbageCollection,
	} {
		bounded, cancel := context.WithTimeout(ctx, checkTimeout)
		refusal := check(bounded)
		cancel()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("checking the engine's gates: %w", ctx.Err())
		}
		if refusal != nil {
			closed = append(closed, *refusal)
		}
	}
	return closed, nil
}

// complete checks the fields and fills in defaults.
func (g Gates) complete() (Gates, error) {
	if g.Cluster == "" || g.Region == "" || g.Account == "" || g.REST == nil || g.Kube == nil || g.AWS.Region == "" {
		return g, errors.New("checking the engine's gates: cluster, region, account and both connections must be given")
	}
	if g.Clock == nil {
		g.Clock = clock.RealClock{}
	}
	if g.ConfirmGarbageCollection == nil {
		g.ConfirmGarbageCollection = func() string { return "" }
	}
	return g, nil
}

func (g Gates) describe(ctx context.Context) (*ekstypes.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	out, err := eks.NewFromConfig(g.AWS).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &g.Cluster})
	if err != nil {
		return nil, fmt.Errorf("describing EKS cluster %q in %s: %w", g.Cluster, g.Region, brief(err))
	}
	if out.Cluster == nil {
		return nil, fmt.Errorf("describing EKS cluster %q in %s: the response has no cluster", g.Cluster, g.Region)
	}
	return out.Cluster, nil
}

func refuse(gate Name, remedy, format string, values ...any) *ClosedGate {
	return &ClosedGate{Gate: gate, Message: fmt.Sprintf(format, values...), Remedy: remedy}
}

func unproven(gate Name, remedy string, err error) *ClosedGate {
	return &ClosedGate{Gate: gate, Message: "not proven: " + err.Error(), Remedy: remedy, Unproven: true}
}

// brief leaves of an AWS error what helps and stays the same from try to try:
// the SDK's text has a request id, which would make each report a new one.
func brief(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("%s: %s", api.ErrorCode(), api.ErrorMessage())
	}
	return err
}
