package page

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/history"
)

func TestANodeThatIsRecordedHasItsOwnPriceInEverySum(t *testing.T) {
	node := func(name, pool string, price *get.USD) get.Node {
		return get.Node{Name: name, NodeClaim: name, NodePool: pool, InstanceType: "g4dn.xlarge", USDPerHour: price}
	}
	spot := usd(0.05, 0.53)
	report := get.Report{
		Nodes:   []get.Node{node("a", "gpu", spot), node("b", "gpu", spot), node("c", "other", spot)},
		Pools:   []get.Pool{{Name: "gpu", Total: get.Total{Nodes: &get.NodeCounts{}, USDPerHour: usd(0.1, 1.06)}}, {Name: "other", Total: get.Total{Nodes: &get.NodeCounts{}, USDPerHour: spot}}, {Name: "unread"}},
		Summary: &get.Summary{Total: get.Total{Nodes: &get.NodeCounts{}, USDPerHour: usd(0.15, 1.59)}},
	}
	recorded := func(name string, price *float64) history.NodeClaim {
		return history.NodeClaim{Name: name, USDPerHour: price, PriceBasis: history.PriceList}
	}
	for i := range report.Nodes {
		report.Nodes[i].GPUs = gpus(2, 1, 1)
	}
	gone := recorded("c", new(0.25))
	gone.Terminated = ago(0)
	for name, c := range map[string]struct {
		recorded []history.NodeClaim
		want     []*get.USD
	}{
		"nothing is recorded":        {nil, []*get.USD{spot, spot, spot, usd(0.1, 1.06), spot, nil, usd(0.15, 1.59)}},
		"records without a price":    {[]history.NodeClaim{recorded("a", nil)}, []*get.USD{spot, spot, spot, usd(0.1, 1.06), spot, nil, usd(0.15, 1.59)}},
		"the record of another node": {[]history.NodeClaim{gone}, []*get.USD{spot, spot, spot, usd(0.1, 1.06), spot, nil, usd(0.15, 1.59)}},
		"each node of a pool":        {[]history.NodeClaim{recorded("a", new(0.25)), recorded("b", new(0.5))}, []*get.USD{usd(0.25, 0.25), usd(0.5, 0.5), spot, usd(0.75, 0.75), spot, nil, usd(0.8, 1.28)}},
		"all nodes":                  {[]history.NodeClaim{recorded("a", new(0.25)), recorded("b", new(0.5)), recorded("c", new(0.25))}, []*get.USD{usd(0.25, 0.25), usd(0.5, 0.5), usd(0.25, 0.25), usd(0.75, 0.75), usd(0.25, 0.25), nil, usd(1, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			report.Summary.IdleUSDPerHour = report.IdleUSD()
			r := Priced(report, history.History{NodeClaims: c.recorded})
			var got []*get.USD
			for _, n := range r.Nodes {
				got = append(got, n.USDPerHour)
			}
			for _, p := range r.Pools {
				got = append(got, p.USDPerHour)
			}
			if diff := cmp.Diff(c.want, append(got, r.Summary.USDPerHour)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if all, idle := r.Summary.USDPerHour, r.Summary.IdleUSDPerHour; math.Abs(idle.Max-all.Max/2) > 0.01 || math.Abs(idle.Min-all.Min/2) > 0.01 {
				t.Errorf("of %v, %v is idle, want half", all, idle)
			}
			if report.Nodes[0].USDPerHour != spot || report.Summary.USDPerHour.Max != 1.59 || report.Pools[0].USDPerHour.Max != 1.06 {
				t.Error("the report that was passed has changed")
			}
		})
	}
}
