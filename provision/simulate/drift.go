package simulate

import (
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// The names that Karpenter and its AWS provider give to their reasons.
const (
	nodePoolDrifted     = "NodePoolDrifted"
	requirementsDrifted = "RequirementsDrifted"
	nodeClassDrift      = "NodeClassDrift"
	amiDrift            = "AMIDrift"
	subnetDrift         = "SubnetDrift"
	securityGroupDrift  = "SecurityGroupDrift"
)

// now is why a NodeClaim is to be replaced without the step, empty for not at all.
func (c *comparison) now(claim *karpv1.NodeClaim, pool *karpv1.NodePool) string {
	if reason := static(claim, pool); reason != "" {
		return reason
	}
	class := c.before.class(pool)
	if class != nil && c.classHash(claim, class) == differs {
		return nodeClassDrift
	}
	// What Karpenter has found out from AWS is in the condition. What it said about
	// hashes was just told from the hashes, which may be of another revision.
	found := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted)
	if found.IsTrue() && !decidedByHash(found.Reason) {
		return found.Reason
	}
	return ""
}

// decidedByHash reports whether a reason follows from the declarations alone.
func decidedByHash(reason string) bool {
	return slices.Contains([]string{nodePoolDrifted, requirementsDrifted, nodeClassDrift}, reason)
}

// then is why a NodeClaim is to be replaced after the step.
func (c *comparison) then(claim *karpv1.NodeClaim, was, is *karpv1.NodePool) string {
	c.warnPool(claim, was, is)
	if reason := static(claim, is); reason != "" {
		return reason
	}
	old, class := c.before.class(was), c.after.class(is)
	if class == nil {
		return "" // Karpenter judges no node of a class that is not there.
	}
	if old != nil && old.Name == class.Name {
		c.warnClass(claim, old, class)
		if c.classDrifts(claim, old, class) {
			return nodeClassDrift
		}
		if reason := c.discovered(claim, old, class); reason != "" {
			return reason
		}
	} else if c.classHash(claim, class) == differs {
		return nodeClassDrift
	}
	return ""
}

// static is the drift that NodePool and NodeClaim tell by themselves, in the order
// in which Karpenter looks.
func static(claim *karpv1.NodeClaim, pool *karpv1.NodePool) string {
	if claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == karpv1.NodePoolHashVersion {
		if hash, ok := claim.Annotations[karpv1.NodePoolHashAnnotationKey]; ok && hash != pool.Hash() {
			return nodePoolDrifted
		}
	}
	// Before its launch a NodeClaim lacks the labels of what it will be, and Karpenter
	// does not compare them either.
	if !claim.StatusConditions().Get(karpv1.ConditionTypeLaunched).IsTrue() {
		return ""
	}
	wanted := scheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...)
	if scheduling.NewLabelRequirements(claim.Labels).Compatible(wanted) != nil {
		return requirementsDrifted
	}
	return ""
}

// comparedHash is what comparing two hashes tells.
type comparedHash int

const (
	equals comparedHash = iota
	differs
	undecided
)

// classHash compares what a NodeClaim was made from with a class.
func (c *comparison) classHash(claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) comparedHash {
	hash, ok := claim.Annotations[awsv1.AnnotationEC2NodeClassHash]
	if !ok || claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] != awsv1.EC2NodeClassHashVersion {
		return undecided
	}
	if bundle := c.before.Cluster.CABundle; bundle != "" {
		return comparedBy(hash == class.Hash(&bundle))
	}
	// The authority is part of the hash, so that only the cluster's own class can
	// be compared, by what Karpenter wrote on it.
	live, ok := class.Annotations[awsv1.AnnotationEC2NodeClassHash]
	if !ok || class.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] != awsv1.EC2NodeClassHashVersion {
		return undecided
	}
	return comparedBy(hash == live)
}

func comparedBy(equal bool) comparedHash {
	if equal {
		return equals
	}
	return differs
}

// classDrifts reports whether the class's step makes the NodeClaim drift.
func (c *comparison) classDrifts(claim *karpv1.NodeClaim, old, class *awsv1.EC2NodeClass) bool {
	if c.before.Cluster.CABundle != "" {
		return c.classHash(claim, class) == differs
	}
	switch c.classHash(claim, old) {
	case undecided:
		// A class from Git carries no hash; then nodes are taken to be of it.
		return hashed(claim) && old.Annotations[awsv1.AnnotationEC2NodeClassHash] == "" && old.Hash(nil) != class.Hash(nil)
	case equals:
		return old.Hash(nil) != class.Hash(nil)
	default:
		return true
	}
}

func hashed(claim *karpv1.NodeClaim) bool {
	return claim.Annotations[awsv1.AnnotationEC2NodeClassHash] != "" &&
		claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] == awsv1.EC2NodeClassHashVersion
}

// warnPool warns where the pool's hash on a NodeClaim cannot be compared and that
// matters.
func (c *comparison) warnPool(claim *karpv1.NodeClaim, was, is *karpv1.NodePool) {
	if was.Hash() == is.Hash() {
		return
	}
	switch version := claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey]; {
	case version != "" && version != karpv1.NodePoolHashVersion:
		c.unknown.addDrift("NodePool %s: nodes with a hash of version %s were made by another Karpenter, which marks them anew with version %s: whether that happens before the change, and they stay, or after, and they are replaced, is not known.", is.Name, version, karpv1.NodePoolHashVersion)
	case version == "" || claim.Annotations[karpv1.NodePoolHashAnnotationKey] == "":
		c.unknown.addDrift("NodePool %s: nodes without the annotation %s were not marked by Karpenter yet: whether they are replaced is not known.", is.Name, karpv1.NodePoolHashAnnotationKey)
	}
}

func (c *comparison) warnClass(claim *karpv1.NodeClaim, old, class *awsv1.EC2NodeClass) {
	if old.Hash(nil) == class.Hash(nil) {
		return
	}
	switch version := claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion]; {
	case version != "" && version != awsv1.EC2NodeClassHashVersion:
		c.unknown.addDrift("EC2NodeClass %s: nodes with a hash of version %s were made by another Karpenter, which marks them anew with version %s: whether that happens before the change, and they stay, or after, and they are replaced, is not known.", class.Name, version, awsv1.EC2NodeClassHashVersion)
	case version == "" || claim.Annotations[awsv1.AnnotationEC2NodeClassHash] == "":
		c.unknown.addDrift("EC2NodeClass %s: nodes without the annotation %s were not marked by Karpenter yet: whether they are replaced is not known.", class.Name, awsv1.AnnotationEC2NodeClassHash)
	case c.before.Cluster.CABundle == "" && old.Annotations[awsv1.AnnotationEC2NodeClassHash] == "":
		c.unknown.add("EC2NodeClass %s: neither the cluster's authority nor the hash of the class in the cluster is known: its nodes are taken to be made from the revision before.", class.Name)
	}
}
