package drift

import (
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// hashKey is a NodePool or an EC2NodeClass, with the CA bundle that the hash of the latter covers.
type hashKey struct {
	object   any
	caBundle string
}

// poolHash is the hash of a NodePool. Each NodePool and each class is compared with all of its NodeClaims, and
// Karpenter's hash of one takes longer than all else that is compared.
func (s *Change) poolHash(pool *karpv1.NodePool) string {
	return s.hash(hashKey{object: pool}, pool.Hash)
}

// nodeClassHash is the hash of a class under a CA bundle.
func (s *Change) nodeClassHash(class *awsv1.EC2NodeClass, caBundle string) string {
	return s.hash(hashKey{class, caBundle}, func() string { return class.Hash(&caBundle) })
}

func (s *Change) hash(of hashKey, compute func() string) string {
	if known, ok := s.hashes[of]; ok {
		return known
	}
	if s.hashes == nil {
		s.hashes = map[hashKey]string{}
	}
	out := compute()
	s.hashes[of] = out
	return out
}
