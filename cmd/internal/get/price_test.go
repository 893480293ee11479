package get

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

func TestANodeThatIsRecordedHasItsOwnPriceInEverySum(t *testing.T) {
	usd := func(least, most float64) *USD { return &USD{Min: least, Max: most} }
	node := func(name, pool string, price *USD) Node {
		return Node{Name: name, NodeClaim: name, NodePool: pool, InstanceType: "g4dn.xlarge", USDPerHour: price}
	}
	spot := usd(0.05, 0.53)
	report := Report{
		Nodes:   []Node{node("a", "gpu", spot), node("b", "gpu", spot), node("c", "other", spot)},
		Pools:   []Pool{{Name: "gpu", Total: Total{Nodes: &NodeCounts{}, USDPerHour: usd(0.1, 1.06)}}, {Name: "other", Total: Total{Nodes: &NodeCounts{}, USDPerHour: spot}}, {Name: "unread"}},
		Summary: &Summary{Total: Total{Nodes: &NodeCounts{}, USDPerHour: usd(0.15, 1.59)}},
	}
	recorded := func(name string, price *float64) history.NodeClaim {
		return history.NodeClaim{Name: name, USDPerHour: price, PriceBasis: history.PriceList}
	}
	for i := range report.Nodes {
		report.Nodes[i].GPUs = GPUs{Allocatable: new(int64(2)), Requested: new(int64(1)), Idle: new(int64(1))}
	}
	gone := recorded("c", new(0.25))
	gone.Terminated = ago(0)
	for name, c := range map[string]struct {
		recorded []history.NodeClaim
		want     []*USD
	}{
		"nothing is recorded":        {nil, []*USD{spot, spot, spot, usd(0.1, 1.06), spot, nil, usd(0.15, 1.59)}},
		"records without a price":    {[]history.NodeClaim{recorded("a", nil)}, []*USD{spot, spot, spot, usd(0.1, 1.06), spot, nil, usd(0.15, 1.59)}},
		"the record of another node": {[]history.NodeClaim{gone}, []*USD{spot, spot, spot, usd(0.1, 1.06), spot, nil, usd(0.15, 1.59)}},
		"each node of a pool":        {[]history.NodeClaim{recorded("a", new(0.25)), recorded("b", new(0.5))}, []*USD{usd(0.25, 0.25), usd(0.5, 0.5), spot, usd(0.75, 0.75), spot, nil, usd(0.8, 1.28)}},
		"all nodes":                  {[]history.NodeClaim{recorded("a", new(0.25)), recorded("b", new(0.5)), recorded("c", new(0.25))}, []*USD{usd(0.25, 0.25), usd(0.5, 0.5), usd(0.25, 0.25), usd(0.75, 0.75), usd(0.25, 0.25), nil, usd(1, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			report.Summary.IdleUSDPerHour = report.IdleUSD()
			r := report.Priced(history.History{NodeClaims: c.recorded})
			var got []*USD
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

func TestWhereTheHistoryCannotBeReadThePricesAreTheCatalogs(t *testing.T) {
	one, pool := claim("x", "gpu", "g4dn.xlarge", "on-demand"), nodePool("gpu")
	denied := func(err error) client.Client {
		return interceptor.NewClient(installed(t, &one, &pool), interceptor.Funcs{
			Get: func(ctx context.Context, kube client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if _, is := object.(*corev1.ConfigMap); is {
					return err
				}
				return kube.Get(ctx, key, object, options...)
			},
		})
	}
	for name, test := range map[string]struct {
		section sectionName
		err     error
		unread  []string
		warning string
	}{
		"a permission that is missing":    {sectionNodes, forbidden("configmaps"), []string{"configmaps Forbidden"}, "Warning: the history, which has the recorded prices of nodes: you have no permission to get configmaps in the namespace poolwright-system; to check, run: kubectl auth can-i get configmaps -n poolwright-system\n"},
		"a failure":                       {sectionPools, errors.New("etcd\x1b is full"), []string{"configmaps Failed"}, "Warning: the history, which has the recorded prices of nodes: reading ConfigMap poolwright-system/poolwright-history: etcd\\x1b is full\n"},
		"a section that has no prices":    {sectionSyncs, forbidden("configmaps"), nil, "No syncs found.\n"},
		"a namespace without any history": {sectionNodes, apierrors.NewNotFound(corev1.Resource("configmaps"), "poolwright-history"), nil, ""},
		"all sections, and no permission": {sectionAll, forbidden("configmaps"), []string{"configmaps Forbidden"}, "Warning: the history, which has the recorded prices of nodes: you have no permission to get configmaps in the namespace poolwright-system; to check, run: kubectl auth can-i get configmaps -n poolwright-system\n"},
	} {
		t.Run(name, func(t *testing.T) {
			from := reportSource{kube: denied(test.err), types: types(t), now: now, historyNamespace: "poolwright-system", rowSelection: rowSelection{section: test.section}}
			r, _, err := from.report(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var unread []string
			for _, u := range r.IncompleteKinds {
				unread = append(unread, u.Kind+" "+u.Reason)
			}
			if diff := cmp.Diff(test.unread, unread); diff != "" {
				t.Errorf("not read are (-want +got):\n%s", diff)
			}
			if test.section != sectionSyncs && r.Nodes[0].USDPerHour.String() != "0.53" {
				t.Errorf("the node costs %s", r.Nodes[0].USDPerHour)
			}
			var warnings bytes.Buffer
			if err := reportUnread(&warnings, r, from); err != nil || warnings.String() != test.warning {
				t.Errorf("stderr %q, %v", warnings.String(), err)
			}
		})
	}
}

// That nothing can be read is an error by the kinds of the report, whatever becomes of the history.
func TestTheHistoryIsNoKindOfTheReport(t *testing.T) {
	pool := nodePool("gpu")
	for name, test := range map[string]struct {
		listed bool
		err    error
	}{
		"no kind, and no history":       {false, forbidden("configmaps")},
		"no kind, and a history":        {false, nil},
		"one kind only, and no history": {true, forbidden("configmaps")},
	} {
		t.Run(name, func(t *testing.T) {
			kube := interceptor.NewClient(installed(t, &pool), interceptor.Funcs{
				List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, is := list.(*karpv1.NodePoolList); is && test.listed {
						return kube.List(ctx, list, options...)
					}
					return forbidden("all")
				},
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return test.err
				},
			})
			from := reportSource{kube: kube, types: types(t), now: now, historyNamespace: "poolwright-system"}
			r, _, err := from.report(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := reportUnread(io.Discard, r, from); (err == nil) != test.listed {
				t.Errorf("the report is of %+v, %v", r.IncompleteKinds, err)
			}
		})
	}
}
