package aws

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/utils/clock"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// sandboxMark is what the emulated cluster's things are tagged with.
const sandboxMark = "us-east-1/sandbox"

// newCloud starts an emulated account with one EKS cluster and nothing else of
// what a Cluster declares, unless change adds it; and clients for it.
func newCloud(t *testing.T, change func(*sandbox.Config)) (*clients, *sandbox.Cloud) {
	t.Helper()
	cfg := sandbox.DefaultConfig()
	cfg.Delays.Fleet, cfg.Delays.Response = 0, 0
	cfg.Queues, cfg.Roles, cfg.Profiles, cfg.Tags = nil, nil, nil, map[string]string{}
	if change != nil {
		change(&cfg)
	}
	cloud, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	p := place{Partition: iampolicy.PartitionOf(cfg.Region), Region: cfg.Region, Account: cfg.Account, Cluster: cfg.Cluster.Name}
	return newClients(sdkConfig(server, cfg.Region), p, clock.RealClock{}), cloud
}

// sdkConfig leads the real SDK to the emulator, without its own retries.
func sdkConfig(server *httptest.Server, region string) sdk.Config {
	return sdk.Config{
		Region: region, BaseEndpoint: sdk.String(server.URL), RetryMaxAttempts: 1, HTTPClient: wholeAnswers{server.Client()},
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: "EMULATED", SecretAccessKey: "EMULATED"}, nil
		}),
	}
}

// wholeAnswers reads answers to their end: on loopback an answer can come
// before the transport is done with the request, and the SDK then loses it.
type wholeAnswers struct{ client *http.Client }

func (w wholeAnswers) Do(r *http.Request) (*http.Response, error) {
	answer, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

// declared is the scope of a Cluster declaration for the place of c.
func declared(c *clients, spec v1alpha1.ClusterSpec) scope {
	spec.Name, spec.Region, spec.Account = c.place.Cluster, c.place.Region, c.place.Account
	return scope{place: c.place, spec: spec}
}
