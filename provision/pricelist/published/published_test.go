package published_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
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

// both are the ConfigMaps of a content.
func both(t *testing.T, of published.Content) (prices, reservations *corev1.ConfigMap) {
	t.Helper()
	prices, err := of.ConfigMap(namespace)
	if err != nil {
		t.Fatal(err)
	}
	if reservations, err = of.ReservationsConfigMap(namespace); err != nil {
		t.Fatal(err)
	}
	return prices, reservations
}

func manifest(t *testing.T, of any) []byte {
	t.Helper()
	out, err := yaml.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatIsPublishedIsReadBack(t *testing.T) {
	prices, reservations := both(t, content(98.32))
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	of := func(objects ...corev1.ConfigMap) []byte {
		return manifest(t, corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: objects})
	}
	live := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(prices, reservations).Build()
	for name, c := range map[string]struct {
		read func() (published.Content, error)
		both bool
	}{
		"from the cluster": {read: func() (published.Content, error) { return published.Read(t.Context(), live, namespace) }},
		"reservations of the cluster, too": {both: true, read: func() (published.Content, error) {
			out, err := published.Read(t.Context(), live, namespace)
			if err != nil {
				return out, err
			}
			out.CapacityReservations, err = published.ReadReservations(t.Context(), live, namespace)
			return out, err
		}},
		"from its manifest": {read: func() (published.Content, error) { return published.ReadManifest(bytes.NewReader(manifest(t, prices))) }},
		"from a list of it": {read: func() (published.Content, error) { return published.ReadManifest(bytes.NewReader(of(*other, *prices))) }},
		"from a list": {both: true, read: func() (published.Content, error) {
			return published.ReadManifest(bytes.NewReader(of(*reservations, *prices)))
		}},
		"from the ConfigMap": {read: func() (published.Content, error) { return published.Of(prices) }},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			want := content(98.32)
			if !c.both {
				want.CapacityReservations = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := published.Read(t.Context(), live, "default"); !errors.Is(err, published.ErrAbsent) {
		t.Errorf("another namespace has %v", err)
	}
	if got, err := published.ReadReservations(t.Context(), live, "default"); got != nil || err != nil {
		t.Errorf("another namespace has the reservations %v, %v", got, err)
	}
	if got, err := published.ReadManifest(bytes.NewReader(of(*reservations))); err == nil {
		t.Errorf("a list without prices is %v", got)
	}
}

// Reservations are the account's own: who may read the prices may not have to read them.
func TestWhatEC2RefusedIsNotReadFromAConfigMap(t *testing.T) {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	of := content(98.32)
	of.Offerings.Refused = []pricelist.Refusal{{InstanceType: "[a link](https://example.org)", Zone: "eu-west-1a", CapacityType: "spot"}}
	if err := errors.Join(json.NewEncoder(w).Encode(of), w.Close()); err != nil {
		t.Fatal(err)
	}
	written, _ := both(t, content(98.32))
	for key := range written.BinaryData {
		written.BinaryData[key] = buffer.Bytes()
	}
	got, err := published.Of(written)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(published.Content{Offerings: list(98.32)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoReservationIsAmongThePrices(t *testing.T) {
	prices, reservations := both(t, content(98.32))
	for name, c := range map[string]struct {
		of   *corev1.ConfigMap
		want bool
	}{"the prices": {prices, false}, "the reservations": {reservations, true}} {
		for key, data := range c.of.BinaryData {
			r, err := gzip.NewReader(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Contains(plain, []byte(block().ID)); got != c.want {
				t.Errorf("%s have a reservation in %s: %t", name, key, got)
			}
		}
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
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			err := c.Delete(ctx, o, opts...)
			writes <- "delete " + o.GetName()
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
	p := &published.Publisher{Live: live, Cached: live, Namespace: namespace, Prices: true, Clock: clock, Log: logr.Discard(), Offerings: func() *pricelist.List {
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
	want := published.Content{Offerings: list(98.32)}
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

// running is a Publisher that publishes a list each time that one is given to tick, the first after ten seconds.
func running(t *testing.T, p *published.Publisher, live client.Client) (tick func(time.Duration, *pricelist.List)) {
	t.Helper()
	clock, lists := testingclock.NewFakeClock(at), make(chan *pricelist.List)
	p.Live, p.Cached, p.Namespace, p.Clock, p.Log = live, live, namespace, clock, logr.Discard()
	p.Offerings = func() *pricelist.List { return <-lists }
	go func() { _ = p.Start(t.Context()) }()
	return func(step time.Duration, list *pricelist.List) {
		t.Helper()
		for !clock.HasWaiters() {
			runtime.Gosched()
		}
		clock.Step(step)
		lists <- list
	}
}

func TestTheControllerPublishesWhatItReadsAndWritesNothingElse(t *testing.T) {
	writes := make(chan string, 10)
	foreign, err := content(1).ConfigMap("default")
	if err != nil {
		t.Fatal(err)
	}
	live := cluster(t, writes, foreign)
	tick := running(t, &published.Publisher{Prices: true}, live)
	unread := list(98.32)
	unread.SpotAt = time.Time{}
	for _, incomplete := range []*pricelist.List{nil, unread} {
		tick(10*time.Second, incomplete)
	}
	tick(10*time.Second, list(98.32))
	if got := <-writes; got != "create" {
		t.Errorf("%s", got)
	}
	refused := list(98.32) // as it is, but for what counts for minutes
	refused.Refused = []pricelist.Refusal{{InstanceType: "p5.48xlarge", Zone: "eu-west-1a", CapacityType: "spot", Code: "InsufficientInstanceCapacity", At: at}}
	tick(time.Hour, refused)
	tick(time.Hour, list(55))
	if got := <-writes; got != "update" {
		t.Errorf("%s", got)
	}
	got, err := published.Read(t.Context(), live, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(published.Content{Offerings: list(55)}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if reserved, err := published.ReadReservations(t.Context(), live, namespace); reserved != nil || err != nil {
		t.Errorf("nobody requested the reservations published, which are %v, %v", reserved, err)
	}
	if len(writes) > 0 {
		t.Errorf("%s besides", <-writes)
	}
}

func TestReservationsArePublishedApart(t *testing.T) {
	writes := make(chan string, 10)
	live := cluster(t, writes)
	running(t, &published.Publisher{Prices: true, Reservations: true}, live)(10*time.Second, list(98.32))
	for range 2 {
		if got := <-writes; got != "create" {
			t.Errorf("%s", got)
		}
	}
	got, err := published.ReadReservations(t.Context(), live, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(content(0).CapacityReservations, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsNotPublishedAnyMoreIsDeleted(t *testing.T) {
	prices, reservations := both(t, content(98.32))
	foreign := reservations.DeepCopy()
	foreign.Labels = nil
	unreadable := prices.DeepCopy()
	unreadable.BinaryData = nil
	for name, c := range map[string]struct {
		publisher published.Publisher
		read      *pricelist.List // by the engine
		before    []client.Object
		want      []string
	}{
		"reservations":                {published.Publisher{Prices: true}, list(98.32), []client.Object{prices, reservations}, []string{"delete " + published.ReservationsName}},
		"prices":                      {published.Publisher{Reservations: true}, list(98.32), []client.Object{prices, reservations}, []string{"delete " + published.Name}},
		"another's of the name":       {published.Publisher{Prices: true}, list(98.32), []client.Object{prices, foreign}, nil},
		"both before prices are read": {published.Publisher{}, nil, []client.Object{prices, reservations}, []string{"delete " + published.Name, "delete " + published.ReservationsName}},
		"what cannot be read":         {published.Publisher{Prices: true}, nil, []client.Object{unreadable}, []string{"delete " + published.Name}},
		"nothing that is published":   {published.Publisher{Prices: true, Reservations: true}, nil, []client.Object{prices, reservations}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			writes := make(chan string, 10)
			tick := running(t, &c.publisher, cluster(t, writes, copies(c.before...)...))
			tick(10*time.Second, c.read)
			tick(time.Hour, c.read) // The first is done.
			if diff := cmp.Diff(c.want, written(writes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// copies are objects of one's own: a client changes what it is made with.
func copies(of ...client.Object) []client.Object {
	var out []client.Object
	for _, o := range of {
		out = append(out, o.DeepCopyObject().(client.Object))
	}
	return out
}

func written(writes <-chan string) []string {
	var out []string
	for len(writes) > 0 {
		out = append(out, <-writes)
	}
	return out
}

// older is the ConfigMap of a controller that published both in one.
func older(t *testing.T, of published.Content) *corev1.ConfigMap {
	t.Helper()
	out, err := of.ConfigMap(namespace)
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	w := gzip.NewWriter(&data)
	if err := errors.Join(json.NewEncoder(w).Encode(of), w.Close()); err != nil {
		t.Fatal(err)
	}
	out.BinaryData = map[string][]byte{"price-list.json.gz": data.Bytes()}
	return out
}

// Where no engine runs nothing is read that could take the place of what was published.
func TestWithoutAnEngineNothingIsPublishedAndWhatIsOffIsDeleted(t *testing.T) {
	prices, reservations := both(t, content(98.32))
	for name, c := range map[string]struct {
		publisher published.Publisher
		before    []client.Object
		want      []string
	}{
		"what is on stays":                        {published.Publisher{Prices: true, Reservations: true}, []client.Object{prices, reservations}, nil},
		"reservations are off":                    {published.Publisher{Prices: true}, []client.Object{prices, reservations}, []string{"delete " + published.ReservationsName}},
		"both are off":                            {published.Publisher{}, []client.Object{prices, reservations}, []string{"delete " + published.Name, "delete " + published.ReservationsName}},
		"nothing was published":                   {published.Publisher{Prices: true, Reservations: true}, nil, nil},
		"reservations of before among the prices": {published.Publisher{Prices: true}, []client.Object{older(t, content(98.32))}, []string{"update"}},
	} {
		t.Run(name, func(t *testing.T) {
			writes, clock := make(chan string, 10), testingclock.NewFakeClock(at)
			live := cluster(t, writes, copies(c.before...)...)
			p := c.publisher
			p.Live, p.Cached, p.Namespace, p.Clock, p.Log = live, live, namespace, clock, logr.Discard()
			go func() { _ = p.Start(t.Context()) }()
			for _, step := range []time.Duration{10 * time.Second, time.Hour} {
				for !clock.HasWaiters() {
					runtime.Gosched()
				}
				clock.Step(step)
			}
			for !clock.HasWaiters() {
				runtime.Gosched()
			}
			if diff := cmp.Diff(c.want, written(writes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var left corev1.ConfigMap
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(prices), &left); err != nil {
				return // It is not to be there, which writes shows.
			}
			if diff := cmp.Diff(prices.BinaryData, left.BinaryData); diff != "" {
				t.Errorf("the prices are changed, or have reservations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAListOfWhichNothingWasReadIsNotPublished(t *testing.T) {
	before, _ := both(t, content(55))
	before.Namespace = "default"
	writes := make(chan string, 10)
	tick := running(t, &published.Publisher{Prices: true}, cluster(t, writes, before))
	for range 33 { // one more than the tries for a complete one, and the one after
		tick(time.Hour, &pricelist.List{Region: "eu-west-1"})
	}
	if got := written(writes); got != nil {
		t.Errorf("%v", got)
	}
}
