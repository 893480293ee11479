package instancetypes

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	awscloud "github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instance"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// countedTypes are instance types of both architectures, and counts how they are read.
type countedTypes struct {
	instancetype.Provider
	gets, lists int
}

func (p *countedTypes) all() []*cloudprovider.InstanceType {
	var out []*cloudprovider.InstanceType
	for name, arch := range map[string]string{"m5.large": "amd64", "g4dn.xlarge": "amd64", "m6g.large": "arm64"} {
		out = append(out, &cloudprovider.InstanceType{
			Name:         name,
			Requirements: scheduling.NewRequirements(scheduling.NewRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, arch)),
		})
	}
	return out
}

func (p *countedTypes) Get(_ context.Context, _ instancetype.NodeClass, name types.InstanceType) (*cloudprovider.InstanceType, error) {
	p.gets++
	for _, it := range p.all() {
		if it.Name == string(name) {
			return it, nil
		}
	}
	return nil, errors.New("not found")
}

func (p *countedTypes) List(context.Context, instancetype.NodeClass) ([]*cloudprovider.InstanceType, error) {
	p.lists++
	return p.all(), nil
}

// TestDriftReadsOneInstanceType runs Karpenter's own IsDrifted with and without what spares
// it the list.
func TestDriftReadsOneInstanceType(t *testing.T) {
	type outcome struct {
		Reason cloudprovider.DriftReason
		Err    string
	}
	type reads struct{ Gets, Lists int }
	drift := func(t *testing.T, one bool, instanceType, image string) (outcome, reads) {
		t.Helper()
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
		pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsapis.Group, Kind: "EC2NodeClass", Name: "gpu"}
		class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
		class.Status.AMIs = []awsv1.AMI{
			{ID: "ami-arm64", Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"arm64"}}}},
			{ID: "ami-amd64", Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}}},
		}
		claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: "gpu-a", Labels: map[string]string{karpv1.NodePoolLabelKey: "gpu", corev1.LabelInstanceTypeStable: instanceType},
		}}
		claim.Spec.NodeClassRef = pool.Spec.Template.Spec.NodeClassRef
		claim.Status.ImageID = image
		api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(pool, class, claim).Build()
		read := &countedTypes{}
		var from instancetype.Provider = read
		if one {
			from = Scoped{read}
		}
		// Without drift the instance is read next: the NodeClaim has none, which is an error.
		ctx := awsoptions.ToContext(coreoptions.ToContext(t.Context(), &coreoptions.Options{}), &awsoptions.Options{})
		cloud := DriftProvider{awscloud.New(from, nil, nil, api, nil, nil, nil, nil, nil, new(""))}
		reason, err := cloud.IsDrifted(ctx, claim)
		return outcome{reason, fmt.Sprint(err)}, reads{read.gets, read.lists}
	}
	for _, test := range []struct {
		name, instanceType, image string
		want                      cloudprovider.DriftReason
		reads                     reads
	}{
		{"an image of another architecture is drift", "g4dn.xlarge", "ami-arm64", awscloud.AMIDrift, reads{Gets: 1}},
		{"the image of its architecture is not", "g4dn.xlarge", "ami-amd64", "", reads{Gets: 1}},
		{"an instance type that is unknown is the list's to refuse", "g99.xlarge", "ami-amd64", "", reads{Gets: 1, Lists: 1}},
		{"a NodeClaim without an instance type", "", "ami-amd64", "", reads{Lists: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			upstream, listed := drift(t, false, test.instanceType, test.image)
			ours, read := drift(t, true, test.instanceType, test.image)
			if d := cmp.Diff(upstream, ours); d != "" {
				t.Errorf("not as Karpenter's own (-upstream +ours):\n%s", d)
			}
			if ours.Reason != test.want {
				t.Errorf("got %+v, want %q", ours, test.want)
			}
			if d := cmp.Diff([]reads{{Lists: 1}, test.reads}, []reads{listed, read}); d != "" {
				t.Errorf("reads of upstream and ours (-want +got):\n%s", d)
			}
		})
	}
}

func TestAllInstanceTypesAreListedForAnythingElse(t *testing.T) {
	read := &countedTypes{}
	got, err := Scoped{read}.List(t.Context(), nil)
	if err != nil || len(got) != 3 || read.gets != 0 {
		t.Errorf("got %d instance types, %d gets, %v", len(got), read.gets, err)
	}
}

// oneInstance is EC2 with one instance of a NodePool.
type oneInstance struct{ instance.Provider }

func (oneInstance) List(context.Context) ([]*instance.Instance, error) {
	return []*instance.Instance{{
		ID: "i-1", Type: "g4dn.xlarge", Zone: "us-east-1a", CapacityType: karpv1.CapacityTypeSpot,
		Tags: map[string]string{karpv1.NodePoolLabelKey: "gpu"},
	}}, nil
}

// TestInstancesAreListedWithoutTheirTypes runs Karpenter's own list with the NodeOverlays not
// evaluated: with the instance types it is an error.
func TestInstancesAreListedWithoutTheirTypes(t *testing.T) {
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsapis.Group, Kind: "EC2NodeClass", Name: "gpu"}
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(pool, class).Build()
	read := &countedTypes{}
	cloud := awscloud.New(Scoped{read}, oneInstance{}, nil, api, nil, nil, nil, nil, nodeoverlay.NewInstanceTypeStore(), new(""))
	ctx := coreoptions.ToContext(t.Context(), &coreoptions.Options{FeatureGates: coreoptions.FeatureGates{NodeOverlay: true}})
	ctx = awsoptions.ToContext(ctx, &awsoptions.Options{})
	if _, err := cloud.List(ctx); !cloudprovider.IsUnevaluatedNodePoolError(err) || read.gets != 1 {
		t.Errorf("with the instance types: %v, after %d gets", err, read.gets)
	}
	got, err := Without{cloud}.List(ctx)
	if err != nil || len(got) != 1 || got[0].Status.ProviderID != "aws:///us-east-1a/i-1" || got[0].Labels[karpv1.NodePoolLabelKey] != "gpu" || read.gets != 1 {
		t.Errorf("without them: %+v, %v, after %d gets", got, err, read.gets)
	}
}
