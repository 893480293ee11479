package simulate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/log"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/simulate"
)

// onePool is a declaration of one NodePool with its EC2NodeClass, both of one name, and a Deployment for it.
func onePool(tb testing.TB, class, pool string, work *appsv1.Deployment) declaration {
	tb.Helper()
	d := declaration{}.clone()
	fleet := read(tb, class, pool)
	fleet.NodeClasses[0].Status = awsv1.EC2NodeClassStatus{}
	d.classes[fleet.NodeClasses[0].Name], d.pools[fleet.NodePools[0].Name], d.deployments[work.Name] = fleet.NodeClasses[0], fleet.NodePools[0], work
	return d
}

// withVolume is the declaration with volumes of so many GiB.
func (d declaration) withVolume(gibibytes int64) declaration {
	d = d.clone()
	for _, class := range d.classes {
		class.Spec.BlockDeviceMappings[0].EBS.VolumeSize = resource.NewQuantity(gibibytes<<30, resource.BinarySI)
	}
	return d
}

// TestAChangeOfAReservedPoolDoesWhatIsForecast changes the class of a pool whose nodes are in a capacity reservation, and then
// lets the time pass at which a Capacity Block ends.
func TestAChangeOfAReservedPoolDoesWhatIsForecast(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it runs Karpenter for some seconds")
	}
	log.SetLogger(logr.Discard())
	const pool, nodes = "reserved", 2
	for name, tt := range map[string]struct {
		of       sandboxaws.Reservation
		replaced int
	}{
		"an ODCR with an instance for a replacement":          {sandboxaws.Reservation{Type: "g4dn.xlarge", Total: nodes + 1}, nodes},
		"an ODCR that is full":                                {sandboxaws.Reservation{Type: "g4dn.xlarge", Total: nodes}, 0},
		"a Capacity Block with an instance for a replacement": {sandboxaws.Reservation{Type: "p5.4xlarge", Total: nodes + 1, CapacityBlock: true}, nodes},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLiveCluster(t, "p5")
			end := c.clock.Now().Add(24 * time.Hour).Truncate(time.Second).UTC()
			tt.of.Zone, tt.of.Targeted, tt.of.End = "us-east-1a", true, end
			id, err := c.amazon.AddReservation(tt.of)
			c.must(err)
			class := strings.Replace(fmt.Sprintf(randomClass, pool), "  role: nodes\n", "  role: nodes\n  capacityReservationSelectorTerms: [{id: "+id+"}]\n", 1)
			d := onePool(t, class, fmt.Sprintf(randomPool, pool, pool, pool, pool, karpv1.CapacityTypeReserved, "g4dn, p5"), randomDeployment("train", pool, nodes, "2", 1))
			c.apply(declaration{}, d)
			c.converge()
			c.areReserved(id, nodes)

			next := d.withVolume(60)
			before := c.snapshot(d)
			p := c.predict(before, c.changed(before, next))
			if len(p.forecast.Replaced) != nodes || len(p.gone) != tt.replaced {
				t.Errorf("the forecast replaces %d nodes, %v of them now", len(p.forecast.Replaced), p.gone)
			}
			for claim, all := range p.replacements {
				for _, s := range all {
					if s.CapacityType != karpv1.CapacityTypeReserved || s.InstanceType != tt.of.Type {
						t.Errorf("in the place of %s the forecast has %+v", claim, s)
					}
				}
			}
			sum := tally{otherTypes: map[string]int{}}
			c.compare(name, d, next, &sum)
			if sum.exact != 1 || sum.nodes != tt.replaced || sum.types != tt.replaced || sum.sameTypes != tt.replaced || sum.sameMoney != sum.money || sum.money != 1 {
				t.Errorf("forecast and Karpenter agree in %+v", sum)
			}
			c.areReserved(id, nodes)
			c.passesEnd(t, p.forecast, tt.of, provision.ReservationEnd{ID: id, Type: "default", Pools: []string{pool}, Nodes: nodes, End: end})
		})
	}
}

// areReserved fails the test where there are not so many nodes, each in the reservation.
func (c *liveCluster) areReserved(id string, nodes int) {
	c.Helper()
	claims := c.claims()
	for _, claim := range claims {
		if claim.Labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeReserved || claim.Labels[cloudprovider.ReservationIDLabel] != id {
			c.Errorf("NodeClaim %s is %s in %q", claim.Name, claim.Labels[karpv1.CapacityTypeLabelKey], claim.Labels[cloudprovider.ReservationIDLabel])
		}
	}
	if len(claims) != nodes {
		c.Fatalf("there are %d nodes, want %d:\n%s\n%s", len(claims), nodes, c.describe(), strings.Join(c.failures, "\n"))
	}
}

