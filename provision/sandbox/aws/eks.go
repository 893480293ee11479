package aws

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// control is what EKS remembers of the cluster and ARC of its zonal shifts.
type control struct {
	logging      []string // control-plane log types that are on
	tags         map[string]string
	updates      []*update
	entries      map[string]*accessEntry // by principal ARN
	nodeGroups   map[string]*nodeGroup   // by name
	addons       map[string]*addon       // by name
	associations map[string]*association // by id
	shifts       []shift
}

func newControl(st *state, cfg Config) control {
	return control{logging: slices.Clone(cfg.Cluster.Logging), tags: map[string]string{}, entries: map[string]*accessEntry{},
		nodeGroups: newNodeGroups(st, cfg), addons: newAddons(st, cfg), associations: map[string]*association{}}
}

func (k control) clone() control {
	k.logging, k.tags, k.shifts = slices.Clone(k.logging), maps.Clone(k.tags), slices.Clone(k.shifts)
	k.updates = api.Clones(k.updates)
	k.entries = cloneMap(k.entries, func(e *accessEntry) { e.tags = maps.Clone(e.tags) })
	k.nodeGroups = cloneMap(k.nodeGroups, func(g *nodeGroup) { g.tags, g.Labels = maps.Clone(g.tags), maps.Clone(g.Labels) })
	k.addons = cloneMap(k.addons, func(a *addon) { a.tags = maps.Clone(a.tags) })
	k.associations = cloneMap(k.associations, func(a *association) { a.tags = maps.Clone(a.tags) })
	return k
}

// cloneMap copies a map and what it points to; deepen copies the maps inside.
func cloneMap[T any](in map[string]*T, deepen func(*T)) map[string]*T {
	out := make(map[string]*T, len(in))
	for k, v := range in {
		c := *v
		deepen(&c)
		out[k] = &c
	}
	return out
}

// ofCluster lets an operation run only on the cluster that there is.
func ofCluster(run func(*call) (any, error)) func(*call) (any, error) {
	return func(in *call) (any, error) {
		if name := in.Segment(1); name != in.st.cluster.Name {
			return nil, noResource("No cluster found for name: %s.", name)
		}
		return run(in)
	}
}

func noResource(format string, args ...any) error {
	return api.NewError(http.StatusNotFound, "ResourceNotFoundException", fmt.Sprintf(format, args...))
}

func inUse(format string, args ...any) error {
	return api.NewError(http.StatusConflict, "ResourceInUseException", fmt.Sprintf(format, args...))
}

func invalid(format string, args ...any) error {
	return api.Refuse("InvalidParameterException", format, args...)
}

// clusterCreated is when the cluster and its issuer came to be.
func clusterCreated() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// listClusters lists the only cluster. No cluster is connected from elsewhere.
func listClusters(in *call) (any, error) {
	for _, kind := range in.Query["include"] {
		if kind != "all" {
			return nil, invalid("include '%s' is not all.", kind)
		}
	}
	return in.eksPage("clusters", []row{{in.st.cluster.Name, in.st.cluster.Name}})
}

// describeCluster shows the cluster. Endpoint and authority are there only once
// they are known, as while EKS creates a cluster.
func describeCluster(in *call) (any, error) {
	k, network := in.st.cluster, in.st.network
	var private []string
	for _, s := range network.subnets {
		if !s.public {
			private = append(private, s.id)
		}
	}
	status := "ACTIVE"
	switch {
	case k.Endpoint == "":
		status = "CREATING"
	case in.st.eks.running("") != nil:
		status = "UPDATING"
	}
	cluster := map[string]any{
		"name": k.Name, "version": k.Version, "status": status, "platformVersion": "eks.1",
		"arn":       in.cloud.clusterARN(),
		"createdAt": clusterCreated().Unix(),
		"roleArn":   fmt.Sprintf("arn:%s:iam::%s:role/%s-cluster", in.cloud.account.Partition(), in.cloud.account.ID, k.Name),
		"kubernetesNetworkConfig": map[string]any{
			"serviceIpv4Cidr": k.ServiceCIDR, "ipFamily": "ipv4",
			"elasticLoadBalancing": map[string]bool{"enabled": k.AutoMode},
		},
		"computeConfig": map[string]bool{"enabled": k.AutoMode},
		"storageConfig": map[string]any{"blockStorage": map[string]bool{"enabled": k.AutoMode}},
		"accessConfig":  map[string]any{"authenticationMode": "API_AND_CONFIG_MAP"},
		"upgradePolicy": map[string]string{"supportType": "STANDARD"},
		"identity":      map[string]any{"oidc": map[string]string{"issuer": in.cloud.issuer()}},
		"logging":       in.st.eks.loggingResponse(),
		"resourcesVpcConfig": map[string]any{
			"vpcId": network.vpc, "subnetIds": private, "clusterSecurityGroupId": network.groups[1].id,
			"securityGroupIds": []string{network.groups[2].id}, "endpointPublicAccess": true, "endpointPrivateAccess": true,
			"publicAccessCidrs": []string{"0.0.0.0/0"},
		},
		"tags": maps.Clone(in.st.eks.tags),
	}
	if k.Endpoint != "" {
		cluster["endpoint"] = k.Endpoint
	}
	if len(k.CA) > 0 {
		cluster["certificateAuthority"] = map[string]string{"data": base64.StdEncoding.EncodeToString(k.CA)}
	}
	return map[string]any{"cluster": cluster}, nil
}

// eksARN is the ARN of a thing of the cluster.
func (c *Cloud) eksARN(kind, rest string) string {
	return fmt.Sprintf("arn:%s:eks:%s:%s:%s/%s%s", c.account.Partition(), c.account.Region, c.account.ID, kind, c.cfg.Cluster.Name, rest)
}

func (c *Cloud) clusterARN() string { return c.eksARN("cluster", "") }

// row is one element of an EKS list, with the key that orders it.
type row struct {
	key   string
	value any
}

// eksPage cuts the rows of a list to maxResults, and says how to go on.
func (in *call) eksPage(list string, rows []row) (any, error) {
	most := 100
	if asked := in.Query.Get("maxResults"); asked != "" {
		n, err := strconv.Atoi(asked)
		if err != nil || n < 1 || n > 100 {
			return nil, invalid("maxResults '%s' is not between 1 and 100.", asked)
		}
		most = n
	}
	after, err := in.After(in.Query.Get("nextToken"))
	if err != nil {
		return nil, invalid("nextToken '%s' is not one that %s gave.", in.Query.Get("nextToken"), in.Op)
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.key, b.key) })
	shown, answer, last := []any{}, map[string]any{}, ""
	for _, r := range rows {
		if r.key <= after {
			continue
		}
		if len(shown) == most {
			answer["nextToken"] = in.Token(last)
			break
		}
		shown, last = append(shown, r.value), r.key
	}
	answer[list] = shown
	return answer, nil
}

// eksTags checks the tags of a request.
func eksTags(tags map[string]string) (map[string]string, error) {
	for k, v := range tags {
		if k == "" || len(k) > 128 || len(v) > 256 || strings.HasPrefix(strings.ToLower(k), "aws:") {
			return nil, invalid("The tag key '%s' or its value is empty, too long (128 and 256 characters), or starts with aws:", k)
		}
	}
	if len(tags) > api.MostTags {
		return nil, invalid("More than %d tags were given.", api.MostTags)
	}
	if tags == nil {
		return map[string]string{}, nil
	}
	return tags, nil
}

// asJSON writes what an update was asked for, as it is shown.
func asJSON(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return "" // strings, numbers and lists only: it cannot fail
	}
	return string(out)
}
