package engine

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// amazon is an EC2 that notes what reaches it; before is called ahead of each
// answer, which has that status.
func amazon(t *testing.T, status int, before func()) (aws.Config, *[]string) {
	t.Helper()
	reached := &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			t.Error(err)
		}
		*reached = append(*reached, form.Get("Action"))
		before()
		w.WriteHeader(status)
		if _, err := io.WriteString(w, "<Response/>"); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return aws.Config{
		Region: "eu-west-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}, reached
}

func TestOnlyALeaderChangesWhatIsInAWS(t *testing.T) {
	lost := errors.New("the lease is lost")
	var state error
	var during []int
	underway := 0
	config, reached := amazon(t, http.StatusOK, func() { during = append(during, underway) })
	api := ec2.NewFromConfig(fenceAWS(config, func() (func(), error) { underway++; return func() { underway-- }, state }))
	launch := func() error {
		_, err := api.CreateFleet(t.Context(), &ec2.CreateFleetInput{
			LaunchTemplateConfigs:       []ec2types.FleetLaunchTemplateConfigRequest{{}},
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1)},
		})
		return err
	}
	terminate := func() error {
		_, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{"i-1"}})
		return err
	}
	read := func() error {
		_, err := api.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		return err
	}
	for _, do := range []func() error{launch, terminate, read} {
		if err := do(); err != nil {
			t.Errorf("the leader is refused: %v", err)
		}
	}
	if diff := cmp.Diff([]string{"CreateFleet", "TerminateInstances", "DescribeInstances"}, *reached); diff != "" {
		t.Errorf("reached AWS (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{1, 1, 0}, during); diff != "" || underway != 0 {
		t.Errorf("under way when AWS was reached (-want +got):\n%s\nand %d after the answers", diff, underway)
	}
	*reached, state = nil, lost
	for _, do := range []func() error{launch, terminate} {
		if err := do(); !errors.Is(err, lost) {
			t.Errorf("got %v", err)
		}
	}
	if err := read(); err != nil {
		t.Errorf("reading: %v", err)
	}
	if diff := cmp.Diff([]string{"DescribeInstances"}, *reached); diff != "" {
		t.Errorf("reached AWS (-want +got):\n%s", diff)
	}
}

func TestALeaderThatLosesItsLeaseDoesNotTryAgain(t *testing.T) {
	lost := errors.New("the lease is lost")
	var state error
	config, reached := amazon(t, http.StatusServiceUnavailable, func() { state = lost })
	api := ec2.NewFromConfig(fenceAWS(config, func() (func(), error) { return func() {}, state }))
	_, err := api.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{"i-1"}})
	if !errors.Is(err, lost) || len(*reached) != 1 {
		t.Errorf("got %v after %v", err, *reached)
	}
}

func TestWhatOnlyReadsIsKnownByItsName(t *testing.T) {
	for operation, want := range map[string]bool{
		"DescribeInstances": true, "GetQueueUrl": true, "ListManagedResources": true, "AssumeRoleWithWebIdentity": true,
		"CreateFleet": false, "TerminateInstances": false, "CreateTags": false, "DeleteLaunchTemplate": false,
		"CreateInstanceProfile": false, "DeleteMessage": false, "": false,
	} {
		if got := onlyReads(operation); got != want {
			t.Errorf("%q only reads: %t", operation, got)
		}
	}
}
