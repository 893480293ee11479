package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/provision/pricelist/published"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// priceList is the manifest of a ConfigMap with prices that were read at the time, in which g4dn.xlarge costs 0.9.
func priceList(t *testing.T, region string, at time.Time) string {
	t.Helper()
	content := published.Content{Offerings: &pricelist.List{
		Region: region, OnDemand: map[string]float64{"g4dn.xlarge": 0.9}, OnDemandAt: at,
		Spot: map[string]map[string]float64{region + "a": {"g4dn.xlarge": 0.3}}, SpotAt: at, Zones: map[string][]string{"g4dn.xlarge": {region + "a"}}, ZonesAt: at,
	}}
	c, err := content.ConfigMap("poolwright-system")
	if err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// The exit codes of --prices: 2 where nothing can be read of the source that the user names, or it is not the Cluster's.
func TestCostByOtherPrices(t *testing.T) {
	withoutCluster(t)
	cloud, err := sandboxaws.New(sandboxaws.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.SetPrice("g4dn.xlarge", "", 0.7); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "sandbox", "AWS_SECRET_ACCESS_KEY": "sandbox", "AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
	now, old := time.Now(), time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	of := func(account string) string {
		return strings.NewReplacer("REGION", "us-east-1", "111122223333", account).Replace(inIreland)
	}
	ours, other := of("000000000000"), of("111122223333")
	for name, c := range map[string]struct {
		cluster, prices string // prices is a file of the folder, or a value of the flag
		file            string
		code            int
		out             string // one that names the price, and the day on which it was read
		err             string
		old             bool
	}{
		"a file":                     {cluster: ours, prices: "prices.yaml", file: priceList(t, "us-east-1", now), out: "$0.9"},
		"a file has its date":        {cluster: ours, prices: "prices.yaml", file: priceList(t, "us-east-1", old), out: "2026-01-05", old: true},
		"an old file has a mark":     {cluster: ours, prices: "prices.yaml", file: priceList(t, "us-east-1", old), out: ", ≈:", old: true},
		"a file that is missing":     {cluster: ours, prices: "prices.yaml", code: exitError, err: "prices.yaml"},
		"a file that is no list":     {cluster: ours, prices: "prices.yaml", file: "kind: ConfigMap\n", code: exitError, err: "reading the prices and offerings of us-east-1"},
		"a file of another region":   {cluster: ours, prices: "prices.yaml", file: priceList(t, "eu-west-1", now), code: exitError, err: `that of "eu-west-1"`},
		"the account of the Cluster": {cluster: ours, prices: "aws", out: "$0.7"},
		"another account":            {cluster: other, prices: "aws", code: exitError, err: "111122223333"},
	} {
		t.Run(name, func(t *testing.T) {
			files := []string{"x/p.yaml", oldPool, "x/c.yaml", c.cluster, ".git", ""}
			if c.file != "" {
				files = append(files, "prices.yaml", c.file)
			}
			dir := folder(t, files...)
			value := c.prices
			if value != "aws" {
				value = filepath.Join(dir, value)
			}
			r := execute(t, "cost", filepath.Join(dir, "x"), "--prices="+value)
			if r.code != c.code || !strings.Contains(r.out, c.out) || !strings.Contains(r.err, c.err) || (c.code == exitSame && strings.Contains(r.out, "≈") != c.old) {
				t.Errorf("exit %d, want %d\n%s--- on standard error\n%s", r.code, c.code, r.out, r.err)
			}
		})
	}
}

// Without a flag that names a cluster, cost and lint make no request, whatever the kubeconfig of the environment.
func TestCostReadsThePublishedPricesOfTheClusterThatTheUserNames(t *testing.T) {
	list, err := yaml.YAMLToJSON([]byte(priceList(t, "us-east-1", time.Now())))
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	var isPublished atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api":
			fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case r.URL.Path == "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		case r.URL.Path == "/api/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get"]}]}`)
		case r.URL.Path == "/api/v1/namespaces/poolwright-system/configmaps/poolwright-price-list" && isPublished.Load():
			if _, err := w.Write(list); err != nil {
				t.Error(err)
			}
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
	}))
	t.Cleanup(server.Close)
	kubeconfig(t, server.URL)
	of := strings.NewReplacer("REGION", "us-east-1", "111122223333", "000000000000").Replace(inIreland)
	dir := filepath.Join(folder(t, "x/p.yaml", oldPool, "x/c.yaml", of, ".git", ""), "x")
	for _, c := range []struct {
		name      string
		args      []string
		published bool
		requested bool
		out       string
		reported  bool // that the catalog's count
		catalog   bool
	}{
		{name: "without a flag", args: []string{"cost", dir}, published: true, catalog: true},
		{name: "with its context", args: []string{"cost", dir, "--context", "prod"}, published: true, requested: true, out: "$0.9"},
		{name: "with a kubeconfig", args: []string{"cost", dir, "--kubeconfig", os.Getenv("KUBECONFIG")}, published: true, requested: true, out: "$0.9"},
		{name: "where nothing is published", args: []string{"cost", dir, "--context", "prod"}, requested: true, reported: true, catalog: true},
		{name: "lint is offline", args: []string{"lint", dir, "--context", "prod"}, published: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			requests.Store(0)
			isPublished.Store(c.published)
			r := execute(t, c.args...)
			if (requests.Load() > 0) != c.requested {
				t.Errorf("%d requests", requests.Load())
			}
			if r.code == exitError || !strings.Contains(r.out, c.out) || strings.Contains(r.out, "≈") != c.catalog || strings.Contains(r.err, "catalog") != c.reported {
				t.Errorf("exit %d\n%s--- on standard error\n%s", r.code, r.out, r.err)
			}
		})
	}
}
