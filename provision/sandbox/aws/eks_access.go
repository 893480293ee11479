package aws

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

func (in *call) entryResponse(e *accessEntry) map[string]any {
	return map[string]any{"accessEntry": map[string]any{
		"clusterName": in.st.cluster.Name, "principalArn": e.principal, "accessEntryArn": e.arn, "type": e.kind, "username": e.username,
		"kubernetesGroups": append([]string{}, e.groups...), "createdAt": e.created.Unix(), "modifiedAt": e.modified.Unix(), "tags": maps.Clone(e.tags),
	}}
}

// entryAsk is what CreateAccessEntry and UpdateAccessEntry are asked.
type entryAsk struct {
	PrincipalArn, Type, Username, ClientRequestToken string
	KubernetesGroups                                 *[]string
	Tags                                             map[string]string
}

// check refuses what an entry of a type cannot have.
func (ask entryAsk) check(kind string) error {
	if kind != "STANDARD" && (ask.Username != "" || ask.KubernetesGroups != nil && len(*ask.KubernetesGroups) > 0) {
		return invalid("The username or kubernetesGroups cannot be set for an access entry of type %s.", kind)
	}
	if strings.HasPrefix(ask.Username, "system:") || strings.HasPrefix(ask.Username, "eks:") {
		return invalid("The username '%s' starts with a reserved prefix.", ask.Username)
	}
	if ask.KubernetesGroups != nil {
		for _, g := range *ask.KubernetesGroups {
			if g == "" || strings.HasPrefix(g, "system:") {
				return invalid("The kubernetes group name '%s' is invalid, it cannot start with system:", g)
			}
		}
	}
	return nil
}

func createEntry(in *call) (any, error) {
	var ask entryAsk
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	if ask.Type == "" {
		ask.Type = "STANDARD"
	}
	if !slices.Contains(entryTypes(), ask.Type) {
		return nil, invalid("The access entry type '%s' is invalid: it is none of %q.", ask.Type, entryTypes())
	}
	tags, err := eksTags(ask.Tags)
	if err != nil {
		return nil, err
	}
	if err := ask.check(ask.Type); err != nil {
		return nil, err
	}
	r := in.roleOf(ask.PrincipalArn)
	if r == nil {
		return nil, invalid("The specified principalArn is invalid: invalid principal.")
	}
	if e := in.st.eks.entries[ask.PrincipalArn]; e != nil {
		if ask.ClientRequestToken != "" && ask.ClientRequestToken == e.token {
			return in.entryResponse(e), nil
		}
		return nil, inUse("The specified access entry resource is already in use on this cluster.")
	}
	e := &accessEntry{principal: ask.PrincipalArn, kind: ask.Type, username: ask.Username, token: ask.ClientRequestToken, created: in.Now, modified: in.Now, tags: tags}
	e.arn = in.cloud.eksARN("access-entry", fmt.Sprintf("/role/%s/%s/%s", in.cloud.account.ID, r.name, in.cloud.account.NewUUID()))
	switch {
	case e.kind == "FARGATE_LINUX":
		e.username, e.groups = "system:node:{{SessionName}}", []string{"system:bootstrappers", "system:nodes", "system:node-proxier"}
	case e.kind != "STANDARD":
		e.username, e.groups = "system:node:{{EC2PrivateDNSName}}", []string{"system:nodes"}
	case e.username == "":
		e.username = fmt.Sprintf("arn:%s:sts::%s:assumed-role/%s/{{SessionName}}", in.cloud.account.Partition(), in.cloud.account.ID, r.name)
	}
	if ask.KubernetesGroups != nil && e.kind == "STANDARD" {
		e.groups = *ask.KubernetesGroups
	}
	in.st.eks.entries[e.principal] = e
	return in.entryResponse(e), nil
}

func (in *call) findEntry() (*accessEntry, error) {
	if e := in.st.eks.entries[in.Segment(3)]; e != nil {
		return e, nil
	}
	return nil, noResource("The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'.")
}

func describeEntry(in *call) (any, error) {
	e, err := in.findEntry()
	if err != nil {
		return nil, err
	}
	return in.entryResponse(e), nil
}

func updateEntry(in *call) (any, error) {
	var ask entryAsk
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	if ask.PrincipalArn != "" || ask.Type != "" || ask.Tags != nil {
		return nil, api.Refuse("ValidationException", "UpdateAccessEntry changes neither the principal, nor the type, nor tags.")
	}
	e, err := in.findEntry()
	if err != nil {
		return nil, err
	}
	if err := ask.check(e.kind); err != nil {
		return nil, err
	}
	if ask.Username != "" {
		e.username = ask.Username
	}
	if ask.KubernetesGroups != nil && e.kind == "STANDARD" {
		e.groups = *ask.KubernetesGroups
	}
	e.modified = in.Now
	return in.entryResponse(e), nil
}

func deleteEntry(in *call) (any, error) {
	e, err := in.findEntry()
	if err != nil {
		return nil, err
	}
	delete(in.st.eks.entries, e.principal)
	return map[string]any{}, nil
}

func listEntries(in *call) (any, error) {
	var rows []row
	for arn := range in.st.eks.entries {
		rows = append(rows, row{arn, arn})
	}
	return in.eksPage("accessEntries", rows)
}
