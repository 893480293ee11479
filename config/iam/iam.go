// Package iam writes the IAM policies of one cluster: what the controller may
// do in AWS (Resources, Deny and Engine, all attached to its one role), what a role that
// only reports may read (Report), and what bounds the roles that Poolwright
// makes (Boundary). The documents lie beside this file as JSON with
// placeholders, and once more in poolwright.cloudformation.yaml for those who
// set up AWS with CloudFormation; README.md has the reason of each statement.
//
// It refuses names that could end a string in the document, match more than
// themselves, or make the controller's own role the node role; and documents
// that are too long for IAM. Start reading at Values.
package iam

import (
	"cmp"
	"embed"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

//go:embed resources.json deny.json engine.json report.json boundary.json
var documents embed.FS

// limit is how many characters a managed policy may have, white space aside.
const limit = 6144

// Values is whose policies they are. All fields up to Queue are needed.
type Values struct {
	// Partition is aws, aws-cn or aws-us-gov.
	Partition string
	// Region is such as eu-west-1, Account twelve digits, Cluster the name of
	// the EKS cluster.
	Region, Account, Cluster string
	// NodeRole is the name of the nodes' role: the only role that is written
	// and passed. It must have no path.
	NodeRole string
	// Queue is the name of the interruption queue.
	Queue string
	// InstanceProfile is the name of the instance profile that the Cluster
	// declares. Default: NodeRole's.
	InstanceProfile string
	// PermissionsBoundary is the name of the policy that bounds the node role.
	// Default: that of NamesOf.
	PermissionsBoundary string
	// ControllerRole is the name of the role that the policies are attached to,
	// which must not be the nodes'. Default: that of NamesOf.
	ControllerRole string
	// DiscoveryKey and DiscoveryValue are the tag that marks subnets and security
	// groups. Default: karpenter.sh/discovery with the cluster's name.
	DiscoveryKey, DiscoveryValue string
	// DiscoveryOld is what the tag may hold that is written over or taken off,
	// * for anything. Default: DiscoveryValue.
	DiscoveryOld string
}

// Resources is the policy for comparing and correcting what a Cluster declares.
// Errors name the field that is missing or not allowed.
func Resources(v Values) (string, error) { return v.document("resources.json") }

// Deny is the policy that goes with Resources: what it denies, nothing else that is
// attached to the role can allow. Errors are as those of Resources.
func Deny(v Values) (string, error) { return v.document("deny.json") }

// Engine is the policy for launching and ending nodes. Errors are as those of Resources.
func Engine(v Values) (string, error) { return v.document("engine.json") }

// Report is the policy for comparing without correcting: it only reads. Errors
// are as those of Resources.
func Report(v Values) (string, error) { return v.document("report.json") }

// Boundary is the most that a role may do that Poolwright makes, whatever is
// attached to it. Errors are as those of Resources.
func Boundary(v Values) (string, error) { return v.document("boundary.json") }

func (v Values) document(file string) (string, error) {
	v = v.withDefaults()
	if err := v.validate(); err != nil {
		return "", err
	}
	raw, err := documents.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading policy %s: %w", file, err)
	}
	text, err := fill(string(raw), v.fields())
	if err != nil {
		return "", fmt.Errorf("filling in policy %s: %w", file, err)
	}
	if n := size(text); n > limit {
		return "", fmt.Errorf("filling in policy %s: it has %d characters, IAM takes %d: shorten the names of the cluster, the instance profile, the permissions boundary or the discovery tag", file, n, limit)
	}
	return text, nil
}

func (v Values) withDefaults() Values {
	names := NamesOf(v.Cluster, v.Region)
	for _, d := range []struct {
		field     *string
		otherwise string
	}{
		{&v.InstanceProfile, v.NodeRole},
		{&v.PermissionsBoundary, names.Boundary},
		{&v.ControllerRole, names.Role},
		{&v.DiscoveryKey, "karpenter.sh/discovery"},
		{&v.DiscoveryValue, v.Cluster},
		{&v.DiscoveryOld, cmp.Or(v.DiscoveryValue, v.Cluster)},
	} {
		if *d.field == "" {
			*d.field = d.otherwise
		}
	}
	return v
}

func (v Values) fields() map[string]string {
	return map[string]string{
		"Partition": v.Partition, "Region": v.Region, "Account": v.Account, "Cluster": v.Cluster,
		"NodeRole": v.NodeRole, "Queue": v.Queue, "InstanceProfile": v.InstanceProfile,
		"PermissionsBoundary": v.PermissionsBoundary, "ControllerRole": v.ControllerRole,
		"DiscoveryKey": v.DiscoveryKey, "DiscoveryValue": v.DiscoveryValue, "DiscoveryOld": v.DiscoveryOld,
	}
}

