package offline

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/cmd/internal/prices"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// publishedFile is the file with the ConfigMap of a controller whose region offers no instance type but g5.xlarge.
func publishedFile(t *testing.T, region string) string {
	t.Helper()
	c, err := published.Content{Offerings: &pricelist.List{
		Region: region, Zones: map[string][]string{"g5.xlarge": {region + "a"}}, ZonesAt: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC),
	}}.ConfigMap("poolwright-system")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLintHoldsPoolsAgainstWhatTheRegionOffers(t *testing.T) {
	dir := folder(t, "a.yaml", reconcilertest.ClusterFile("dev", ""), "b.yaml", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: cpu}\nspec:\n  template:\n    spec:\n"+
		"      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: cpu}\n"+
		"      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.xlarge]}]\n")
	for name, c := range map[string]struct {
		source *prices.Source
		want   []finding.Code
	}{
		"of its region":            {&prices.Source{File: publishedFile(t, "eu-west-1")}, []finding.Code{"InstanceTypesNotOffered"}},
		"not of another region":    {&prices.Source{File: publishedFile(t, "eu-west-2")}, nil},
		"not without a price list": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			linted, err := LintWithPrices(t.Context(), dir, variables.Input{}, c.source)
			if err != nil {
				t.Fatal(err)
			}
			var got []finding.Code
			for _, p := range linted.Warnings {
				if p.Code == "InstanceTypesNotOffered" {
					got = append(got, p.Code)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(linted.Problems) > 0 {
				t.Errorf("(-want +got):\n%s, problems %v", diff, linted.Problems)
			}
		})
	}
}
