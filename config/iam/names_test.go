package iam

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamesCarryTheRegion(t *testing.T) {
	want := Names{
		Role: "poolwright-dev-eu-west-1", Resources: "poolwright-resources-dev-eu-west-1", Deny: "poolwright-deny-dev-eu-west-1",
		Engine: "poolwright-engine-dev-eu-west-1", Boundary: "poolwright-boundary-dev-eu-west-1",
	}
	if diff := cmp.Diff(want, NamesOf("dev", "eu-west-1")); diff != "" {
		t.Error(diff)
	}
}

func TestLongNamesAreCutAndStayApart(t *testing.T) {
	observed := map[string]string{}
	for _, cluster := range []string{strings.Repeat("c", 39), strings.Repeat("c", 40), strings.Repeat("c", 99) + "a", strings.Repeat("c", 99) + "b"} {
		for _, region := range []string{"eu-west-1", "us-west-2", "ap-northeast-10"} {
			n := NamesOf(cluster, region)
			for _, f := range []struct {
				name    string
				longest int
			}{{n.Role, 64}, {n.Resources, 128}, {n.Deny, 128}, {n.Engine, 128}, {n.Boundary, 128}} {
				if len(f.name) > f.longest || !strings.HasSuffix(f.name, "-"+region) || !strings.HasPrefix(f.name, "poolwright-") {
					t.Errorf("%s: %s has %d bytes", cluster, f.name, len(f.name))
				}
				if other, ok := observed[f.name]; ok {
					t.Errorf("%s/%s and %s have the name %s", region, cluster, other, f.name)
				}
				observed[f.name] = region + "/" + cluster
			}
		}
	}
	if n := NamesOf(strings.Repeat("c", 43), "eu-west-1"); n.Role != "poolwright-"+strings.Repeat("c", 43)+"-eu-west-1" {
		t.Errorf("a name that fits was cut: %s", n.Role)
	}
}