// forms are the patterns of the values, and how long they may be where the form leaves
// that open: a count within it would be compiled into that many steps, at every start
// of the controller. None lets a quote, a backslash, a dollar sign, a wildcard or a
// separator of ARNs through.
var forms = []struct {
	field       string
	form        *regexp.Regexp
	most        int // bytes
	description string
}{
	{"Partition", regexp.MustCompile(`^aws(-[a-z]+)*$`), 0, "a partition such as aws or aws-us-gov"},
	{"Region", regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d{1,2}$`), 0, "a region such as eu-west-1"},
	{"Account", regexp.MustCompile(`^\d{12}$`), 0, "an account of twelve digits"},
	{"Cluster", regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]*$`), 100, "an EKS cluster's name: 1 to 100 letters, digits, - and _"},
	{"NodeRole", regexp.MustCompile(`^[0-9A-Za-z+=,.@_-]+$`), 64, "a role's name without its path: 1 to 64 letters, digits and +=,.@_-"},
	{"Queue", regexp.MustCompile(`^[0-9A-Za-z_-]+$`), 80, "a queue's name: 1 to 80 letters, digits, - and _"},
	{"InstanceProfile", regexp.MustCompile(`^[0-9A-Za-z+=,.@_-]+$`), 128, "an instance profile's name without its path: 1 to 128 letters, digits and +=,.@_-"},
	{"PermissionsBoundary", regexp.MustCompile(`^[0-9A-Za-z+=,.@_-]+$`), 128, "a policy's name without its path: 1 to 128 letters, digits and +=,.@_-"},
	{"ControllerRole", regexp.MustCompile(`^[0-9A-Za-z+=,.@_-]+$`), 64, "a role's name without its path: 1 to 64 letters, digits and +=,.@_-"},
	{"DiscoveryValue", regexp.MustCompile(`^[0-9A-Za-z+=._:/@ -]+$`), 256, "a tag's value: 1 to 256 letters, digits, spaces and +=._:/@-"},
	{"DiscoveryOld", regexp.MustCompile(`^(\*|[0-9A-Za-z+=._:/@ -]+)$`), 256, "a tag's value, or * for any"},
	{"DiscoveryKey", regexp.MustCompile(`^[0-9A-Za-z+=._:/@-]+$`), 128, "a tag's key: 1 to 128 letters, digits and +=._:/@-"},
}

func (v Values) validate() error {
	fields := v.fields()
	for _, f := range forms {
		if value := fields[f.field]; f.most > 0 && len(value) > f.most || !f.form.MatchString(value) {
			return fmt.Errorf("reading the values of the IAM policies: %s %q is not %s", f.field, value, f.description)
		}
	}
	if strings.EqualFold(v.NodeRole, v.ControllerRole) { // as IAM compares names
		return fmt.Errorf("reading the values of the IAM policies: NodeRole %q is the controller's own role, which it must not write: give the nodes another role", v.NodeRole)
	}
	if key := strings.ToLower(v.DiscoveryKey); strings.HasPrefix(key, "aws:") || strings.HasPrefix(key, "kubernetes.io/cluster/") || key == "eks:eks-cluster-name" {
		return fmt.Errorf("reading the values of the IAM policies: DiscoveryKey %q is a tag of ownership: discover by another tag, such as karpenter.sh/discovery", v.DiscoveryKey)
	}
	return nil
}

var placeholder = regexp.MustCompile(`\$\{[^}]*\}?`)

// fill puts the values in the places of ${Name}; a name that is not among them
// is an error.
func fill(text string, values map[string]string) (string, error) {
	var unknown string
	out := placeholder.ReplaceAllStringFunc(text, func(p string) string {
		name := strings.TrimSuffix(strings.TrimPrefix(p, "${"), "}")
		value := values[name]
		if value == "" || !strings.HasSuffix(p, "}") {
			unknown = p
		}
		return value
	})
	if unknown != "" {
		return "", fmt.Errorf("the placeholder %s is unknown or has no value", unknown)
	}
	return out, nil
}

// size is a policy's length as IAM counts it.
func size(text string) int {
	n := 0
	for _, r := range text {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}

// PartitionOf is the partition of a region, such as aws or aws-cn. A region that
// is not known is in aws.
func PartitionOf(region string) string {
	for _, p := range []struct{ prefix, partition string }{
		{"cn-", "aws-cn"}, {"us-gov-", "aws-us-gov"}, {"us-iso-", "aws-iso"}, {"us-isob-", "aws-iso-b"},
		{"eu-isoe-", "aws-iso-e"}, {"us-isof-", "aws-iso-f"}, {"eusc-", "aws-eusc"},
	} {
		if strings.HasPrefix(region, p.prefix) {
			return p.partition
		}
	}
	return "aws"
}
