package iam

import (
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Table is what IAM can do here.
func (svc *Service) Table() api.Table {
	return api.Table{Operations: svc.operations(), Authorizations: svc.authorizations(), Required: required()}
}

// operations are those of roles, their policies, instance profiles, customer
// managed policies and the cluster's OIDC provider.
func (svc *Service) operations() map[string]api.Operation {
	return merged(svc.roleOperations(), svc.rolePolicyOperations(), svc.profileOperations(), svc.policyOperations(), svc.providerOperations(), svc.simulationOperations())
}
