package aws_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestResourcesAreWhatTheAccountHas(t *testing.T) {
	w := newFixture(t, nil)
	before := map[string]string{}
	for _, r := range w.cloud.Resources() {
		before[r.Service+"/"+r.Kind+" "+r.Name] = r.Value
	}
	want := map[string]string{"iam/role KarpenterNodeRole-sandbox": "", "sqs/queue sandbox": "300"}
	for _, rule := range []string{"ScheduledChange", "SpotInterruption", "Rebalance", "InstanceStateChange", "CapacityReservationInterruption"} {
		want["events/rule Karpenter-sandbox-"+rule+"Rule"] = "ENABLED 1"
	}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Error(diff)
	}
	tags := []iamtypes.Tag{{Key: sdk.String("team"), Value: sdk.String("platform")}}
	ok(t, drop(w.iam.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: sdk.String("nodes"), Tags: tags})))
	ok(t, drop(w.iam.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: sdk.String("nodes"), RoleName: sdk.String("KarpenterNodeRole-sandbox")})))
	var made []sandboxaws.Resource
	for _, r := range w.cloud.Resources() {
		if _, old := before[r.Service+"/"+r.Kind+" "+r.Name]; !old {
			made = append(made, r)
		}
	}
	expected := []sandboxaws.Resource{{Service: "iam", Kind: "instance-profile", Name: "nodes", Value: "KarpenterNodeRole-sandbox", Tags: map[string]string{"team": "platform"}}}
	if diff := cmp.Diff(expected, made); diff != "" {
		t.Error(diff)
	}
}
