package examples_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint/offeringlint"
)

// Lint has the offerings that the forecast has, so that a pool for a type that the region lacks is found before a pod waits for it.
func TestLintFindsTypesOfPikselThatItsRegionDoesNotOffer(t *testing.T) {
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := dir.New("piksel", dir.Limits{}).Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	zones := []string{"ap-southeast-3a", "ap-southeast-3b"}
	for name, test := range map[string]struct {
		offered map[string][]string
		want    []string
	}{
		"all of g5 is offered":       {offered: map[string][]string{"g5.xlarge": zones, "g5.2xlarge": zones, "g5.4xlarge": zones[:1]}},
		"the largest is not offered": {offered: map[string][]string{"g5.xlarge": zones, "g5.2xlarge": zones}, want: []string{"g5.4xlarge"}},
		"no g5 is offered":           {offered: map[string][]string{"g4dn.xlarge": zones}, want: []string{"g5.2xlarge, g5.4xlarge, g5.xlarge"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, environment := range []string{"dev", "staging", "production"} {
				d, err := declared.Load(snapshot.FS, "clusters/"+environment, declared.Options{})
				if err != nil || len(d.Problems) > 0 {
					t.Fatalf("%v, %v", d.Problems, err)
				}
				known := published.Content{Offerings: &pricelist.List{Region: "ap-southeast-3", ZonesAt: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), Zones: test.offered}}
				var got []string
				for _, problem := range offeringlint.Check(d, types, known) {
					if problem.Code == "InstanceTypesNotOffered" && problem.Object.Name == "gpu" {
						text, _ := problem.Facts.Map()["instanceTypes"].(string)
						got = append(got, text)
					}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", environment, diff)
				}
			}
		})
	}
}
