package eks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// accessEntry lets a principal of IAM into the cluster.
type accessEntry struct {
	principal, arn, kind string
	username             string
	groups               []string
	token                string // of the request that made it
	created, modified    time.Time
	tags                 map[string]string
}

// entryTypes are the types of access entries; all but STANDARD are for nodes,
// and have a user name and groups of their own.
func entryTypes() []string {
	return []string{"STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX"}
}

func (svc *Service) entryResponse(e *accessEntry) map[string]any {
	return map[string]any{"accessEntry": map[string]any{
		"clusterName": svc.cluster.Name, "principalArn": e.principal, "accessEntryArn": e.arn, "type": e.kind, "username": e.username,
		"kubernetesGroups": append([]string{}, e.groups...), "createdAt": e.created.Unix(), "modifiedAt": e.modified.Unix(), "tags": maps.Clone(e.tags),
	}}
}

// accessEntryRequest is the body of CreateAccessEntry and UpdateAccessEntry.
type accessEntryRequest struct {
	PrincipalArn, Type, Username, ClientRequestToken string
	KubernetesGroups                                 *[]string
	Tags                                             map[string]string
}

// check refuses what an entry of a type cannot have.
func (input accessEntryRequest) check(kind string) error {
	if kind != "STANDARD" && (input.Username != "" || input.KubernetesGroups != nil && len(*input.KubernetesGroups) > 0) {
		return invalid("The username or kubernetesGroups cannot be set for an access entry of type %s.", kind)
	}
	reserved := func(prefix string) bool { return strings.HasPrefix(input.Username, prefix) }
	if slices.ContainsFunc([]string{"system:", "eks:", "aws:", "amazon:", "iam:"}, reserved) {
		return invalid("The username '%s' starts with a reserved prefix.", input.Username)
	}
	if input.KubernetesGroups != nil {
		for _, g := range *input.KubernetesGroups {
			if g == "" || strings.HasPrefix(g, "system:") {
				return invalid("The kubernetes group name '%s' is invalid, it cannot start with system:", g)
			}
		}
	}
	return nil
}

func (svc *Service) createEntry(in *api.Call) (any, error) {
	var input accessEntryRequest
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if input.Type == "" {
		input.Type = "STANDARD"
	}
	if !slices.Contains(entryTypes(), input.Type) {
		return nil, invalid("The access entry type '%s' is invalid: it is none of %q.", input.Type, entryTypes())
	}
	tags, err := checkTags(input.Tags)
	if err != nil {
		return nil, err
	}
	if err := input.check(input.Type); err != nil {
		return nil, err
	}
	roleName := svc.roles.RoleName(input.PrincipalArn, in.Now)
	if roleName == "" {
		return nil, invalid("The specified principalArn is invalid: invalid principal.")
	}
	if e := svc.entries[input.PrincipalArn]; e != nil {
		if input.ClientRequestToken != "" && input.ClientRequestToken == e.token {
			return svc.entryResponse(e), nil
		}
		return nil, inUse("The specified access entry resource is already in use on this cluster.")
	}
	e := &accessEntry{principal: input.PrincipalArn, kind: input.Type, username: input.Username, token: input.ClientRequestToken, created: in.Now, modified: in.Now, tags: tags}
	e.arn = svc.arn("access-entry", fmt.Sprintf("/role/%s/%s/%s", svc.account.ID, roleName, svc.account.NewUUID()))
	switch {
	case e.kind == "FARGATE_LINUX":
		e.username, e.groups = "system:node:{{SessionName}}", []string{"system:bootstrappers", "system:nodes", "system:node-proxier"}
	case e.kind != "STANDARD":
		e.username, e.groups = "system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}
	case e.username == "":
		e.username = fmt.Sprintf("arn:%s:sts::%s:assumed-role/%s/{{SessionName}}", svc.account.Partition(), svc.account.ID, roleName)
	}
	if input.KubernetesGroups != nil && e.kind == "STANDARD" {
		e.groups = *input.KubernetesGroups
	}
	svc.entries[e.principal] = e
	return svc.entryResponse(e), nil
}

func (svc *Service) findEntry(in *api.Call) (*accessEntry, error) {
	if e := svc.entries[in.Segment(3)]; e != nil {
		return e, nil
	}
	return nil, noResource("The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
}

func (svc *Service) describeEntry(in *api.Call) (any, error) {
	e, err := svc.findEntry(in)
	if err != nil {
		return nil, err
	}
	return svc.entryResponse(e), nil
}

func (svc *Service) updateEntry(in *api.Call) (any, error) {
	var input accessEntryRequest
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if input.PrincipalArn != "" || input.Type != "" || input.Tags != nil {
		return nil, api.Refuse("ValidationException", "UpdateAccessEntry changes neither the principal, nor the type, nor tags.")
	}
	e, err := svc.findEntry(in)
	if err != nil {
		return nil, err
	}
	if err := input.check(e.kind); err != nil {
		return nil, err
	}
	if input.Username != "" {
		e.username = input.Username
	}
	if input.KubernetesGroups != nil && e.kind == "STANDARD" {
		e.groups = *input.KubernetesGroups
	}
	e.modified = in.Now
	return svc.entryResponse(e), nil
}

func (svc *Service) deleteEntry(in *api.Call) (any, error) {
	e, err := svc.findEntry(in)
	if err != nil {
		return nil, err
	}
	delete(svc.entries, e.principal)
	return map[string]any{}, nil
}

func (svc *Service) listEntries(in *api.Call) (any, error) {
	var rows []row
	for arn := range svc.entries {
		rows = append(rows, row{arn, arn})
	}
	return page(in, "accessEntries", rows)
}
