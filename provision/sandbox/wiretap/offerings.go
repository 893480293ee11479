package wiretap

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// createFleet is the operation that launches instances.
const createFleet = "CreateFleet"

// noCapacity are EC2's codes for an offering that cannot be launched for some time.
var noCapacity = []string{
	"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
	"InsufficientFreeAddressesInSubnet", "MaxFleetCountExceeded", "ReservationCapacityExceeded",
}

// requestedOfferings are the overrides of a CreateFleet request.
func requestedOfferings(parameters map[string]string) []string {
	var out []string
	capacityType := parameters["TargetCapacitySpecification.DefaultTargetCapacityType"]
	for name, kind := range parameters {
		override, is := strings.CutSuffix(name, ".InstanceType")
		if is && strings.HasPrefix(name, "LaunchTemplateConfigs.") {
			out = append(out, offering(kind, parameters[override+".SubnetId"], capacityType))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func offering(kind, subnet, capacityType string) string {
	return fmt.Sprintf("%s in %s, %s", kind, subnet, capacityType)
}

// refusedOfferings are those of the requested ones for which a response of CreateFleet has an error
// that names no error but capacity.
func refusedOfferings(requested []string, content []byte) []string {
	var response struct {
		Errors []struct {
			Code   string `xml:"errorCode"`
			Type   string `xml:"launchTemplateAndOverrides>overrides>instanceType"`
			Subnet string `xml:"launchTemplateAndOverrides>overrides>subnetId"`
		} `xml:"errorSet>item"`
	}
	if xml.Unmarshal(content, &response) != nil {
		return nil // what is no response of EC2 refuses nothing
	}
	var out []string
	for _, failed := range response.Errors {
		prefix := offering(failed.Type, failed.Subnet, "")
		for _, o := range requested {
			if slices.Contains(noCapacity, failed.Code) && strings.HasPrefix(o, prefix) && !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}
