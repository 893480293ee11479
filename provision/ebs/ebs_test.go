package ebs_test

import (
	"math"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/ebs"
)

func TestANodeCostsItsVolumesAndItsAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		spec string
		// volumes is a month's.
		volumes                        float64
		address                        float64
		volumesUnknown, addressUnknown bool
	}{
		"gp3 by its size": {spec: volume("200Gi", "gp3", ""), volumes: 16, addressUnknown: true},
		"its IOPS and throughput above those that are free": {spec: volume("100Gi", "gp3", ", iops: 4000, throughput: 200"), volumes: 8 + 5 + 3, addressUnknown: true},
		"not those below":                                     {spec: volume("100Gi", "gp3", ", iops: 3000, throughput: 125"), volumes: 8, addressUnknown: true},
		"gp2 by its size alone":                               {spec: volume("100Gi", "gp2", ""), volumes: 10, addressUnknown: true},
		"io2 by all its IOPS":                                 {spec: volume("100Gi", "io2", ", iops: 1000"), volumes: 12.5 + 65, addressUnknown: true},
		"io2 by tiers of its IOPS":                            {spec: volume("100Gi", "io2", ", iops: 70000"), volumes: 12.5 + 32000*0.065 + 32000*0.0455 + 6000*0.03185, addressUnknown: true},
		"and at the end of a tier":                            {spec: volume("100Gi", "io2", ", iops: 32000"), volumes: 12.5 + 32000*0.065, addressUnknown: true},
		"io1 without tiers":                                   {spec: volume("100Gi", "io1", ", iops: 40000"), volumes: 12.5 + 40000*0.065, addressUnknown: true},
		"a size in powers of ten is smaller":                  {spec: volume("1074M", "gp3", ""), volumes: 0.08, addressUnknown: true},
		"a type without a price is not free":                  {spec: volume("100Gi", "standard", ""), volumesUnknown: true, addressUnknown: true},
		"nor is the size of a snapshot":                       {spec: "{amiFamily: AL2023, blockDeviceMappings: [{ebs: {snapshotID: snap-1, volumeType: gp3}}]}", volumesUnknown: true, addressUnknown: true},
		"without any it is Karpenter's":                       {spec: "{amiFamily: AL2023}", volumes: 1.6, addressUnknown: true},
		"of an image of one's own they are not known":         {spec: "{amiFamily: Custom}", volumesUnknown: true, addressUnknown: true},
		"an address that the class declares":                  {spec: "{amiFamily: AL2023, associatePublicIPAddress: true}", volumes: 1.6, address: 0.005},
		"none that it forbids, whatever the subnet has it do": {spec: "{amiFamily: AL2023, associatePublicIPAddress: false}", volumes: 1.6},
	} {
		t.Run(name, func(t *testing.T) {
			class := &awsv1.EC2NodeClass{}
			if err := yaml.UnmarshalStrict([]byte("spec: "+tt.spec), class); err != nil {
				t.Fatal(err)
			}
			got := ebs.CostsOf(class)
			if math.Abs(got.Volumes*730-tt.volumes) > 1e-4 || got.PublicIPv4 != tt.address || got.VolumesUnknown != tt.volumesUnknown || got.PublicIPv4Unknown != tt.addressUnknown {
				t.Errorf("%+v, a month of volumes is %g", got, got.Volumes*730)
			}
		})
	}
	if got := ebs.CostsOf(nil); !got.VolumesUnknown || !got.PublicIPv4Unknown {
		t.Errorf("of no class: %+v", got)
	}
}

func volume(size, kind, more string) string {
	return "{amiFamily: AL2023, blockDeviceMappings: [{ebs: {volumeSize: " + size + ", volumeType: " + kind + more + "}}]}"
}

// What Karpenter gives a node of a class that declares no volumes is read from its code.
func TestTheDefaultVolumesAreThoseOfKarpenter(t *testing.T) {
	for _, family := range []string{awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket, awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025, awsv1.AMIFamilyCustom} {
		class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMIFamily: &family}}
		implied := ebs.CostsOf(class)
		class.Spec.BlockDeviceMappings = amifamily.GetAMIFamily(family, &amifamily.Options{}).DefaultBlockDeviceMappings()
		if len(class.Spec.BlockDeviceMappings) == 0 {
			if !implied.VolumesUnknown {
				t.Errorf("%s: %+v, and its image decides", family, implied)
			}
			continue
		}
		if declared := ebs.CostsOf(class); declared != implied || declared.Volumes == 0 {
			t.Errorf("%s: %+v where Karpenter's are %+v", family, implied, declared)
		}
	}
}
