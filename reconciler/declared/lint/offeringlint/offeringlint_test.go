package offeringlint_test

import (
	"encoding/json"
	"maps"
	"testing"
	"testing/fstest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint/offeringlint"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: training}
      requirements:
`

const class = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: training}
spec:
  capacityReservationSelectorTerms: [{id: cr-0123456789abcdef0}]
`

// found is a finding as data.
type found struct {
	Code  finding.Code
	Field string
	Line  int
	Facts map[string]any
}

// lint checks a file.
func lint(t *testing.T, text string, known published.Content) []found {
	t.Helper()
	d, err := declared.Load(fstest.MapFS{"a.yaml": {Data: []byte(text)}}, ".", declared.Options{UnresolvedVariables: true})
	if err != nil || len(d.Problems) > 0 {
		t.Fatalf("%v, %v", d.Problems, err)
	}
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	var out []found
	for _, p := range offeringlint.Check(d, types, known) {
		out = append(out, found{p.Code, p.Field, p.Origin.Line, p.Facts.Map()})
	}
	return out
}

// read is what AWS returned of eu-west-1.
func read() *pricelist.List {
	return &pricelist.List{
		Region: "eu-west-1", ZonesAt: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC),
		Zones: map[string][]string{"g5.xlarge": {"eu-west-1a"}, "g4dn.xlarge": {"eu-west-1a", "eu-west-1b"}},
	}
}

func TestInstanceTypesThatNoZoneOffersAreFound(t *testing.T) {
	const (
		named = "      - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge, g4dn.xlarge]}\n"
		zoneB = "      - {key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1b]}\n"
	)
	missing := func(types string) []found {
		return []found{{"InstanceTypesNotOffered", "spec.template.spec.requirements", 8, map[string]any{"region": "eu-west-1", "instanceTypes": types, "readAt": "2026-11-28"}}}
	}
	unread := read()
	unread.ZonesAt = time.Time{}
	for name, c := range map[string]struct {
		requirements string
		list         *pricelist.List
		want         []found
	}{
		"a zone offers all":                        {named, read(), nil},
		"the zone of the pool offers one":          {named + zoneB, read(), missing("g5.xlarge")},
		"none offers the only one":                 {"      - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}\n", read(), missing("p5.48xlarge")},
		"a type that the catalog lacks":            {"      - {key: node.kubernetes.io/instance-type, operator: In, values: [g99.xlarge]}\n", read(), missing("g99.xlarge")},
		"a variable is not known":                  {"      - {key: node.kubernetes.io/instance-type, operator: In, values: [\"${TYPE}\"]}\n", read(), nil},
		"what a zone that holds a variable offers": {named + "      - {key: topology.kubernetes.io/zone, operator: In, values: [\"${REGION}a\"]}\n", read(), nil},
		"a type that no zone offers, whatever the variable is": {
			"      - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge, p5.48xlarge]}\n      - {key: topology.kubernetes.io/zone, operator: In, values: [\"${REGION}a\"]}\n",
			read(), missing("p5.48xlarge"),
		},
		"a family that holds a variable beside one that is not offered": {"      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [p4d, \"${FAMILY}\"]}\n", read(), nil},
		"a family of which some are offered":                            {"      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}\n", read(), nil},
		"a family of which none is":                                     {"      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [p4d]}\n", read(), missing("p4d.24xlarge")},
		"offerings that were not read are unknown":                      {named + zoneB, unread, nil},
		"without a list nothing is known":                               {named + zoneB, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := lint(t, pool+c.requirements, published.Content{Offerings: c.list})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheEndOfAReservationIsFound(t *testing.T) {
	end := &metav1.Time{Time: time.Date(2026, 12, 1, 11, 30, 0, 0, time.UTC)}
	reservation := func(kind awsv1.CapacityReservationType, end *metav1.Time, nodes int) map[string][]published.Reservation {
		return map[string][]published.Reservation{"training": {{CapacityReservation: awsv1.CapacityReservation{ID: "cr-0123456789abcdef0", ReservationType: kind, EndTime: end}, Nodes: nodes}}}
	}
	ends := func(more map[string]any) []found {
		facts := map[string]any{"capacityReservation": "cr-0123456789abcdef0", "endsAt": "2026-12-01 11:30 UTC"}
		maps.Copy(facts, more)
		return []found{{"CapacityReservationEnds", "spec.capacityReservationSelectorTerms", 5, facts}}
	}
	for name, c := range map[string]struct {
		of   map[string][]published.Reservation
		want []found
	}{
		"a Capacity Block with nodes": {
			reservation(awsv1.CapacityReservationTypeCapacityBlock, end, 4), ends(map[string]any{"nodes": json.Number("4"), "leavesAt": "2026-12-01 10:50 UTC"}),
		},
		"a Capacity Block whose nodes are not known": {
			reservation(awsv1.CapacityReservationTypeCapacityBlock, end, 0), ends(map[string]any{"leavesAt": "2026-12-01 10:50 UTC"}),
		},
		"an On-Demand Capacity Reservation": {reservation(awsv1.CapacityReservationTypeDefault, end, 1), ends(map[string]any{"nodes": json.Number("1")})},
		"one without an end":                {reservation(awsv1.CapacityReservationTypeDefault, nil, 4), nil},
		"of another class":                  {map[string][]published.Reservation{"other": {{CapacityReservation: awsv1.CapacityReservation{EndTime: end}}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := lint(t, class, published.Content{CapacityReservations: c.of})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheTermsOfClassesAreRead(t *testing.T) {
	d, err := declared.Load(fstest.MapFS{"a.yaml": {Data: []byte(class + "---\n" + pool + "      - {key: a, operator: Exists}\n")}}, ".", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]awsv1.CapacityReservationSelectorTerm{"training": {{ID: "cr-0123456789abcdef0"}}}
	if diff := cmp.Diff(want, offeringlint.Terms(d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
