package published_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
)

const namespace = "poolwright-system"

var at = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

func list(usd float64) *pricelist.List {
	return &pricelist.List{
		Region: "eu-west-1", OnDemand: map[string]float64{"p5.48xlarge": usd}, OnDemandAt: at,
		Spot: map[string]map[string]float64{"eu-west-1a": {"p5.48xlarge": usd / 3}}, SpotAt: at,
		Zones: map[string][]string{"p5.48xlarge": {"eu-west-1a"}}, ZonesAt: at,
	}
}

func block() awsv1.CapacityReservation {
	return awsv1.CapacityReservation{
		ID: "cr-0123456789abcdef0", InstanceType: "p5.48xlarge", AvailabilityZone: "eu-west-1a",
		ReservationType: awsv1.CapacityReservationTypeCapacityBlock, EndTime: &metav1.Time{Time: at.Add(24 * time.Hour)},
	}
}

func content(usd float64) published.Content {
	return published.Content{Offerings: list(usd), CapacityReservations: map[string][]published.Reservation{"training": {{CapacityReservation: block(), Nodes: 2}}}}
}

func TestWhatIsPublishedIsReadBack(t *testing.T) {
	c, err := content(98.32).ConfigMap(namespace)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	live := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(c).Build()
	for name, read := range map[string]func() (published.Content, error){
		"from the cluster":   func() (published.Content, error) { return published.Read(t.Context(), live, namespace) },
		"from its manifest":  func() (published.Content, error) { return published.ReadManifest(bytes.NewReader(manifest)) },
		"from the ConfigMap": func() (published.Content, error) { return published.Of(c) },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(content(98.32), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := published.Read(t.Context(), live, "default"); !errors.Is(err, published.ErrAbsent) {
		t.Errorf("another namespace has %v", err)
	}
}

func TestAPriceListOfTwentyZonesFits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	big := &pricelist.List{Region: "us-east-1", OnDemand: map[string]float64{}, Spot: map[string]map[string]float64{}, Zones: map[string][]string{}, OnDemandAt: at, SpotAt: at, ZonesAt: at}
	for n := range 1500 {
		kind := "family" + strconv.Itoa(n) + ".xlarge"
		big.OnDemand[kind] = random.Float64() * 100
		for zone := range 20 {
			name := "us-east-1" + string(rune('a'+zone))
			if big.Spot[name] == nil {
				big.Spot[name] = map[string]float64{}
			}
			big.Spot[name][kind] = float64(random.IntN(1e6)) / 1e4 // EC2 has four digits
			big.Zones[kind] = append(big.Zones[kind], name)
		}
	}
	c, err := published.Content{Offerings: big}.ConfigMap(namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", c.Size())
}

func TestAPriceListThatDoesNotFitIsNotMade(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	big := &pricelist.List{OnDemand: map[string]float64{}}
	for range 100_000 {
		big.OnDemand[strconv.FormatUint(random.Uint64(), 36)] = random.Float64()
	}
	if _, err := (published.Content{Offerings: big}).ConfigMap(namespace); err == nil {
		t.Error("it was made")
	}
}

func TestWhatIsNoPriceListIsAnError(t *testing.T) {
	zip := func(text string) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	for name, data := range map[string]map[string][]byte{
		"no key":                nil,
		"not compressed":        {"price-list.json.gz": []byte("{}")},
		"cut off":               {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1"}}`)[:20]},
		"no JSON":               {"price-list.json.gz": zip("prices")},
		"no offerings":          {"price-list.json.gz": zip("{}")},
		"a region that is none": {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1\u001b[2J"}}`)},
		"no region":             {"price-list.json.gz": zip(`{"offerings":{}}`)},
		"a negative price":      {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1","onDemand":{"g5.xlarge":-1}}}`)},
		"a price of nothing":    {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1","spot":{"eu-west-1a":{"g5.xlarge":0}}}}`)},
		"a price beyond all":    {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1","onDemand":{"g5.xlarge":1e9}}}`)},
		"a type that is none":   {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1","zones":{"g5":["eu-west-1a"]}}}`)},
		"a long type":           {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1","onDemand":{"g` + strings.Repeat("5", 100) + `.xlarge":1}}}`)},
		"a zone that is none":   {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1","zones":{"g5.xlarge":["a\nb"]}}}`)},
		"a zone of spot prices": {"price-list.json.gz": zip(`{"offerings":{"region":"eu-west-1","spot":{"":{"g5.xlarge":1}}}}`)},
		"a bomb":                {"price-list.json.gz": zip(`{"offerings":{"region":"` + strings.Repeat("a", 17<<20) + `"}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := published.Of(&corev1.ConfigMap{BinaryData: data}); err == nil {
				t.Errorf("it is %.100v", got)
			}
		})
	}
	for name, manifest := range map[string]string{
		"an empty file":  "",
		"no object":      "- 1",
		"too large":      "a: " + strings.Repeat("a", 3<<20),
		"another object": "apiVersion: v1\nkind: Secret\ndata: {}",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := published.ReadManifest(strings.NewReader(manifest)); err == nil {
				t.Errorf("it is %v", got)
			}
		})
	}
}

// cluster is a cluster with a class in a Capacity Block, and two NodeClaims in it; writes counts what is written.
func cluster(t *testing.T, writes chan<- string, objects ...client.Object) client.Client {
	t.Helper()
	known := scheme.Scheme
	_ = awsapis.Group // registers the kinds
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "training"}}
	class.Status.CapacityReservations = []awsv1.CapacityReservation{block()}
	objects = append(objects, class, &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}})
	for _, name := range []string{"a", "b"} {
		objects = append(objects, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{cloudprovider.ReservationIDLabel: block().ID}}})
	}
	return fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			writes <- "create"
			return err
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			err := c.Update(ctx, o, opts...)
			writes <- "update"
			return err
		},
	}).Build()
}

// publish runs a Publisher with a list until it has tried to publish it once, and returns the ConfigMap.
func publish(t *testing.T, list *pricelist.List, before *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	clock, writes := testingclock.NewFakeClock(at), make(chan string, 10)
	live := cluster(t, writes, before)
	requested := make(chan struct{})
	p := &published.Publisher{Live: live, Cached: live, Namespace: namespace, Clock: clock, Log: logr.Discard(), Offerings: func() *pricelist.List {
		requested <- struct{}{}
		return list
	}}
	go func() { _ = p.Start(t.Context()) }()
	for range 32 { // one more than the tries for a complete one
		for !clock.HasWaiters() {
			runtime.Gosched()
		}
		clock.Step(time.Hour)
		<-requested
	}
	for !clock.HasWaiters() {
		runtime.Gosched()
	}
	var found corev1.ConfigMap
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(before), &found); err != nil {
		t.Fatal(err)
	}
	return &found
}

func TestAnIncompleteListKeepsWhatWasPublished(t *testing.T) {
	before, err := content(55).ConfigMap(namespace)
	if err != nil {
		t.Fatal(err)
	}
	incomplete := list(98.32)
	incomplete.SpotAt, incomplete.Spot, incomplete.ZonesAt, incomplete.Zones = time.Time{}, nil, time.Time{}, nil
	got, err := published.Of(publish(t, incomplete, before))
	if err != nil {
		t.Fatal(err)
	}
	want := content(98.32)
	want.Offerings.Spot = list(55).Spot
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAConfigMapOfAnotherOwnerIsNotOverwritten(t *testing.T) {
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: published.Name}, Data: map[string]string{"a": "b"}}
	if got := publish(t, list(98.32), foreign); got.Data["a"] != "b" || len(got.BinaryData) > 0 {
		t.Errorf("it is %v", got)
	}
}

func TestTheControllerPublishesWhatItReadsAndWritesNothingElse(t *testing.T) {
	clock, writes := testingclock.NewFakeClock(at), make(chan string, 10)
	foreign, err := content(1).ConfigMap("default")
	if err != nil {
		t.Fatal(err)
	}
	live := cluster(t, writes, foreign)
	lists := make(chan *pricelist.List)
	p := &published.Publisher{Live: live, Cached: live, Namespace: namespace, Clock: clock, Log: logr.Discard(), Offerings: func() *pricelist.List { return <-lists }}
	stopped := make(chan error, 1)
	go func() { stopped <- p.Start(t.Context()) }()
	tick := func(step time.Duration, list *pricelist.List) {
		t.Helper()
		for !clock.HasWaiters() {
			runtime.Gosched()
		}
		clock.Step(step)
		lists <- list
	}
	unread := list(98.32)
	unread.SpotAt = time.Time{}
	for _, incomplete := range []*pricelist.List{nil, unread} {
		tick(10*time.Second, incomplete)
	}
	tick(10*time.Second, list(98.32))
	if got := <-writes; got != "create" {
		t.Errorf("%s", got)
	}
	tick(time.Hour, list(98.32)) // as it is
	tick(time.Hour, list(55))
	if got := <-writes; got != "update" {
		t.Errorf("%s", got)
	}
	got, err := published.Read(t.Context(), live, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(content(55), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(writes) > 0 {
		t.Errorf("%s besides", <-writes)
	}
}
