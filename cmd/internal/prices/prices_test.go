package prices

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const (
	namespace = "poolwright-system"
	region    = "us-east-1"
)

// in is a Cluster in a region, of an account that is not known.
func in(region string) v1alpha1.ClusterSpec { return v1alpha1.ClusterSpec{Region: region} }

// publishedOf is a price list that a controller has published, in which g4dn.xlarge costs 0.9.
func publishedOf(region string) published.Content {
	at := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	return published.Content{
		Offerings: &pricelist.List{
			Region: region, OnDemand: map[string]float64{"g4dn.xlarge": 0.9}, OnDemandAt: at,
			Spot: map[string]map[string]float64{region + "a": {"g4dn.xlarge": 0.3}}, SpotAt: at,
			Zones: map[string][]string{"g4dn.xlarge": {region + "a"}}, ZonesAt: at,
		},
		CapacityReservations: map[string][]published.Reservation{"gpu": {{CapacityReservation: awsv1.CapacityReservation{ID: "cr-0123456789abcdef0"}}}},
	}
}

// cluster has the content as a ConfigMap; nil has none.
func cluster(t *testing.T, content *published.Content) client.WithWatch {
	t.Helper()
	build := fake.NewClientBuilder().WithScheme(scheme.Scheme)
	if content == nil {
		return build.Build()
	}
	for _, of := range []func(string) (*corev1.ConfigMap, error){content.ConfigMap, content.ReservationsConfigMap} {
		c, err := of(namespace)
		if err != nil {
			t.Fatal(err)
		}
		build.WithObjects(c)
	}
	return build.Build()
}

// anAccount is an AWS in which g4dn.xlarge costs 0.7, for which the environment has credentials; requests with a
// denied operation are refused.
func anAccount(t *testing.T, denied string) {
	t.Helper()
	cloud, err := sandboxaws.New(sandboxaws.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.SetPrice("g4dn.xlarge", "", 0.7); err != nil {
		t.Fatal(err)
	}
	if denied != "" {
		if _, err := cloud.Inject(sandboxaws.Fault{Operation: denied, Code: "AccessDeniedException", Status: 403}); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
}

// noAccount is an environment without credentials.
func noAccount(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(t.TempDir(), "none"), "AWS_CONFIG_FILE": filepath.Join(t.TempDir(), "none"), "AWS_ENDPOINT_URL": "",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "",
	} {
		t.Setenv(name, value)
	}
}

func TestTheAccountGoesBeforeWhatIsPublished(t *testing.T) {
	here, elsewhere := publishedOf(region), publishedOf("eu-west-1")
	for name, c := range map[string]struct {
		account   func(*testing.T)
		published *published.Content
		onDemand  float64 // 0 where it is not known
		spot      float64
		reported  bool
	}{
		"with credentials":                                {account: func(t *testing.T) { anAccount(t, "") }, published: &here, onDemand: 0.7},
		"with credentials that do not allow a part":       {account: func(t *testing.T) { anAccount(t, "GetProducts") }, published: &here, onDemand: 0.9},
		"without credentials":                             {account: noAccount, published: &here, onDemand: 0.9, spot: 0.3},
		"without credentials and without a published one": {account: noAccount, reported: true},
		"a published one of another region":               {account: noAccount, published: &elsewhere, reported: true},
		"a part that neither has":                         {account: func(t *testing.T) { anAccount(t, "GetProducts") }, reported: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.account(t)
			var progress bytes.Buffer
			s := &Source{Account: true, Cluster: cluster(t, c.published), Namespace: namespace, Progress: &progress}
			list := s.Offerings(t.Context(), in(region))
			if price, known := list.OnDemandPrice("g4dn.xlarge"); price.USDPerHour != c.onDemand || known != (c.onDemand > 0) {
				t.Errorf("on demand it is %v, %t", price.USDPerHour, known)
			}
			if price, _ := list.SpotPrice("g4dn.xlarge", region+"a"); c.spot > 0 && price.USDPerHour != c.spot {
				t.Errorf("on spot it is %v", price.USDPerHour)
			}
			if (progress.Len() > 0) != c.reported {
				t.Errorf("it reported %q", progress.String())
			}
			if reserved := s.Published(t.Context(), in(region)).CapacityReservations; len(reserved) > 0 && c.published != &here {
				t.Errorf("reservations of another region are %v", reserved)
			}
			if again := s.Offerings(t.Context(), in("eu-central-1")); again != nil {
				t.Errorf("another region has %v", again)
			}
		})
	}
}

