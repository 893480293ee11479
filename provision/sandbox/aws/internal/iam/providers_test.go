package iam

import (
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func TestTheProviderIsInItsPartition(t *testing.T) {
	for region, want := range map[string]string{
		"us-east-1":     "arn:aws:iam::1:oidc-provider/oidc.example/id/X",
		"cn-north-1":    "arn:aws-cn:iam::1:oidc-provider/oidc.example/id/X",
		"us-gov-west-1": "arn:aws-us-gov:iam::1:oidc-provider/oidc.example/id/X",
	} {
		svc := &Service{account: &api.Account{Region: region, ID: "1"}, provider: Provider{Issuer: "https://oidc.example/id/X"}}
		if got := svc.providerARN(); got != want {
			t.Errorf("%s: provider %s, want %s", region, got, want)
		}
	}
}
