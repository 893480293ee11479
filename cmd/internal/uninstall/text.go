package uninstall

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// names writes "Sync a" or "Syncs a and b".
func names(kind string, syncs []v1alpha1.Sync) string {
	var out []string
	for _, s := range syncs {
		out = append(out, s.Name)
	}
	slices.Sort(out)
	if len(out) == 1 {
		return kind + " " + out[0]
	}
	return kind + "s " + strings.Join(out, ", ")
}

// finalized is what will carry Karpenter's finalizers when they are removed:
// not the nodes that the engine terminates before. It is empty for nothing.
func (f *installedState) finalized(drain bool) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(f.holding)) {
		left := f.holding[kind].all
		if kind == "Node" || kind == "NodeClaim" {
			switch {
			case drain && len(f.claims) > 0:
				left = 0
			case f.lease.EngineRuns():
				left -= f.holding[kind].going
			}
		}
		if left <= 0 {
			continue
		}
		out = append(out, plural.Count(left, kind))
	}
	return strings.Join(out, ", ")
}

// kinds is which of our own kinds go with the installation.
func (f *installedState) kinds() string {
	if !f.has("CustomResourceDefinition") {
		return ""
	}
	out := ", the CRDs of Sync and Cluster among them"
	if n := len(f.clusters); n > 0 {
		out += fmt.Sprintf(", with %s", plural.Count(n, "Cluster"))
	}
	return out
}

// remaining is what uninstall leaves as it is; released reports whether Karpenter's
// finalizers go.
func (f *installedState) remaining(released bool) []string {
	out := []string{"everything that Syncs applied: NodePools, node classes, workloads; and Karpenter's CRDs"}
	switch held := f.finalized(false); {
	case f.otherKarpenter != "":
		out = append(out, "Karpenter's finalizers: "+f.otherKarpenter)
	case !released && held != "":
		out = append(out, fmt.Sprintf("Karpenter's finalizers on %s: no Cluster here has engine.mode: Embedded, so they may be those of a Karpenter that does not run at this moment; where none will run again, --release-finalizers removes them", held))
	}
	if len(f.elsewhere) > 0 {
		out = append(out, fmt.Sprintf("the CRDs of Sync and Cluster: there are Syncs in other namespaces (%s/%s)", f.elsewhere[0].Namespace, f.elsewhere[0].Name))
	}
	for _, c := range f.clusters {
		out = append(out, inAWS(c.Spec)...)
	}
	return out
}

// inAWS is what stays in AWS, and how it can be found and removed.
func inAWS(spec v1alpha1.ClusterSpec) []string {
	var parts []string
	add := func(declared bool, format string, values ...any) {
		if declared {
			parts = append(parts, fmt.Sprintf(format, values...))
		}
	}
	names := iampolicy.NamesOf(spec.Name, spec.Region)
	boundary := ""
	if role := spec.ControllerRole; role != nil {
		add(true, "controller role %s with its policies %s, %s and %s", cmp.Or(role.Name, names.Role), names.Resources, names.Deny, names.Engine)
		add(role.Identity != v1alpha1.IdentityIRSA, "its Pod Identity association")
		boundary = names.Boundary
	}
	if role := spec.NodeRole; role != nil {
		add(true, "node role %s with its access entry", role.Name)
		add(role.InstanceProfile != "", "instance profile %s", role.InstanceProfile)
		boundary = cmp.Or(role.PermissionsBoundary, names.Boundary)
	}
	add(boundary != "", "permissions boundary %s", boundary)
	if queue := spec.InterruptionQueue; queue != nil {
		add(true, "queue %s and the rules that fill it", cmp.Or(queue.Name, spec.Name))
	}
	add(spec.Discovery != nil, "discovery tags")
	add(spec.Logging != nil, "logging and log group /aws/eks/%s/cluster", spec.Name)
	if len(parts) == 0 {
		return nil
	}
	out := []string{
		fmt.Sprintf("in AWS, for EKS cluster %s: %s", spec.Name, strings.Join(parts, ", ")),
		fmt.Sprintf("to find what Poolwright made there: aws resourcegroupstaggingapi get-resources --region %[1]s --tag-filters Key=poolwright.dev/cluster,Values=%[1]s/%[2]s; policies and instance profiles: the same with --region us-east-1; discovery tags: aws ec2 describe-tags --region %[1]s --filters 'Name=key,Values=poolwright.dev/discovery/%[2]s,poolwright.dev/discovery/%[2]s/*'; roles are in neither: by their names above", spec.Region, spec.Name),
		"to have it deleted, set deletionPolicy: Delete on the parts, then take them out of the repository, before you uninstall; what the controller itself runs with, its role and policies, is deleted by hand after that",
	}
	if spec.ControllerRole != nil {
		out = append(out, fmt.Sprintf("in IAM, where an earlier release was bootstrapped: its policies %s, which are deleted by hand", strings.Join(iampolicy.FormerPolicies(spec.Name, spec.Region), " and ")))
	}
	return out
}

// warnings are what may cost something.
func (f *installedState) warnings(drain, released bool) []string {
	var out []string
	staying := len(f.claims) - f.terminating()
	if !drain && staying > 0 && f.otherKarpenter == "" {
		out = append(out, fmt.Sprintf("%s of the pools would continue to run, and cost, without a controller that terminates them: use --drain to remove them first", plural.Count(staying, "node")))
	}
	if !released || f.lease.EngineRuns() {
		return out
	}
	var ids []string
	for _, c := range f.claims {
		if !c.DeletionTimestamp.IsZero() && c.Status.ProviderID != "" {
			ids = append(ids, c.Status.ProviderID[strings.LastIndex(c.Status.ProviderID, "/")+1:])
		}
	}
	if slices.Sort(ids); len(ids) > 0 {
		out = append(out, fmt.Sprintf("no engine runs that would terminate %s: the NodeClaims are deleted, and the instances run until you run aws ec2 terminate-instances --instance-ids %s", plural.Count(len(ids), "node"), strings.Join(ids, " ")))
	}
	return out
}