func TestTheFlagNamesTheSource(t *testing.T) {
	noAccount(t)
	content := publishedOf(region)
	c, err := content.ConfigMap(namespace)
	if err != nil {
		t.Fatal(err)
	}
	reservations, err := content.ReservationsConfigMap(namespace)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := yaml.Marshal(corev1.ConfigMapList{Items: []corev1.ConfigMap{*c, *reservations}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	errNoCluster := errors.New("no cluster")
	for name, test := range map[string]struct {
		value    string
		cluster  func() (client.WithWatch, error)
		known    bool
		offline  bool
		err      error
		reported bool
		unusable bool // Err is an error
	}{
		"nothing":                   {offline: true, cluster: func() (client.WithWatch, error) { return nil, errNoCluster }},
		"a file needs no cluster":   {value: file, offline: true, known: true, cluster: func() (client.WithWatch, error) { return nil, errNoCluster }},
		"a file that is no list":    {value: empty, offline: true, unusable: true},
		"the cluster":               {value: "cluster", known: true, cluster: func() (client.WithWatch, error) { return cluster(t, &content), nil }},
		"a cluster that is not one": {value: "cluster", err: errNoCluster, cluster: func() (client.WithWatch, error) { return nil, errNoCluster }},
		"an account without keys":   {value: "aws", unusable: true},
		"a cluster without a list":  {value: "cluster", unusable: true, cluster: func() (client.WithWatch, error) { return cluster(t, nil), nil }},
	} {
		t.Run(name, func(t *testing.T) {
			var flag Flag
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			flag.AddTo(flags, "the shipped catalog")
			if err := flags.Parse([]string{"--prices=" + test.value}); err != nil {
				t.Fatal(err)
			}
			var progress bytes.Buffer
			s, err := flag.Source(test.cluster, namespace, &progress)
			if !errors.Is(err, test.err) || flag.Offline() != test.offline {
				t.Fatalf("offline %t, %v", flag.Offline(), err)
			}
			if (s == nil) != (test.value == "" || test.err != nil) {
				t.Fatalf("the source is %v", s)
			}
			if s == nil {
				return
			}
			if got := s.Published(t.Context(), in(region)); (got.Offerings != nil) != test.known || (len(got.CapacityReservations) > 0) != test.known {
				t.Errorf("it has %v", got)
			}
			if got := s.ClassReservations(t.Context(), in(region)); (len(got["gpu"]) == 1) != test.known {
				t.Errorf("the classes have %v", got)
			}
			if (progress.Len() > 0) != test.reported || (s.Err() != nil) != test.unusable {
				t.Errorf("it reported %q, %v", progress.String(), s.Err())
			}
		})
	}
}

func TestAValueThatIsNoFileIsRefused(t *testing.T) {
	for _, value := range []string{"AWS", "prices.yaml", t.TempDir()} {
		if s, err := (&Flag{value: value}).Source(nil, namespace, nil); err == nil {
			t.Errorf("%s is %v", value, s)
		}
	}
}

func TestAnotherAccountThanTheClustersIsNotRead(t *testing.T) {
	here := publishedOf(region)
	for name, c := range map[string]struct {
		account  string
		onDemand float64
		refused  bool
	}{
		"its own":                   {"000000000000", 0.7, false},
		"another":                   {"123456789012", 0.9, true},
		"one that is not known":     {"", 0.7, false},
		"one that holds a variable": {"${ACCOUNT}", 0.7, false},
	} {
		t.Run(name, func(t *testing.T) {
			anAccount(t, "")
			var progress bytes.Buffer
			s := &Source{Account: true, Cluster: cluster(t, &here), Namespace: namespace, Progress: &progress}
			of := v1alpha1.ClusterSpec{Region: region, Account: c.account}
			if price, _ := s.Offerings(t.Context(), of).OnDemandPrice("g4dn.xlarge"); price.USDPerHour != c.onDemand {
				t.Errorf("on demand it is %v", price.USDPerHour)
			}
			if _, err := s.CapacityReservations(t.Context(), of, nil); errors.Is(err, errAccount) != c.refused || err != nil && !c.refused {
				t.Error(err)
			}
			if (progress.Len() > 0) != c.refused {
				t.Errorf("it reported %q", progress.String())
			}
		})
	}
}

func TestWithoutCredentialsReservationsAreAnError(t *testing.T) {
	noAccount(t)
	if found, err := (&Source{Account: true}).CapacityReservations(t.Context(), in(region), nil); err == nil {
		t.Errorf("it has %v", found)
	}
}

// Who may read the prices and not the reservations has the prices, and a line about what is missing.
func TestReservationsThatMayNotBeReadAreReported(t *testing.T) {
	content := publishedOf(region)
	refused := interceptor.NewClient(cluster(t, &content), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if key.Name == published.ReservationsName {
				return apierrors.NewForbidden(corev1.Resource("configmaps"), key.Name, nil)
			}
			return c.Get(ctx, key, into, opts...)
		},
	})
	var progress bytes.Buffer
	s := &Source{Cluster: refused, Namespace: namespace, Progress: &progress}
	if got := s.Published(t.Context(), in(region)); got.Offerings == nil || got.CapacityReservations != nil {
		t.Errorf("it has %v", got)
	}
	if progress.Len() == 0 || s.Err() != nil {
		t.Errorf("it reported %q, %v", progress.String(), s.Err())
	}
}
