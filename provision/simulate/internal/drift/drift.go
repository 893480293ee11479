// Package drift has why Karpenter replaces a node before and after a change, and how many nodes of a
// pool it does.
package drift

import (
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// The names that Karpenter and its AWS provider give to their reasons.
const (
	nodePoolDrifted     = "NodePoolDrifted"
	requirementsDrifted = "RequirementsDrifted"
	nodeClassDrift      = "NodeClassDrift"
	amiDrift            = "AMIDrift"
	subnetDrift         = "SubnetDrift"
	securityGroupDrift  = "SecurityGroupDrift"
	reservationDrift    = "CapacityReservationDrift"
)

// Change is a change of pools and classes.
type Change struct {
	// Before and After are its sides. For [Change.ReasonBefore] there may be no After.
	Before, After *offerings.Resolved
	// Unknown is what the change leaves open.
	Unknown snapshot.Unknowns
	// hashes are those that were computed: what both sides declare does not change meanwhile.
	hashes map[hashKey]string
}

// ReasonBefore is why a NodeClaim is to be replaced without the change, empty for not at all.
func (s *Change) ReasonBefore(claim *karpv1.NodeClaim, pool *karpv1.NodePool) string {
	if reason := s.static(claim, pool); reason != "" {
		return reason
	}
	class := s.Before.Class(pool)
	if class != nil && s.classHash(claim, class) == differs {
		return nodeClassDrift
	}
	// What Karpenter has found out from AWS is in the condition. What it has about hashes
	// was just concluded from the hashes, which may be of another revision.
	found := snapshot.Condition(claim, karpv1.ConditionTypeDrifted)
	if found.IsTrue() && !DecidedByHash(found.Reason) {
		return found.Reason
	}
	return ""
}

// DecidedByHash reports whether a reason follows from the declarations alone.
func DecidedByHash(reason string) bool {
	return slices.Contains([]string{nodePoolDrifted, requirementsDrifted, nodeClassDrift}, reason)
}

// ReasonAfter is why a NodeClaim is to be replaced after the change.
func (s *Change) ReasonAfter(claim *karpv1.NodeClaim, was, is *karpv1.NodePool) string {
	s.warnPool(claim, was, is)
	if reason := s.static(claim, is); reason != "" {
		return reason
	}
	old, class := s.Before.Class(was), s.After.Class(is)
	if class == nil {
		return "" // Karpenter judges no node of a class that is not there.
	}
	if old != nil && old.Name == class.Name {
		s.warnClass(claim, old, class)
		if s.classDrifts(claim, old, class) {
			return nodeClassDrift
		}
		if reason := s.discovered(claim, old, class); reason != "" {
			return reason
		}
	} else if s.classHash(claim, class) == differs {
		return nodeClassDrift
	}
	return ""
}

// static is the drift that follows from NodePool and NodeClaim alone, in the order in
// which Karpenter checks.
func (s *Change) static(claim *karpv1.NodeClaim, pool *karpv1.NodePool) string {
	if claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == karpv1.NodePoolHashVersion {
		if hash, ok := claim.Annotations[karpv1.NodePoolHashAnnotationKey]; ok && hash != s.poolHash(pool) {
			return nodePoolDrifted
		}
	}
	// Before its launch a NodeClaim lacks the labels of what it will be, and Karpenter
	// does not compare them either.
	if !snapshot.Condition(claim, karpv1.ConditionTypeLaunched).IsTrue() {
		return ""
	}
	desired := scheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...)
	if scheduling.NewLabelRequirements(claim.Labels).Compatible(desired) != nil {
		return requirementsDrifted
	}
	return ""
}

// comparedHash is the result of comparing two hashes.
type comparedHash int

const (
	equals comparedHash = iota
	differs
	undecided
)

// classHash compares what a NodeClaim was made from with a class.
func (s *Change) classHash(claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) comparedHash {
	hash, ok := claim.Annotations[awsv1.AnnotationEC2NodeClassHash]
	if !ok || claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] != awsv1.EC2NodeClassHashVersion {
		return undecided
	}
	if bundle := s.Before.Cluster.CABundle; bundle != "" {
		return comparisonResult(hash == s.nodeClassHash(class, bundle))
	}
	// The CA bundle is part of the hash, so that only the cluster's own class can
	// be compared, by what Karpenter wrote on it.
	live, ok := class.Annotations[awsv1.AnnotationEC2NodeClassHash]
	if !ok || class.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] != awsv1.EC2NodeClassHashVersion {
		return undecided
	}
	return comparisonResult(hash == live)
}

func comparisonResult(equal bool) comparedHash {
	if equal {
		return equals
	}
	return differs
}

// classDrifts reports whether the change of the class makes the NodeClaim drift.
func (s *Change) classDrifts(claim *karpv1.NodeClaim, old, class *awsv1.EC2NodeClass) bool {
	if s.Before.Cluster.CABundle != "" {
		return s.classHash(claim, class) == differs
	}
	switch s.classHash(claim, old) {
	case undecided:
		// A class from Git carries no hash; then nodes are taken to be of it.
		return hashed(claim) && old.Annotations[awsv1.AnnotationEC2NodeClassHash] == "" && s.nodeClassHash(old, "") != s.nodeClassHash(class, "")
	case equals:
		return s.nodeClassHash(old, "") != s.nodeClassHash(class, "")
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
func (s *Change) warnPool(claim *karpv1.NodeClaim, was, is *karpv1.NodePool) {
	if s.poolHash(was) == s.poolHash(is) {
		return
	}
	switch version := claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey]; {
	case version != "" && version != karpv1.NodePoolHashVersion:
		s.Unknown.AddDrift(codeNodeHashOutdated, "NodePool/"+is.Name, "NodePool %s: nodes with a hash of version %s were made by another Karpenter, which marks them anew with version %s: whether that happens before the change, and they stay, or after, and they are replaced, is not known.", is.Name, version, karpv1.NodePoolHashVersion)
	case version == "" || claim.Annotations[karpv1.NodePoolHashAnnotationKey] == "":
		s.Unknown.AddDrift(codeNodeHashMissing, "NodePool/"+is.Name, "NodePool %s: nodes without the annotation %s were not marked by Karpenter yet: whether they are replaced is not known.", is.Name, karpv1.NodePoolHashAnnotationKey)
	}
}

func (s *Change) warnClass(claim *karpv1.NodeClaim, old, class *awsv1.EC2NodeClass) {
	if s.nodeClassHash(old, "") == s.nodeClassHash(class, "") {
		return
	}
	switch version := claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion]; {
	case version != "" && version != awsv1.EC2NodeClassHashVersion:
		s.Unknown.AddDrift(codeNodeHashOutdated, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: nodes with a hash of version %s were made by another Karpenter, which marks them anew with version %s: whether that happens before the change, and they stay, or after, and they are replaced, is not known.", class.Name, version, awsv1.EC2NodeClassHashVersion)
	case version == "" || claim.Annotations[awsv1.AnnotationEC2NodeClassHash] == "":
		s.Unknown.AddDrift(codeNodeHashMissing, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: nodes without the annotation %s were not marked by Karpenter yet: whether they are replaced is not known.", class.Name, awsv1.AnnotationEC2NodeClassHash)
	case s.Before.Cluster.CABundle == "" && old.Annotations[awsv1.AnnotationEC2NodeClassHash] == "":
		s.Unknown.Add(codeNodeClassHashUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: neither the cluster's authority nor the hash of the class in the cluster is known: its nodes are taken to be made from the revision before.", class.Name)
	}
}
