package ec2query

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// malformedCodes are the ids that EC2 refuses as malformed, by their prefix, and the code
// of that error. Other kinds are only ever not found.
func malformedCodes() map[string]string {
	return map[string]string{
		"i": "InvalidInstanceID.Malformed", "sg": "InvalidGroupId.Malformed", "ami": "InvalidAMIID.Malformed",
		"vol": "InvalidVolumeID.Malformed", "eni": "InvalidNetworkInterfaceId.Malformed", "sir": "InvalidSpotInstanceRequestID.Malformed",
	}
}

var idForm = regexp.MustCompile(`^[a-z]+-([0-9a-f]{8}|[0-9a-f]{17})$`)

// WellFormed refuses the first id that is none of the kind with that prefix.
func WellFormed(prefix string, ids []string) error {
	for _, id := range ids {
		if !strings.HasPrefix(id, prefix+"-") || !idForm.MatchString(id) {
			return api.Refuse(malformedCodes()[prefix], "Invalid id: \"%s\" (expecting \"%s-...\")", id, prefix)
		}
	}
	return nil
}

// Missing is the first id or name of which there is nothing, "" if all are there.
func Missing(requested []string, has func(string) bool) string {
	for _, id := range requested {
		if !has(id) {
			return id
		}
	}
	return ""
}

// NotFound is the error for an id of which there is no resource, or that is no
// id, by its prefix.
func NotFound(id string) error {
	kind, _, _ := strings.Cut(id, "-")
	code := map[string]string{
		"i": "InvalidInstanceID.NotFound", "lt": "InvalidLaunchTemplateId.NotFound", "subnet": "InvalidSubnetID.NotFound",
		"sg": "InvalidGroup.NotFound", "ami": "InvalidAMIID.NotFound", "cr": "InvalidCapacityReservationId.NotFound",
		"vol": "InvalidVolume.NotFound", "eni": "InvalidNetworkInterfaceID.NotFound", "pg": "InvalidPlacementGroup.Unknown", "sir": "InvalidSpotInstanceRequestID.NotFound",
	}[kind]
	if code == "" {
		return api.Refuse("InvalidID", "The ID '%s' is not valid", id)
	}
	if _, known := malformedCodes()[kind]; known {
		if err := WellFormed(kind, []string{id}); err != nil {
			return err
		}
	}
	return api.Refuse(code, "The ID '%s' does not exist", id)
}

// PartID names a part of an instance: its id follows from the instance's.
func PartID(prefix, instance string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", prefix, instance, n))
	return prefix + "-0" + hex.EncodeToString(sum[:8])
}

// ARN names an EC2 resource by its id; images and snapshots belong to no
// account.
func ARN(a *api.Account, id string) string {
	prefix, _, _ := strings.Cut(id, "-")
	kind, known := map[string]string{
		"i": "instance", "lt": "launch-template", "subnet": "subnet", "sg": "security-group", "ami": "image", "snap": "snapshot",
		"cr": "capacity-reservation", "pg": "placement-group", "vol": "volume", "eni": "network-interface", "fleet": "fleet", "sir": "spot-instances-request",
	}[prefix]
	switch {
	case !known:
		return a.ARN("ec2", "unknown/"+id)
	case kind == "image" || kind == "snapshot":
		return a.PublicARN("ec2", kind+"/"+id)
	}
	return a.ARN("ec2", kind+"/"+id)
}

// IsID reports whether a text has the form of an id.
func IsID(text string) bool { return idForm.MatchString(text) }
