package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/poolwright/poolwright/provision/engine/enginetest"
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
		// Its NodeClaim's status may be about to name it.
		launchedClaim("launched-now", time.Now().Add(time.Hour)),
	}}
	controller := collectionController(&parts{
		client: enginetest.NewClientBuilder().WithObjects(launchedClaim("in-the-cache", start), launchedClaim("deleted", start)).Build(),
		live:   enginetest.NewClientBuilder().WithObjects(launchedClaim("in-the-cache", start), launchedClaim("not-in-the-cache", start)).Build(),
		cloud:  cloud, collection: eng.collectionGuard(nil, aws.Config{}),
	})
	for _, step := range []struct {
		name    string
		refusal error
		want    []string
	}{
		{"nothing goes while the gate refuses", errors.New("refused"), nil},
		{"the first round ends what was left behind", nil, []string{"aws:///us-east-1a/left-behind"}},
	} {
		t.Run(step.name, func(t *testing.T) {
			refusal = step.refusal
			result, err := controller.Reconcile(eng.options.into(t.Context(), logr.Discard()))
			if err != nil || result.RequeueAfter != 10*time.Second {
				t.Errorf("the round has %+v, %v", result, err)
			}
			if diff := cmp.Diff(step.want, cloud.terminated); diff != "" {
				t.Errorf("terminated (-wanted +got):\n%s", diff)
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

// launchedInstances is a cloud provider that has instances.
type launchedInstances struct {
	cloudprovider.CloudProvider
	all        []*karpv1.NodeClaim
	terminated []string
}

func (l *launchedInstances) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&awsv1.EC2NodeClass{}}
}

// List implements cloudprovider.CloudProvider, as Karpenter's does before the NodeOverlays are evaluated.
func (l *launchedInstances) List(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	if coreoptions.FromContext(ctx).FeatureGates.NodeOverlay {
		return nil, cloudprovider.NewUnevaluatedNodePoolError("gpu")
	}
	return l.all, nil
}

func (l *launchedInstances) Delete(_ context.Context, claim *karpv1.NodeClaim) error {
	l.terminated = append(l.terminated, claim.Status.ProviderID)
	return nil
}
