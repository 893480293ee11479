package iam

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// managedPolicy is a managed policy of the account.
type managedPolicy struct {
	name, path, id, description string
	created, updated            time.Time
	tags                        map[string]string
	versions                    []policyVersion // oldest first
	standard                    string          // id of the default version
	made                        int             // versions that were ever made
}

type policyVersion struct {
	number       int
	id, document string
	created      time.Time
}

// What a managed policy may hold, by IAM's fixed quotas.
const (
	mostPolicyChars    = 6144 // without white space
	mostPolicyVersions = 5
)

func (svc *Service) policyOperations() map[string]api.Operation {
	named, version := []string{"PolicyArn"}, []string{"PolicyArn", "VersionId"}
	return merged(map[string]api.Operation{
		"CreatePolicy":        {Params: tagParams("PolicyName", "Path", "PolicyDocument", "Description"), Run: svc.createPolicy},
		"GetPolicy":           {Params: named, Read: true, Run: svc.getPolicy},
		"DeletePolicy":        {Params: named, Run: svc.deletePolicy},
		"CreatePolicyVersion": {Params: []string{"PolicyArn", "PolicyDocument", "SetAsDefault"}, Run: svc.createPolicyVersion},
		"GetPolicyVersion":    {Params: version, Read: true, Run: svc.getPolicyVersion},
		"ListPolicyVersions":  {Params: listing("PolicyArn"), Read: true, Run: svc.listPolicyVersions},
		"DeletePolicyVersion": {Params: version, Run: svc.deletePolicyVersion},
	}, tagOperations("Policy", "PolicyArn", func(in *api.Call) (map[string]string, error) {
		p, err := svc.findPolicy(in)
		if err != nil {
			return nil, err
		}
		return p.tags, nil
	}))
}

// awsPolicies are the policies that AWS manages, as far as they can be
// attached here.
func awsPolicies() []string {
	return []string{
		"AmazonEKSWorkerNodePolicy", "AmazonEKSWorkerNodeMinimalPolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly",
		"AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore", "service-role/AmazonEBSCSIDriverPolicy", "CloudWatchAgentServerPolicy",
		"AmazonEKSClusterPolicy", "ReadOnlyAccess", "AdministratorAccess",
	}
}

// awsPolicyPath is the path and name behind the ARN of an AWS managed policy
// that exists, "" for all others.
func (svc *Service) awsPolicyPath(arn string) string {
	name, ok := strings.CutPrefix(arn, fmt.Sprintf("arn:%s:iam::aws:policy/", svc.account.Partition()))
	if !ok || !slices.Contains(awsPolicies(), name) {
		return ""
	}
	return name
}

// awsPoliciesMade is when AWS made its policies, and changed them last.
func awsPoliciesMade() time.Time { return time.Date(2015, 2, 6, 18, 40, 0, 0, time.UTC) }

// awsPolicyID is the unique id of an AWS managed policy: the same in every
// account.
func awsPolicyID(path string) string {
	sum := sha256.Sum256([]byte(path))
	return "ANPA" + base32.StdEncoding.EncodeToString(sum[:])[:17]
}

// policyName is the name of the managed policy of an ARN, "" if there is none.
func (svc *Service) policyName(arn string) string {
	if p := svc.policies[arn]; p != nil {
		return p.name
	}
	path := svc.awsPolicyPath(arn)
	return path[strings.LastIndex(path, "/")+1:]
}

// underPath reports whether the policy of an ARN is under a path.
func underPath(arn, prefix string) bool {
	_, rest, _ := strings.Cut(arn, ":policy")
	path := rest[:strings.LastIndex(rest, "/")+1]
	return strings.HasPrefix(path, prefix)
}

// policyARN reads the ARN of the request.
func (svc *Service) policyARN(in *api.Call) (string, error) {
	arn := in.Form.Get("PolicyArn")
	if !strings.HasPrefix(arn, "arn:"+svc.account.Partition()+":iam::") || !strings.Contains(arn, ":policy/") {
		return "", api.Refuse("InvalidInput", "ARN %s is not valid.", arn)
	}
	return arn, nil
}

