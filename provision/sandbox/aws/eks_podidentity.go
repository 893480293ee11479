package aws

import (
	"maps"
	"time"
)

// association gives the pods of a service account a role.
type association struct {
	id, namespace, account string
	role                   string // ARN
	token                  string // of the request that made it
	created, modified      time.Time
	tags                   map[string]string
}

func (c *Cloud) associationARN(a *association) string {
	return c.eksARN("podidentityassociation", "/"+a.id)
}

// associationRow is what lists show: not the role.
func (in *call) associationRow(a *association) map[string]any {
	return map[string]any{"clusterName": in.st.cluster.Name, "namespace": a.namespace, "serviceAccount": a.account,
		"associationArn": in.cloud.associationARN(a), "associationId": a.id}
}

func (in *call) associationResponse(a *association) map[string]any {
	shown := in.associationRow(a)
	maps.Copy(shown, map[string]any{"roleArn": a.role, "tags": maps.Clone(a.tags), "createdAt": a.created.Unix(), "modifiedAt": a.modified.Unix(),
		"disableSessionTags": false})
	return map[string]any{"association": shown}
}

func (in *call) checkPodRole(arn string) error {
	if in.roleOf(arn) == nil {
		return invalid("Role provided in the request does not exist.")
	}
	return nil
}

func createAssociation(in *call) (any, error) {
	var ask struct {
		Namespace, ServiceAccount, RoleArn, ClientRequestToken string
		Tags                                                   map[string]string
	}
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	if ask.Namespace == "" || ask.ServiceAccount == "" {
		return nil, invalid("Namespace and service account name must not be empty.")
	}
	tags, err := eksTags(ask.Tags)
	if err != nil {
		return nil, err
	}
	if err := in.checkPodRole(ask.RoleArn); err != nil {
		return nil, err
	}
	for _, a := range in.st.eks.associations {
		if a.namespace != ask.Namespace || a.account != ask.ServiceAccount {
			continue
		}
		if ask.ClientRequestToken != "" && a.token == ask.ClientRequestToken {
			return in.associationResponse(a), nil
		}
		return nil, inUse("Association already exists: %s", a.id)
	}
	a := &association{id: in.cloud.account.NewID("a"), namespace: ask.Namespace, account: ask.ServiceAccount, role: ask.RoleArn, token: ask.ClientRequestToken,
		created: in.Now, modified: in.Now, tags: tags}
	in.st.eks.associations[a.id] = a
	return in.associationResponse(a), nil
}

func (in *call) findAssociation() (*association, error) {
	if a := in.st.eks.associations[in.Segment(3)]; a != nil {
		return a, nil
	}
	return nil, noResource("No association found for ID: %s", in.Segment(3))
}

func describeAssociation(in *call) (any, error) {
	a, err := in.findAssociation()
	if err != nil {
		return nil, err
	}
	return in.associationResponse(a), nil
}

func updateAssociation(in *call) (any, error) {
	var ask struct{ RoleArn, ClientRequestToken string }
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	a, err := in.findAssociation()
	if err != nil {
		return nil, err
	}
	if ask.RoleArn != "" {
		if err := in.checkPodRole(ask.RoleArn); err != nil {
			return nil, err
		}
		a.role, a.modified = ask.RoleArn, in.Now
	}
	return in.associationResponse(a), nil
}

func deleteAssociation(in *call) (any, error) {
	a, err := in.findAssociation()
	if err != nil {
		return nil, err
	}
	delete(in.st.eks.associations, a.id)
	return in.associationResponse(a), nil
}

func listAssociations(in *call) (any, error) {
	var rows []row
	namespace, account := in.Query.Get("namespace"), in.Query.Get("serviceAccount")
	for id, a := range in.st.eks.associations {
		if (namespace == "" || a.namespace == namespace) && (account == "" || a.account == account) {
			rows = append(rows, row{id, in.associationRow(a)})
		}
	}
	return in.eksPage("associations", rows)
}
