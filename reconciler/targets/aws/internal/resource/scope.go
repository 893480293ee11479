package resource

import (
	"fmt"
	"regexp"
	"strings"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// TargetName is the Target in the keys of all resources.
const TargetName = state.TargetAWS

// Scope is a cluster, and where its resources are.
type Scope struct {
	// Partition is aws, aws-cn, aws-us-gov or another of AWS's.
	Partition string
	// Region, Account and Cluster are as the Cluster object declares them.
	Region, Account, Cluster string
}

// ARN writes the ARN of a regional resource of a service; resource is its last
// part, such as "cluster/name".
func (p Scope) ARN(service, resource string) string {
	return "arn:" + p.Partition + ":" + service + ":" + p.Region + ":" + p.Account + ":" + resource
}

// IAMARN writes the ARN of an IAM resource, such as "role/name".
func (p Scope) IAMARN(resource string) string {
	return "arn:" + p.Partition + ":iam::" + p.Account + ":" + resource
}

// ManagedPolicyARN writes the ARN of a policy that AWS manages, whose name includes
// its path, such as "service-role/AmazonEBSCSIDriverPolicy".
func (p Scope) ManagedPolicyARN(name string) string {
	return "arn:" + p.Partition + ":iam::aws:policy/" + name
}

// Owns reports whether the tags are those of a resource that was made, or
// adopted, for this cluster.
func (p Scope) Owns(tags map[string]string) bool { return tags[tag.Cluster] == p.ClusterTagValue() }

// ClusterTagValue is the value of tag.Cluster for this cluster.
func (p Scope) ClusterTagValue() string { return p.Region + "/" + p.Cluster }

// Regional is the key of a resource of this region.
func (p Scope) Regional(service, kind, name string) state.Key {
	return state.Key{Target: TargetName, Group: service, Kind: kind, Namespace: p.Region, Name: name}
}

// Global is the key of a resource of IAM, which has no regions.
func Global(kind, name string) state.Key {
	return state.Key{Target: TargetName, Group: "iam", Kind: kind, Name: name}
}

// Text writes a scope as the inventory keeps it, for ParseScope.
func (p Scope) Text() string { return p.Account + "/" + p.Region + "/" + p.Cluster }

// ParseScope reads what Text wrote.
func ParseScope(scope string) (Scope, error) {
	parts := strings.Split(scope, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Scope{}, fmt.Errorf("the inventory records it in %q, which is not account/region/cluster: another release may have written it", scope)
	}
	return Scope{Partition: iampolicy.PartitionOf(parts[1]), Account: parts[0], Region: parts[1], Cluster: parts[2]}, nil
}

// Command is a command line of the AWS CLI for a person to copy: what comes
// from a repository is quoted, so that a shell takes it for one argument.
func (p Scope) Command(what string, args ...string) string {
	var b strings.Builder
	b.WriteString("aws " + what)
	for _, w := range append(args, "--region", p.Region) {
		b.WriteString(" " + quoted(w))
	}
	return b.String()
}

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./…-]+$`)

func quoted(arg string) string {
	if shellSafe.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