// findPolicy reads the customer managed policy that the request names.
func (svc *Service) findPolicy(in *api.Call) (*managedPolicy, error) {
	arn, err := svc.policyARN(in)
	if err != nil {
		return nil, err
	}
	if p := svc.policies[arn]; p != nil {
		return p, nil
	}
	if svc.awsPolicyPath(arn) != "" {
		return nil, api.NewError(403, "AccessDenied", fmt.Sprintf("%s is managed by AWS: the emulator has neither its document nor its tags, and nobody may change it.", arn))
	}
	return nil, noEntity("Policy %s was not found.", arn)
}

func (svc *Service) policyElement(p *managedPolicy, more ...query.Element) query.Element {
	arn := svc.arn("policy", p.path, p.name)
	attached, bounded := svc.holders(arn)
	return query.Group("Policy", append([]query.Element{query.Text("PolicyName", p.name), query.Text("PolicyId", p.id), query.Text("Arn", arn),
		query.Text("Path", p.path), query.Text("DefaultVersionId", p.standard), query.Int("AttachmentCount", attached),
		query.Int("PermissionsBoundaryUsageCount", bounded), query.Bool("IsAttachable", true),
		query.Text("CreateDate", stamp(p.created)), query.Text("UpdateDate", stamp(p.updated))}, more...)...)
}

func checkPolicy(doc string) error {
	if err := checkDocument(doc); err != nil {
		return err
	}
	if visibleChars(doc) > mostPolicyChars {
		return conflict("LimitExceeded", "Cannot exceed quota for PolicySize: %d", mostPolicyChars)
	}
	return nil
}

// add makes a version the newest.
func (p *managedPolicy) add(doc string, now time.Time) policyVersion {
	p.made++
	v := policyVersion{p.made, fmt.Sprintf("v%d", p.made), doc, now}
	p.versions = append(slices.Clip(p.versions), v)
	p.updated = now
	return v
}

func (svc *Service) createPolicy(in *api.Call) (any, error) {
	e, err := readEntity(in, "PolicyName", 128)
	if err != nil {
		return nil, err
	}
	doc := in.Form.Get("PolicyDocument")
	if err := checkPolicy(doc); err != nil {
		return nil, err
	}
	for _, p := range svc.policies {
		if strings.EqualFold(p.name, e.name) {
			return nil, conflict("EntityAlreadyExists", "A policy called %s already exists. Duplicate names are not allowed.", e.name)
		}
	}
	if utf8.RuneCountInString(in.Form.Get("Description")) > 1000 {
		return nil, api.Refuse("ValidationError", "1 validation error detected: the description is over 1000 characters.")
	}
	p := &managedPolicy{name: e.name, path: e.path, id: svc.account.NewEntityID("ANPA"), description: in.Form.Get("Description"), created: in.Now, tags: e.tags}
	p.standard = p.add(doc, in.Now).id
	svc.policies[svc.arn("policy", e.path, e.name)] = p
	return []query.Element{svc.policyElement(p, tagsElement(e.tags))}, nil
}

func (svc *Service) getPolicy(in *api.Call) (any, error) {
	if path := svc.awsPolicyPath(in.Form.Get("PolicyArn")); path != "" {
		attached, bounded := svc.holders(in.Form.Get("PolicyArn"))
		end := strings.LastIndex(path, "/") + 1
		return []query.Element{query.Group("Policy", query.Text("PolicyName", path[end:]), query.Text("PolicyId", awsPolicyID(path)), query.Text("Arn", in.Form.Get("PolicyArn")),
			query.Text("Path", "/"+path[:end]), query.Text("DefaultVersionId", "v1"), query.Int("AttachmentCount", attached),
			query.Int("PermissionsBoundaryUsageCount", bounded), query.Bool("IsAttachable", true),
			query.Text("CreateDate", stamp(awsPoliciesMade())), query.Text("UpdateDate", stamp(awsPoliciesMade())), query.List("Tags", "member", nil))}, nil
	}
	p, err := svc.findPolicy(in)
	if err != nil {
		return nil, err
	}
	return []query.Element{svc.policyElement(p, query.Opt("Description", p.description), tagsElement(p.tags))}, nil
}

