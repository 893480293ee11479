package iam

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) providerOperations() map[string]api.Operation {
	return map[string]api.Operation{
		"ListOpenIDConnectProviders": {Read: true, Run: svc.listProviders},
		"GetOpenIDConnectProvider":   {Params: []string{"OpenIDConnectProviderArn"}, Read: true, Run: svc.getProvider},
	}
}

func (svc *Service) providerARN() string {
	return svc.arn("oidc-provider", "/", strings.TrimPrefix(svc.provider.Issuer, "https://"))
}

func (svc *Service) listProviders(in *api.Call) (any, error) {
	var rows []query.Element
	if svc.provider.Exists {
		rows = append(rows, query.Group("member", query.Text("Arn", svc.providerARN())))
	}
	return []query.Element{query.List("OpenIDConnectProviderList", "member", rows)}, nil
}

func (svc *Service) getProvider(in *api.Call) (any, error) {
	arn := in.Form.Get("OpenIDConnectProviderArn")
	if !svc.provider.Exists || arn != svc.providerARN() {
		return nil, noEntity("OpenIDConnect Provider not found for arn %s", arn)
	}
	thumb := sha256.Sum256([]byte(svc.provider.Issuer))
	return []query.Element{query.Text("Url", strings.TrimPrefix(svc.provider.Issuer, "https://")),
		query.Values("ClientIDList", "member", []string{"sts.amazonaws.com"}),
		query.Values("ThumbprintList", "member", []string{hex.EncodeToString(thumb[:20])}),
		query.Text("CreateDate", stamp(svc.provider.Created)), query.List("Tags", "member", nil)}, nil
}
