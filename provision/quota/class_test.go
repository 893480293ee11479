package quota

import (
	"slices"
	"testing"
)

const (
	standardOnDemand = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
	gOnDemand        = "Running On-Demand G and VT instances"
	pOnDemand        = "Running On-Demand P instances"
	standardSpot     = "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"
	gSpot            = "All G and VT Spot Instance Requests"
	oldPSpot         = "All P4, P3 and P2 Spot Instance Requests"
	newPSpot         = "All P5 Spot Instance Requests"
)

func TestQuotasAreFoundByTheirNames(t *testing.T) {
	for name, want := range map[string][]string{
		standardOnDemand: {standardOnDemand}, gOnDemand: {gOnDemand}, pOnDemand: {pOnDemand},
		standardSpot: {standardSpot}, gSpot: {gSpot}, oldPSpot: {oldPSpot}, newPSpot: {newPSpot},
		// Names of earlier years, and such as may come.
		"All G Spot Instance Requests":                     {gSpot},
		"All P Spot Instance Requests":                     {oldPSpot, newPSpot},
		"All P6 and P5 Spot Instance Requests":             {newPSpot},
		"All P5, P4 and P3 Spot Instance Requests":         {oldPSpot, newPSpot},
		"Running On-Demand G instances":                    {gOnDemand},
		"Running On-Demand All G and VT instances (vCPUs)": {gOnDemand},
		// Others.
		"Running Dedicated g4dn Hosts":                    nil,
		"Running On-Demand F instances":                   nil,
		"Running On-Demand High Memory instances":         nil,
		"All Inf Spot Instance Requests":                  nil,
		"EC2-VPC Elastic IPs":                             nil,
		"Concurrent Capacity Blocks of P instances":       nil,
		"On-Demand Capacity Reservations for P instances": nil,
	} {
		var got []string
		for _, class := range Classes() {
			if class.Matches(name) {
				got = append(got, class.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q is taken for %q, want %q", name, got, want)
		}
	}
}

func TestInstancesCountAgainstTheQuotaOfTheirFamily(t *testing.T) {
	for kind, want := range map[string][2]string{
		"m5.large": {standardOnDemand, standardSpot}, "c7g.large": {standardOnDemand, standardSpot}, "im4gn.large": {standardOnDemand, standardSpot},
		"g4dn.xlarge": {gOnDemand, gSpot}, "gr6.4xlarge": {gOnDemand, gSpot}, "vt1.3xlarge": {gOnDemand, gSpot},
		"p3.2xlarge": {pOnDemand, oldPSpot}, "p4d.24xlarge": {pOnDemand, oldPSpot}, "p5en.48xlarge": {pOnDemand, newPSpot}, "p6-b200.48xlarge": {pOnDemand, newPSpot},
		"inf2.xlarge": {}, "u-6tb1.metal": {}, "x2idn.metal": {}, "mac1.metal": {}, "hpc7g.4xlarge": {}, "dl1.24xlarge": {}, "trn1.2xlarge": {}, "": {}, "nonsense": {},
	} {
		for n, spot := range []bool{false, true} {
			if got, ok := ClassOf(kind, spot); got.Name != want[n] || ok != (want[n] != "") {
				t.Errorf("%q, spot %v: %q", kind, spot, got.Name)
			}
		}
	}
}
