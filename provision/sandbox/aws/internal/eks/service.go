// Package eks is EKS: one cluster with its control-plane logs, access entries,
// managed node groups, add-ons and Pod Identity associations. None is made or
// deleted but entries and associations, no node is started for a node group, and
// there is no API server behind the endpoint. Start with Service and operations.
package eks

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service is EKS in one account.
type Service struct {
	account      *api.Account
	cluster      Cluster
	network      Network
	roles        Roles
	logs         Logs
	logging      []string // control-plane log types that are on
	tags         map[string]string
	updates      []*update
	entries      map[string]*accessEntry // by principal ARN
	nodeGroups   map[string]*nodeGroup   // by name
	addons       map[string]*addon       // by name
	associations map[string]*association // by id
}

// Roles are the roles in IAM.
type Roles interface {
	// RoleName is the name of the role of an ARN, "" if nobody finds one.
	RoleName(arn string, now time.Time) string
	// PassRole is the request to IAM for giving a role to a service.
	PassRole(role, service string) api.AuthorizationRequest
}

// Logs are the log groups of CloudWatch.
type Logs interface {
	// Ensure makes a group where there is none of that name.
	Ensure(name string, now time.Time)
}

// New has the cluster with what it has from the start; the cluster was validated.
func New(account *api.Account, cluster Cluster, network Network, roles Roles, logs Logs) *Service {
	svc := &Service{account: account, cluster: cluster, network: network, roles: roles, logs: logs, tags: map[string]string{},
		entries: map[string]*accessEntry{}, nodeGroups: newNodeGroups(account, cluster), addons: newAddons(account, cluster), associations: map[string]*association{}}
	svc.logTo(slices.Clone(cluster.Logging), account.Clock.Now())
	return svc
}

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.logging, out.tags, out.updates = slices.Clone(svc.logging), maps.Clone(svc.tags), api.Clones(svc.updates)
	out.entries = cloneMap(svc.entries, func(e *accessEntry) { e.tags = maps.Clone(e.tags) })
	out.nodeGroups = cloneMap(svc.nodeGroups, func(g *nodeGroup) { g.tags, g.Labels = maps.Clone(g.tags), maps.Clone(g.Labels) })
	out.addons = cloneMap(svc.addons, func(a *addon) { a.tags = maps.Clone(a.tags) })
	out.associations = cloneMap(svc.associations, func(a *association) { a.tags = maps.Clone(a.tags) })
	return &out
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

// SetCluster changes what DescribeCluster shows; the name stays.
func (svc *Service) SetCluster(cluster Cluster) error {
	if cluster.Name != svc.cluster.Name {
		return fmt.Errorf("changing cluster %q into %q: the name is fixed by the config", svc.cluster.Name, cluster.Name)
	}
	svc.cluster = cluster
	return nil
}

// Tags are those of the cluster.
func (svc *Service) Tags() map[string]string { return svc.tags }

// arn is the ARN of a thing of the cluster.
func (svc *Service) arn(kind, rest string) string {
	return svc.account.ARN("eks", kind+"/"+svc.cluster.Name+rest)
}
