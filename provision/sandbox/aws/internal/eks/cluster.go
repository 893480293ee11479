package eks

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Created is when the cluster and its issuer came to be.
func Created() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// listClusters lists the only cluster. No cluster is connected from elsewhere.
func (svc *Service) listClusters(in *api.Call) (any, error) {
	for _, kind := range in.Query["include"] {
		if kind != "all" {
			return nil, invalid("include '%s' is not all.", kind)
		}
	}
	return page(in, "clusters", []row{{svc.cluster.Name, svc.cluster.Name}})
}

// describeCluster shows the cluster. Endpoint and authority are there only once
// they are known, as while EKS creates a cluster.
func (svc *Service) describeCluster(in *api.Call) (any, error) {
	k, network := svc.cluster, svc.network
	status := "ACTIVE"
	switch {
	case k.Endpoint == "":
		status = "CREATING"
	case svc.running("") != nil:
		status = "UPDATING"
	}
	cluster := map[string]any{
		"name": k.Name, "version": k.Version, "status": status, "platformVersion": "eks.1",
		"arn":       svc.clusterARN(),
		"createdAt": Created().Unix(),
		"roleArn":   fmt.Sprintf("arn:%s:iam::%s:role/%s-cluster", svc.account.Partition(), svc.account.ID, k.Name),
		"kubernetesNetworkConfig": map[string]any{
			"serviceIpv4Cidr": k.ServiceCIDR, "ipFamily": "ipv4",
			"elasticLoadBalancing": map[string]bool{"enabled": k.AutoMode},
		},
		"computeConfig": map[string]bool{"enabled": k.AutoMode},
		"storageConfig": map[string]any{"blockStorage": map[string]bool{"enabled": k.AutoMode}},
		"accessConfig":  map[string]any{"authenticationMode": "API_AND_CONFIG_MAP"},
		"upgradePolicy": map[string]string{"supportType": "STANDARD"},
		"identity":      map[string]any{"oidc": map[string]string{"issuer": Issuer(svc.account)}},
		"logging":       svc.loggingResponse(),
		"resourcesVpcConfig": map[string]any{
			"vpcId": network.VPC, "subnetIds": network.Subnets, "clusterSecurityGroupId": network.ClusterGroup,
			"securityGroupIds": []string{network.NodeGroup}, "endpointPublicAccess": true, "endpointPrivateAccess": true,
			"publicAccessCidrs": []string{"0.0.0.0/0"},
		},
		"tags": maps.Clone(svc.tags),
	}
	if k.Endpoint != "" {
		cluster["endpoint"] = k.Endpoint
	}
	if len(k.CA) > 0 {
		cluster["certificateAuthority"] = map[string]string{"data": base64.StdEncoding.EncodeToString(k.CA)}
	}
	return map[string]any{"cluster": cluster}, nil
}

func (svc *Service) clusterARN() string { return svc.arn("cluster", "") }

// Issuer is the URL of the cluster's OIDC issuer.
func Issuer(a *api.Account) string {
	sum := sha256.Sum256([]byte(a.ARN("eks", "cluster/"+a.Cluster)))
	host := "oidc.eks." + a.Region + ".amazonaws.com"
	if a.Partition() == "aws-cn" {
		host += ".cn"
	}
	return fmt.Sprintf("https://%s/id/%X", host, sum[:16])
}
