package eks

import (
	"maps"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// association gives the pods of a service account a role.
type association struct {
	id, namespace, account string
	role                   string // ARN
	token                  string // of the request that made it
	created, modified      time.Time
	tags                   map[string]string
}

func (svc *Service) associationARN(a *association) string {
	return svc.arn("podidentityassociation", "/"+a.id)
}

// associationRow is what lists show: not the role.
func (svc *Service) associationRow(a *association) map[string]any {
	return map[string]any{"clusterName": svc.cluster.Name, "namespace": a.namespace, "serviceAccount": a.account,
		"associationArn": svc.associationARN(a), "associationId": a.id}
}

func (svc *Service) associationResponse(a *association) map[string]any {
	out := svc.associationRow(a)
	maps.Copy(out, map[string]any{"roleArn": a.role, "tags": maps.Clone(a.tags), "createdAt": a.created.Unix(), "modifiedAt": a.modified.Unix(),
		"disableSessionTags": false})
	return map[string]any{"association": out}
}

func (svc *Service) checkPodRole(in *api.Call, arn string) error {
	if svc.roles.RoleName(arn, in.Now) == "" {
		return invalid("Role provided in the request does not exist.")
	}
	return nil
}

func (svc *Service) createAssociation(in *api.Call) (any, error) {
	var input struct {
		Namespace, ServiceAccount, RoleArn, ClientRequestToken string
		Tags                                                   map[string]string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if input.Namespace == "" || input.ServiceAccount == "" {
		return nil, invalid("Namespace and service account name must not be empty.")
	}
	tags, err := checkTags(input.Tags)
	if err != nil {
		return nil, err
	}
	if err := svc.checkPodRole(in, input.RoleArn); err != nil {
		return nil, err
	}
	for _, a := range svc.associations {
		if a.namespace != input.Namespace || a.account != input.ServiceAccount {
			continue
		}
		if input.ClientRequestToken != "" && a.token == input.ClientRequestToken {
			return svc.associationResponse(a), nil
		}
		return nil, inUse("Association already exists: %s", a.id)
	}
	a := &association{id: svc.account.NewID("a"), namespace: input.Namespace, account: input.ServiceAccount, role: input.RoleArn, token: input.ClientRequestToken,
		created: in.Now, modified: in.Now, tags: tags}
	svc.associations[a.id] = a
	return svc.associationResponse(a), nil
}

func (svc *Service) findAssociation(in *api.Call) (*association, error) {
	if a := svc.associations[in.Segment(3)]; a != nil {
		return a, nil
	}
	return nil, noResource("No association found for ID: %s", in.Segment(3))
}

func (svc *Service) describeAssociation(in *api.Call) (any, error) {
	a, err := svc.findAssociation(in)
	if err != nil {
		return nil, err
	}
	return svc.associationResponse(a), nil
}

func (svc *Service) updateAssociation(in *api.Call) (any, error) {
	var input struct{ RoleArn, ClientRequestToken string }
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	a, err := svc.findAssociation(in)
	if err != nil {
		return nil, err
	}
	if input.RoleArn != "" {
		if err := svc.checkPodRole(in, input.RoleArn); err != nil {
			return nil, err
		}
		a.role, a.modified = input.RoleArn, in.Now
	}
	return svc.associationResponse(a), nil
}

func (svc *Service) deleteAssociation(in *api.Call) (any, error) {
	a, err := svc.findAssociation(in)
	if err != nil {
		return nil, err
	}
	delete(svc.associations, a.id)
	return svc.associationResponse(a), nil
}

func (svc *Service) listAssociations(in *api.Call) (any, error) {
	var rows []row
	namespace, account := in.Query.Get("namespace"), in.Query.Get("serviceAccount")
	for id, a := range svc.associations {
		if (namespace == "" || a.namespace == namespace) && (account == "" || a.account == account) {
			rows = append(rows, row{id, svc.associationRow(a)})
		}
	}
	return page(in, "associations", rows)
}
