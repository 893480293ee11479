package drift

import (
	"reflect"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
)

// discovered is the drift by what AWS finds for a class's selectors, as far as the
// objects show it: by ids, without a call of AWS.
func (s *Change) discovered(claim *karpv1.NodeClaim, old, class *awsv1.EC2NodeClass) string {
	if s.imageDrifts(claim, old, class) {
		return amiDrift
	}
	if s.groupsDrift(old, class) {
		return securityGroupDrift
	}
	if s.subnetDrifts(claim, old, class) {
		return subnetDrift
	}
	if s.reservationDrifts(claim, old, class) {
		return reservationDrift
	}
	return ""
}

// reservationDrifts reports whether the class no longer selects the node's capacity reservation.
func (s *Change) reservationDrifts(claim *karpv1.NodeClaim, old, class *awsv1.EC2NodeClass) bool {
	id := claim.Labels[cloudprovider.ReservationIDLabel]
	terms := class.Spec.CapacityReservationSelectorTerms
	if id == "" || reflect.DeepEqual(old.Spec.CapacityReservationSelectorTerms, terms) {
		return false
	}
	if ids, all := idsOf(terms, func(t awsv1.CapacityReservationSelectorTerm) string { return t.ID }); all {
		return !slices.Contains(ids, id)
	}
	found := s.After.Reservations(class)
	if !found.Listed {
		s.Unknown.AddDrift(codeReservationSelectionUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: spec.capacityReservationSelectorTerms changes, and which capacity reservations it then selects is not known: nodes in others are replaced (CapacityReservationDrift).", class.Name)
		return false
	}
	return !slices.ContainsFunc(found.List, func(r provision.CapacityReservation) bool { return r.ID == id })
}

func (s *Change) imageDrifts(claim *karpv1.NodeClaim, old, class *awsv1.EC2NodeClass) bool {
	if reflect.DeepEqual(old.Spec.AMISelectorTerms, class.Spec.AMISelectorTerms) {
		return false
	}
	ids, all := idsOf(class.Spec.AMISelectorTerms, func(t awsv1.AMISelectorTerm) string { return t.ID })
	if claim.Status.ImageID == "" {
		return false
	}
	if all && !slices.Contains(ids, claim.Status.ImageID) {
		return true
	}
	s.Unknown.AddDrift(codeAMISelectionUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: spec.amiSelectorTerms changes, and which images it then selects is known only to AWS: nodes with another image are replaced as well (AMIDrift).", class.Name)
	return false
}

func (s *Change) groupsDrift(old, class *awsv1.EC2NodeClass) bool {
	if reflect.DeepEqual(old.Spec.SecurityGroupSelectorTerms, class.Spec.SecurityGroupSelectorTerms) {
		return false
	}
	ids, all := idsOf(class.Spec.SecurityGroupSelectorTerms, func(t awsv1.SecurityGroupSelectorTerm) string { return t.ID })
	var has []string
	for _, group := range old.Status.SecurityGroups {
		has = append(has, group.ID)
	}
	if !all || len(has) == 0 {
		s.Unknown.AddDrift(codeSecurityGroupSelectionUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: spec.securityGroupSelectorTerms changes, and which groups it then selects is known only to AWS: if they are others, every node of the class is replaced (SecurityGroupDrift).", class.Name)
		return false
	}
	slices.Sort(ids)
	slices.Sort(has)
	return !slices.Equal(slices.Compact(ids), slices.Compact(has))
}

// subnetDrifts has a node's zone only, not its subnet.
func (s *Change) subnetDrifts(claim *karpv1.NodeClaim, old, class *awsv1.EC2NodeClass) bool {
	if reflect.DeepEqual(old.Spec.SubnetSelectorTerms, class.Spec.SubnetSelectorTerms) {
		return false
	}
	ids, all := idsOf(class.Spec.SubnetSelectorTerms, func(t awsv1.SubnetSelectorTerm) string { return t.ID })
	var here, kept int
	for _, subnet := range old.Status.Subnets {
		if subnet.Zone == claim.Labels[corev1.LabelTopologyZone] {
			here++
			if slices.Contains(ids, subnet.ID) {
				kept++
			}
		}
	}
	switch {
	case all && here > 0 && kept == here:
		return false
	case all && here > 0 && kept == 0:
		return true
	}
	s.Unknown.AddDrift(codeSubnetSelectionUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: spec.subnetSelectorTerms changes, and which subnets it then selects, and which node is in which, is known only to AWS: nodes in others are replaced (SubnetDrift).", class.Name)
	return false
}

// ImageReason is the drift of a NodeClaim by the images that AWS finds for its class, of whose newest generation the status
// has to be; empty for none, or without a class. Karpenter compares them by itself some time later. A node is not among them whose image is that of
// other instance types.
func ImageReason(claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) string {
	if class == nil || len(class.Status.AMIs) == 0 || claim.Status.ImageID == "" {
		return ""
	}
	if slices.ContainsFunc(class.Status.AMIs, func(image awsv1.AMI) bool { return image.ID == claim.Status.ImageID }) {
		return ""
	}
	return amiDrift
}

// idsOf lists the ids of selector terms, and whether all of them are ids.
func idsOf[T any](terms []T, id func(T) string) ([]string, bool) {
	var ids []string
	for _, term := range terms {
		if id(term) == "" {
			return nil, false
		}
		ids = append(ids, id(term))
	}
	return ids, true
}