func (svc *Service) deletePolicy(in *api.Call) (any, error) {
	p, err := svc.findPolicy(in)
	if err != nil {
		return nil, err
	}
	arn := in.Form.Get("PolicyArn")
	switch attached, bounded := svc.holders(arn); {
	case attached+bounded > 0:
		return nil, conflict("DeleteConflict", "Cannot delete a policy attached to entities.")
	case len(p.versions) > 1:
		return nil, conflict("DeleteConflict", "This policy has more than one version. Before you delete a policy, you must delete the policy's versions. The default version is deleted with the policy.")
	}
	delete(svc.policies, arn)
	return []query.Element{}, nil
}

func versionElement(p *managedPolicy, v policyVersion, more ...query.Element) query.Element {
	return query.Group("PolicyVersion", append(more, query.Text("VersionId", v.id), query.Bool("IsDefaultVersion", v.id == p.standard),
		query.Text("CreateDate", stamp(v.created)))...)
}

func (svc *Service) createPolicyVersion(in *api.Call) (any, error) {
	p, err := svc.findPolicy(in)
	if err != nil {
		return nil, err
	}
	standard, err := in.Form.Bool("SetAsDefault")
	if err != nil {
		return nil, api.Refuse("ValidationError", "%s", err)
	}
	doc := in.Form.Get("PolicyDocument")
	if err := checkPolicy(doc); err != nil {
		return nil, err
	}
	if len(p.versions) == mostPolicyVersions {
		return nil, conflict("LimitExceeded", "A managed policy can have up to %d versions. Before you create a new version, you must delete an existing version.", mostPolicyVersions)
	}
	v := p.add(doc, in.Now)
	if standard {
		p.standard = v.id
	}
	return []query.Element{versionElement(p, v)}, nil
}

// findVersion reads the version that the request names.
func (svc *Service) findVersion(in *api.Call) (*managedPolicy, int, error) {
	p, err := svc.findPolicy(in)
	if err != nil {
		return nil, 0, err
	}
	id := in.Form.Get("VersionId")
	n := slices.IndexFunc(p.versions, func(v policyVersion) bool { return v.id == id })
	if n < 0 {
		return nil, 0, noEntity("Policy %s version %s does not exist or is not attachable.", in.Form.Get("PolicyArn"), id)
	}
	return p, n, nil
}

func (svc *Service) getPolicyVersion(in *api.Call) (any, error) {
	p, n, err := svc.findVersion(in)
	if err != nil {
		return nil, err
	}
	return []query.Element{versionElement(p, p.versions[n], query.Text("Document", escapeDocument(p.versions[n].document)))}, nil
}

func (svc *Service) listPolicyVersions(in *api.Call) (any, error) {
	p, err := svc.findPolicy(in)
	if err != nil {
		return nil, err
	}
	var rows []api.Row
	for _, v := range p.versions { // the newest first
		rows = append(rows, api.NewRow(fmt.Sprintf("%09d", 999999999-v.number), versionElement(p, v)))
	}
	return page(in, "Versions", rows)
}

func (svc *Service) deletePolicyVersion(in *api.Call) (any, error) {
	p, n, err := svc.findVersion(in)
	if err != nil {
		return nil, err
	}
	if p.versions[n].id == p.standard {
		return nil, conflict("DeleteConflict", "Cannot delete the default version of a policy.")
	}
	p.versions = slices.Delete(slices.Clone(p.versions), n, n+1)
	return []query.Element{}, nil
}
