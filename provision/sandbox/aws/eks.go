package aws

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// eksRoute names the operation behind a method and a path.
func eksRoute(method, path string) string {
	if name, ok := strings.CutPrefix(path, "/clusters/"); ok && method == http.MethodGet && name != "" && !strings.Contains(name, "/") {
		return "DescribeCluster"
	}
	return ""
}

func eksOperations() map[string]operation {
	return map[string]operation{"DescribeCluster": {read: true, run: describeCluster}}
}

// describeCluster shows the cluster. Endpoint and authority are there only once
// they are known, as while EKS creates a cluster.
func describeCluster(in *call) (any, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(in.target, http.MethodGet+" /clusters/"))
	k := in.st.cluster
	if err != nil || name != k.Name {
		return nil, &apiError{http.StatusNotFound, "ResourceNotFoundException", fmt.Sprintf("No cluster found for name: %s.", name)}
	}
	network := in.st.network
	var private []string
	for _, s := range network.subnets {
		if !s.public {
			private = append(private, s.id)
		}
	}
	status := "ACTIVE"
	if k.Endpoint == "" {
		status = "CREATING"
	}
	cluster := map[string]any{
		"name": k.Name, "version": k.Version, "status": status, "platformVersion": "eks.1",
		"arn":       in.cloud.clusterARN(),
		"createdAt": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Unix(),
		"roleArn":   fmt.Sprintf("arn:%s:iam::%s:role/%s-cluster", in.cloud.partition(), in.cloud.cfg.Account, k.Name),
		"kubernetesNetworkConfig": map[string]any{
			"serviceIpv4Cidr": k.ServiceCIDR, "ipFamily": "ipv4",
			"elasticLoadBalancing": map[string]bool{"enabled": k.AutoMode},
		},
		"computeConfig": map[string]bool{"enabled": k.AutoMode},
		"storageConfig": map[string]any{"blockStorage": map[string]bool{"enabled": k.AutoMode}},
		"accessConfig":  map[string]any{"authenticationMode": "API_AND_CONFIG_MAP"},
		"resourcesVpcConfig": map[string]any{
			"vpcId": network.vpc, "subnetIds": private, "clusterSecurityGroupId": network.groups[1].id,
			"securityGroupIds": []string{network.groups[2].id}, "endpointPublicAccess": true, "endpointPrivateAccess": true,
			"publicAccessCidrs": []string{"0.0.0.0/0"},
		},
		"tags": map[string]string{},
	}
	if k.Endpoint != "" {
		cluster["endpoint"] = k.Endpoint
	}
	if len(k.CA) > 0 {
		cluster["certificateAuthority"] = map[string]string{"data": base64.StdEncoding.EncodeToString(k.CA)}
	}
	return map[string]any{"cluster": cluster}, nil
}

func (c *Cloud) clusterARN() string {
	return fmt.Sprintf("arn:%s:eks:%s:%s:cluster/%s", c.partition(), c.cfg.Region, c.cfg.Account, c.cfg.Cluster.Name)
}

// shift is a zonal shift: traffic kept away from a zone for a time.
type shift struct {
	zoneID  string
	expires time.Time
}

// ShiftAway starts a zonal shift of the cluster away from a zone, named by
// name or id, for so long.
func (c *Cloud) ShiftAway(zone string, d time.Duration) error {
	z, ok := c.offers.zone(zone)
	if !ok {
		return fmt.Errorf("shifting away from zone %q: there is none in %s", zone, c.cfg.Region)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.st.shifts = append(c.st.shifts, shift{z.ID, c.clock.Now().Add(d)})
	return nil
}

func arcRoute(method, path string) string {
	if id, ok := strings.CutPrefix(path, "/managedresources/"); ok && method == http.MethodGet && id != "" && !strings.Contains(id, "/") {
		return "GetManagedResource"
	}
	return ""
}

func arcOperations() map[string]operation {
	return map[string]operation{"GetManagedResource": {read: true, run: getManagedResource}}
}

func getManagedResource(in *call) (any, error) {
	// The path is escaped, so the slash in an ARN is no separator.
	id, err := url.PathUnescape(strings.TrimPrefix(in.target, http.MethodGet+" /managedresources/"))
	if arn := in.cloud.clusterARN(); err != nil || id != arn {
		return nil, &apiError{http.StatusNotFound, "ResourceNotFoundException", fmt.Sprintf("The managed resource %s was not found.", id)}
	}
	shifts := []map[string]any{}
	for n, s := range in.st.shifts {
		if !in.now.Before(s.expires) {
			continue
		}
		shifts = append(shifts, map[string]any{
			"appliedStatus": "APPLIED", "awayFrom": s.zoneID, "comment": "emulated", "expiryTime": s.expires.Unix(), "startTime": in.now.Unix(),
			"resourceIdentifier": id, "zonalShiftId": fmt.Sprintf("shift-%d", n+1), "shiftType": "ZONAL_SHIFT",
		})
	}
	return map[string]any{"arn": id, "name": in.st.cluster.Name, "appliedWeights": map[string]float64{}, "zonalShifts": shifts, "autoshifts": []any{}}, nil
}