// passesEnd compares what a forecast has of the end of the reservation, as JSON, with EC2's, and with when Karpenter deletes the nodes.
func (c *liveCluster) passesEnd(t *testing.T, forecast provision.Forecast, of sandboxaws.Reservation, want provision.ReservationEnd) {
	t.Helper()
	leave := want.End.Add(-provision.CapacityBlockExpiration)
	left := want.Nodes
	if of.CapacityBlock {
		want.Type, want.NodesLeave, left = "capacity-block", leave, 0
	}
	text, err := json.Marshal(forecast)
	c.must(err)
	var printed struct{ ReservationEnds []provision.ReservationEnd }
	c.must(json.Unmarshal(text, &printed))
	if diff := cmp.Diff([]provision.ReservationEnd{want}, printed.ReservationEnds); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
	for _, step := range []struct {
		at    time.Time
		nodes int
	}{{leave.Add(-10 * time.Minute), want.Nodes}, {leave, left}} {
		c.clock.SetTime(step.at)
		_, err := c.expiration.Reconcile(c.ctx)
		c.must(err)
		staying := slices.DeleteFunc(c.claims(), func(claim *karpv1.NodeClaim) bool { return !claim.DeletionTimestamp.IsZero() })
		if len(staying) != step.nodes {
			t.Errorf("%s before the end %d nodes stay, want %d", want.End.Sub(step.at), len(staying), step.nodes)
		}
	}
	c.converge()
	if got := len(c.claims()); got != left {
		t.Errorf("there are %d nodes in the end, want %d:\n%s", got, left, c.describe())
	}
}

// TestWhatEC2RefusedIsNotForecast has EC2 refuse the cheapest instance type, of which Karpenter then launches no other.
func TestWhatEC2RefusedIsNotForecast(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it runs Karpenter for some seconds")
	}
	log.SetLogger(logr.Discard())
	const pool, cheapest = "cpu", "c6i.large"
	c := newLiveCluster(t)
	c.must(c.amazon.Refuse(sandboxaws.Offering{Type: cheapest, CapacityType: karpv1.CapacityTypeOnDemand}, "InsufficientInstanceCapacity"))
	d := onePool(t, fmt.Sprintf(randomClass, pool), fmt.Sprintf(randomPool, pool, pool, pool, pool, "on-demand", "m5, c6i"), randomDeployment("web", pool, 1, "1500m", 0))
	c.apply(declaration{}, d)
	c.converge()
	claims := c.claims()
	if len(claims) != 1 || claims[0].Labels[corev1.LabelInstanceTypeStable] == cheapest {
		t.Fatalf("EC2 did not refuse %s:\n%s\n%s", cheapest, c.describe(), strings.Join(c.failures, "\n"))
	}
	next := d.withVolume(60)
	before := c.snapshot(d)
	p := c.predict(before, c.changed(before, next))
	if got := p.replacements[claims[0].Name]; len(got) != 1 || got[0].InstanceType == cheapest {
		t.Errorf("the forecast has %v", got)
	}
	named := slices.ContainsFunc(p.forecast.Unknown, func(u provision.Unknown) bool {
		return u.Code == "OfferingsRefused" && u.Object == "NodePool/"+pool && strings.Contains(u.Text, cheapest)
	})
	if !named {
		t.Errorf("what EC2 refused is not among %+v", p.forecast.Unknown)
	}
	// A forecast that does not know has the cheapest.
	known := *before.Cluster.Offerings
	known.Refused = nil
	unaware := before
	unaware.Cluster.Offerings = &known
	if got := c.predict(unaware, c.changed(unaware, next)).replacements[claims[0].Name]; !slices.ContainsFunc(got, func(s simulate.Replacement) bool { return s.InstanceType == cheapest }) {
		t.Errorf("without what EC2 refused the forecast has %v", got)
	}
	sum := tally{otherTypes: map[string]int{}}
	c.compare("a volume", d, next, &sum)
	if sum.exact != 1 || sum.types != 1 || sum.sameTypes != 1 || sum.sameMoney != sum.money {
		t.Errorf("forecast and Karpenter agree in %+v", sum)
	}
}
