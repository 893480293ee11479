package offerings

import (
	"cmp"
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// describeZones lists the region's zones; there are no local ones.
func (svc *Service) describeZones(in *api.Call) (any, error) {
	names, ids := in.Form.List("ZoneName"), in.Form.List("ZoneId")
	has := func(of func(catalog.Zone) string) func(string) bool {
		return func(text string) bool {
			return slices.ContainsFunc(svc.zones, func(z catalog.Zone) bool { return of(z) == text })
		}
	}
	if name := cmp.Or(ec2query.Missing(names, has(func(z catalog.Zone) string { return z.Name })),
		ec2query.Missing(ids, has(func(z catalog.Zone) string { return z.ID }))); name != "" {
		return nil, api.Refuse("InvalidParameterValue", "Invalid availability zone: [%s]", name)
	}
	region := svc.account.Region
	found, err := ec2query.Choose(in, svc.zones, ec2query.Attributes[catalog.Zone]{
		"zone-name":     ec2query.One(func(z catalog.Zone) string { return z.Name }),
		"zone-id":       ec2query.One(func(z catalog.Zone) string { return z.ID }),
		"zone-type":     ec2query.One(func(catalog.Zone) string { return "availability-zone" }),
		"region-name":   ec2query.One(func(catalog.Zone) string { return region }),
		"state":         ec2query.One(func(catalog.Zone) string { return "available" }),
		"opt-in-status": ec2query.One(func(catalog.Zone) string { return "opt-in-not-required" }),
	}, nil)
	if err != nil {
		return nil, err
	}
	var rows []query.Element
	for _, z := range found {
		if len(names) > 0 && !slices.Contains(names, z.Name) || len(ids) > 0 && !slices.Contains(ids, z.ID) {
			continue
		}
		rows = append(rows, query.Group("item", query.Text("zoneName", z.Name), query.Text("zoneId", z.ID), query.Text("zoneType", "availability-zone"),
			query.Text("zoneState", "available"), query.Text("regionName", region), query.Text("groupName", region+"-zg-1"),
			query.Text("networkBorderGroup", region), query.Text("optInStatus", "opt-in-not-required"), query.List("messageSet", "item", nil)))
	}
	return []query.Element{query.List("availabilityZoneInfo", "item", rows)}, nil
}
