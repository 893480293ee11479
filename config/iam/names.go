package iam

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// What IAM takes: bytes of a role's and of a policy's name.
const (
	longestRole   = 64
	longestPolicy = 128
)

const (
	prefix = "poolwright-"
	deny   = "deny-"
)

// Names are how the things of one cluster are called in IAM, which is global:
// they carry the region, because clusters of one name may be in several.
type Names struct {
	// Role is the controller's role, unless the declaration names another.
	Role string
	// Resources, Deny and Engine are its policies; Boundary bounds the roles that
	// Poolwright makes.
	Resources, Deny, Engine, Boundary string
}

// NamesOf are the names for an EKS cluster in a region. A cluster's name that
// is too long is cut, and a hash of it keeps the names apart.
func NamesOf(cluster, region string) Names {
	return Names{
		Role:      named("", cluster, region, longestRole),
		Resources: named("resources-", cluster, region, longestPolicy), Deny: named(deny, cluster, region, longestPolicy),
		Engine: named("engine-", cluster, region, longestPolicy), Boundary: named("boundary-", cluster, region, longestPolicy),
	}
}

// What began the names of the policies of earlier releases, after the prefix.
const (
	formerResources = "loop-"
	formerDeny      = "limits-"
)

// FormerPolicies are the names that earlier releases gave the policies Resources and Deny. Nothing deletes those.
func FormerPolicies(cluster, region string) []string {
	return []string{named(formerResources, cluster, region, longestPolicy), named(formerDeny, cluster, region, longestPolicy)}
}

// denyPrefixes begin the names of the policies that deny, of this release and of earlier ones.
var denyPrefixes = []string{prefix + deny, prefix + formerDeny}

// Denies reports whether a name is that of a policy that denies, which the controller's role must not be without.
func Denies(policy string) bool {
	return slices.ContainsFunc(denyPrefixes, func(p string) bool { return strings.HasPrefix(policy, p) })
}

func named(what, cluster, region string, longest int) string {
	const hash = 8
	start, end := prefix+what, "-"+region
	length := longest - len(start) - len(end)
	if len(cluster) > length {
		sum := sha256.Sum256([]byte(cluster))
		cluster = cluster[:max(0, length-hash-1)] + "-" + hex.EncodeToString(sum[:])[:hash]
	}
	return start + cluster + end
}
