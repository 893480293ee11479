package kindtest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Mark is what the emulated cluster's resources are tagged with.
const Mark = "us-east-1/sandbox"

// NewCloud starts an emulated account with one EKS cluster and nothing else of
// what a Cluster declares, unless change adds it; and clients for it.
func NewCloud(t *testing.T, change func(*sandboxaws.Config)) (*resource.Clients, *sandboxaws.Cloud) {
	t.Helper()
	cfg := sandboxaws.DefaultConfig()
	cfg.Delays.Fleet, cfg.Delays.Response = 0, 0
	cfg.Queues, cfg.Roles, cfg.Profiles, cfg.Tags = nil, nil, nil, map[string]string{}
	if change != nil {
		change(&cfg)
	}
	cloud, err := sandboxaws.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	p := resource.Scope{Partition: iampolicy.PartitionOf(cfg.Region), Region: cfg.Region, Account: cfg.Account, Cluster: cfg.Cluster.Name}
	return resource.NewClients(SDKConfig(server, cfg.Region), p), cloud
}

// SDKConfig configures the real SDK for the emulator, without its own retries.
func SDKConfig(server *httptest.Server, region string) sdk.Config {
	return sdk.Config{
		Region: region, BaseEndpoint: sdk.String(server.URL), RetryMaxAttempts: 1, HTTPClient: BufferedClient{server.Client()},
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: "EMULATED", SecretAccessKey: "EMULATED"}, nil
		}),
	}
}

// BufferedClient reads responses to their end: on loopback one can come
// before the transport is done with the request, and the SDK then loses it.
type BufferedClient struct{ Client *http.Client }

// Do sends a request.
func (w BufferedClient) Do(r *http.Request) (*http.Response, error) {
	response, err := w.Client.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// declared is a Cluster declaration for the scope of c.
func declared(c *resource.Clients, spec v1alpha1.ClusterSpec) resource.Declaration {
	spec.Name, spec.Region, spec.Account = c.Scope.Cluster, c.Scope.Region, c.Scope.Account
	return resource.Declaration{Scope: c.Scope, Spec: spec}
}
