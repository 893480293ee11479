package eks

import (
	"strings"
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func TestTheIssuerIsInItsPartition(t *testing.T) {
	for region, want := range map[string]string{
		"us-east-1":     "https://oidc.eks.us-east-1.amazonaws.com/id/",
		"cn-north-1":    "https://oidc.eks.cn-north-1.amazonaws.com.cn/id/",
		"us-gov-west-1": "https://oidc.eks.us-gov-west-1.amazonaws.com/id/",
	} {
		if got := Issuer(&api.Account{Region: region, ID: "1"}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: issuer %s", region, got)
		}
	}
}
