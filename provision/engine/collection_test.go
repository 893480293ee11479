package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/engine/enginetest"
	"github.com/poolwright/poolwright/provision/engine/instancetypes"
)

// TestInstancesWithoutALiveNodeClaimAreTerminatedWhateverTheCachesHold has a crash that left an
// instance behind, and a failed request after it, so that the caches are not proven fresh.
func TestInstancesWithoutALiveNodeClaimAreTerminatedWhateverTheCachesHold(t *testing.T) {
	start := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	var refusal error
	eng, err := New(Config{
		Settings: valid(), REST: &rest.Config{Host: "http://127.0.0.1:1"}, Clock: clocktesting.NewFakeClock(start),
		AllowGarbageCollection: func(context.Context) error { return refusal },
	})
	if err != nil {
		t.Fatal(err)
	}
	eng.freshness.Suspect()
	cloud := &launchedInstances{all: []*karpv1.NodeClaim{
		launchedClaim("in-the-cache", start), launchedClaim("not-in-the-cache", start), launchedClaim("left-behind", start),
		// Their NodeClaims' status may be about to name them.
		launchedClaim("launched-now", time.Now().Add(time.Hour)),
		inPool("launching", launchedClaim("launched-in-an-outage", start)),
		inPool("launching", launchedClaim("launched-by-a-clock-that-is-late", start.Add(-10*time.Second))),
		inPool("launching", launchedClaim("older-than-the-claim", start.Add(-time.Minute))),
		inPool("leaving", launchedClaim("of-a-deleted-claim", start)),
	}}
	launching, deleted := inPool("launching", launchedClaim("launching", start)), inPool("leaving", launchedClaim("leaving", start))
	launching.Status.ProviderID, deleted.Status.ProviderID = "", ""
	deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.NewTime(start)), []string{karpv1.TerminationFinalizer}
	controller := collectionController(&parts{
		client: enginetest.NewClientBuilder().WithObjects(launchedClaim("in-the-cache", start), launchedClaim("deleted", start)).Build(),
		live:   enginetest.NewClientBuilder().WithObjects(launchedClaim("in-the-cache", start), launchedClaim("not-in-the-cache", start), launching, deleted).Build(),
		cloud:  cloud, collection: eng.collectionGuard(nil, aws.Config{}),
	})
	for _, step := range []struct {
		name    string
		refusal error
		want    []string
	}{
		{"nothing goes while the gate refuses", errors.New("refused"), nil},
		{"the first round ends what was left behind", nil, []string{"aws:///us-east-1a/left-behind", "aws:///us-east-1a/of-a-deleted-claim", "aws:///us-east-1a/older-than-the-claim"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			refusal = step.refusal
			result, err := controller.Reconcile(eng.options.into(t.Context(), logr.Discard()))
			if err != nil || result.RequeueAfter != 10*time.Second {
				t.Errorf("the round has %+v, %v", result, err)
			}
			slices.Sort(cloud.terminated)
			if diff := cmp.Diff(step.want, cloud.terminated); diff != "" {
				t.Errorf("terminated (-desired +got):\n%s", diff)
			}
		})
	}
}

// launchedClaim is a NodeClaim with an instance of the same name, in the API server or as the cloud
// provider lists the instance.
func launchedClaim(name string, at time.Time) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at)},
		Spec:       karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "gpu"}},
		Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///us-east-1a/" + name},
	}
}

func inPool(name string, claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	claim.Labels = map[string]string{karpv1.NodePoolLabelKey: name}
	return claim
}

// launchedInstances is a cloud provider that has instances.
type launchedInstances struct {
	cloudprovider.CloudProvider
	all        []*karpv1.NodeClaim
	mu         sync.Mutex
	terminated []string
}

func (l *launchedInstances) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}

// List implements cloudprovider.CloudProvider, as Karpenter's does before the NodeOverlays are evaluated:
// with instance types it is an error.
func (l *launchedInstances) List(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	if _, err := (instancetypes.Scoped{Provider: unevaluatedTypes{}}).Get(ctx, nil, "g4dn.xlarge"); !apierrors.IsNotFound(err) {
		return nil, err
	}
	return l.all, nil
}

// unevaluatedTypes are instance types of a NodePool whose NodeOverlays are not evaluated.
type unevaluatedTypes struct{ instancetype.Provider }

func (unevaluatedTypes) Get(context.Context, instancetype.NodeClass, types.InstanceType) (*cloudprovider.InstanceType, error) {
	return nil, cloudprovider.NewUnevaluatedNodePoolError("gpu")
}

func (l *launchedInstances) Delete(_ context.Context, claim *karpv1.NodeClaim) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.terminated = append(l.terminated, claim.Status.ProviderID)
	return nil
}
