// Package iam is IAM: roles with their policies and permissions boundaries,
// instance profiles, managed policies, and the OIDC provider of the cluster. It
// stores policies and checks their grammar, and evaluates them, by package policy, only where a
// simulation is requested: for requests the front does. Start with Service and operations.
package iam

import (
	"maps"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service is IAM in one account.
type Service struct {
	account  *api.Account
	provider Provider
	profiles map[string]*profile       // by name
	roles    map[string]*role          // by name
	policies map[string]*managedPolicy // customer managed, by ARN
}

// Provider is the OIDC provider of the cluster.
type Provider struct {
	Exists  bool
	Issuer  string // URL of the cluster's OIDC issuer
	Created time.Time
}

// New has the roles and instance profiles of those names, which are those of
// nodes; profiles are given with their role.
func New(account *api.Account, provider Provider, roles []string, profiles map[string]string) *Service {
	svc := &Service{account: account, provider: provider, profiles: map[string]*profile{}, roles: map[string]*role{}, policies: map[string]*managedPolicy{}}
	now := account.Clock.Now()
	for _, name := range slices.Concat(roles, slices.Sorted(maps.Values(profiles))) {
		if svc.roles[name] == nil {
			svc.roles[name] = &role{name: name, path: "/", id: account.NewEntityID("AROA"), trust: nodeTrust, session: 3600, created: now,
				tags: map[string]string{}, attached: map[string]string{}, inline: map[string]string{}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		svc.profiles[name] = &profile{name: name, path: "/", id: account.NewEntityID("AIPA"), role: profiles[name], created: now, tags: map[string]string{}}
	}
	return svc
}

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.profiles = make(map[string]*profile, len(svc.profiles))
	out.roles = make(map[string]*role, len(svc.roles))
	out.policies = make(map[string]*managedPolicy, len(svc.policies))
	for name, p := range svc.profiles {
		c := *p
		c.tags = maps.Clone(p.tags)
		out.profiles[name] = &c
	}
	for name, r := range svc.roles {
		c := *r
		c.tags, c.attached, c.inline = maps.Clone(r.tags), maps.Clone(r.attached), maps.Clone(r.inline)
		out.roles[name] = &c
	}
	for arn, p := range svc.policies {
		c := *p
		c.tags, c.versions = maps.Clone(p.tags), slices.Clone(p.versions)
		out.policies[arn] = &c
	}
	return &out
}

// HasProfile reports whether a launch finds an instance profile.
func (svc *Service) HasProfile(name string, now time.Time) bool {
	p := svc.profiles[name]
	return p != nil && !now.Before(p.visibleAt)
}

// ProfileRole is the role in an instance profile, "" without either.
func (svc *Service) ProfileRole(name string) string {
	if p := svc.profiles[name]; p != nil {
		return p.role
	}
	return ""
}

// RoleName is the name of the role of an ARN, "" if nobody finds one yet.
func (svc *Service) RoleName(arn string, now time.Time) string {
	for _, r := range svc.roles {
		if svc.roleARN(r) == arn && !now.Before(r.visibleAt) {
			return r.name
		}
	}
	return ""
}

// arn is the ARN of an IAM entity of the account: kind is role, policy …
func (svc *Service) arn(kind, path, name string) string {
	return svc.account.GlobalARN("iam", kind+path+name)
}
