package aws

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func providerOperations() map[string]operation {
	return map[string]operation{
		"ListOpenIDConnectProviders": {read: true, run: listProviders},
		"GetOpenIDConnectProvider":   {params: []string{"OpenIDConnectProviderArn"}, read: true, run: getProvider},
	}
}

// issuer is the URL of the cluster's OIDC issuer.
func (c *Cloud) issuer() string {
	sum := sha256.Sum256([]byte(c.clusterARN()))
	host := "oidc.eks." + c.account.Region + ".amazonaws.com"
	if c.account.Partition() == "aws-cn" {
		host += ".cn"
	}
	return fmt.Sprintf("https://%s/id/%X", host, sum[:16])
}

func (c *Cloud) providerARN() string {
	return c.iamARN("oidc-provider", "/", strings.TrimPrefix(c.issuer(), "https://"))
}

func listProviders(in *call) (any, error) {
	var rows []query.Element
	if in.cloud.cfg.Cluster.OIDC {
		rows = append(rows, query.Group("member", query.Text("Arn", in.cloud.providerARN())))
	}
	return []query.Element{query.List("OpenIDConnectProviderList", "member", rows)}, nil
}

func getProvider(in *call) (any, error) {
	arn := in.Form.Get("OpenIDConnectProviderArn")
	if !in.cloud.cfg.Cluster.OIDC || arn != in.cloud.providerARN() {
		return nil, noEntity("OpenIDConnect Provider not found for arn %s", arn)
	}
	thumb := sha256.Sum256([]byte(in.cloud.issuer()))
	return []query.Element{query.Text("Url", strings.TrimPrefix(in.cloud.issuer(), "https://")),
		query.Values("ClientIDList", "member", []string{"sts.amazonaws.com"}),
		query.Values("ThumbprintList", "member", []string{hex.EncodeToString(thumb[:20])}),
		query.Text("CreateDate", iamStamp(clusterCreated())), query.List("Tags", "member", nil)}, nil
}
