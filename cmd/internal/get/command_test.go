package get

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/internal/golden"
)

func TestWhatArgumentsSelect(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want rowSelection
		err  string
	}{
		"nothing is all":           {},
		"a section":                {args: []string{"pools"}, want: rowSelection{section: sectionPools}},
		"as kubectl names it":      {args: []string{"NodePools"}, want: rowSelection{section: sectionPools}},
		"the singular":             {args: []string{"pr"}, want: rowSelection{section: sectionPulls}},
		"names":                    {args: []string{"nodes", "a", "b"}, want: rowSelection{section: sectionNodes, names: []string{"a", "b"}}},
		"a section that is none":   {args: []string{"pods"}, err: `"pods" is not one of syncs, pools, nodes, pullrequests, drift, quota`},
		"names of what has no one": {args: []string{"quota", "a"}, err: "get quota takes no names, and got: a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := selectionOf(test.args)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if len(got.names) == 0 {
				got.names = nil
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(rowSelection{})); diff != "" || err != nil {
				t.Errorf("selected (-want +got):\n%s, %v", diff, err)
			}
		})
	}
}

func TestRowsAreSelectedByName(t *testing.T) {
	r := NewReport(newObjects(), now(), types(t))
	missing := r.choose(rowSelection{section: sectionNodes, names: []string{"gpu-b", "ip-gpu-a", "other"}})
	var got []string
	for _, n := range r.Nodes {
		got = append(got, n.Name)
	}
	if strings.Join(got, " ") != "ip-gpu-a ip-gpu-b" || strings.Join(missing, " ") != "other" {
		t.Errorf("selected are %v, missing %v", got, missing)
	}
	r = NewReport(newObjects(), now(), types(t))
	if missing := r.choose(rowSelection{section: sectionSyncs, names: []string{"edge"}}); len(r.Syncs) != 1 || missing != nil {
		t.Errorf("selected are %+v, missing %v", r.Syncs, missing)
	}
}

// stage is what happens between two readings.
type stage func(*testing.T, client.Client)

// followed is what get -w prints while the stages happen.
func followed(t *testing.T, s sectionName, objects []client.Object, stages ...stage) string {
	t.Helper()
	return followedOf(t, rowSelection{section: s}, installed(t, objects...), stages...)
}

// followedOf is what get -w prints of a selection by a client while the stages happen.
func followedOf(t *testing.T, s rowSelection, kube client.Client, stages ...stage) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, warnings bytes.Buffer
	n := 0
	after := func(d time.Duration) <-chan time.Time {
		if d != watchInterval {
			t.Errorf("the next reading is after %s", d)
		}
		if n == len(stages) {
			cancel()
			return nil
		}
		stages[n](t, kube)
		n++
		elapsed := make(chan time.Time)
		close(elapsed)
		return elapsed
	}
	from := reportSource{kube: kube, types: types(t), now: now, rowSelection: s}
	if err := (&flags{}).follow(ctx, Environment{Out: &out, Err: &warnings, Now: now}, from, after); err != nil {
		t.Fatal(err)
	}
	return out.String() + warnings.String()
}

func TestWatchingPrintsWhatChanges(t *testing.T) {
	starts := claim("x", "gpu", "g5.xlarge", "on-demand", launching("InsufficientCapacity", ""))
	update := func(t *testing.T, kube client.Client, change func(*karpv1.NodeClaim)) {
		var c karpv1.NodeClaim
		if err := kube.Get(t.Context(), client.ObjectKey{Name: "x"}, &c); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := kube.Update(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
	}
	got := followed(t, sectionNodes, []client.Object{&starts},
		func(*testing.T, client.Client) {},
		func(t *testing.T, kube client.Client) {
			n := node("x", "1")
			if err := kube.Create(t.Context(), &n); err != nil {
				t.Fatal(err)
			}
			update(t, kube, func(c *karpv1.NodeClaim) {
				c.Status = claim("x", "gpu", "g5.xlarge", "on-demand").Status
				c.Labels["node.kubernetes.io/instance-type"] = "g5.xlarge"
			})
		},
		func(t *testing.T, kube client.Client) {
			n := node("x", "1")
			if err := errors.Join(kube.Delete(t.Context(), &starts), kube.Delete(t.Context(), &n)); err != nil {
				t.Fatal(err)
			}
		},
	)
	golden.Compare(t, "testdata/watch.golden", got)
}

func TestAnEmptyTableIsReportedOnceWhileWatching(t *testing.T) {
	got := followed(t, sectionSyncs, nil, func(*testing.T, client.Client) {}, func(t *testing.T, kube client.Client) {
		s := readySync("dev")
		if err := kube.Create(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
	})
	want := "NAME   READY   SUSPENDED   REVISION       DRIFTED   PENDING   AGE   MESSAGE\ndev    True    false       main@e15a32f   False     0         10d   applied revision main@sha1:e15a32f\nNo syncs found.\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestWatchingGoesOnAfterAFailureAndNamesWhatIsNotThere(t *testing.T) {
	var failure error
	kube := denying(t, func(client.ObjectList) error { return failure })
	fails := func(err error) stage { return func(*testing.T, client.Client) { failure = err } }
	got := followedOf(t, rowSelection{section: sectionSyncs, names: []string{"dev"}}, kube, fails(errors.New("etcd is full")), fails(errors.New("etcd is full")), fails(forbidden("syncs")), fails(nil),
		func(t *testing.T, kube client.Client) {
			s := readySync("dev")
			if err := kube.Create(t.Context(), &s); err != nil {
				t.Fatal(err)
			}
		}, fails(forbidden("syncs")), fails(nil))
	const denied = "Warning: you have no permission to list syncs.poolwright.dev; to check, run: kubectl auth can-i list syncs.poolwright.dev -A; nothing is printed until that can be read again\n"
	const warning = "Warning: listing syncs.poolwright.dev: etcd is full; nothing is printed until that can be read again\n"
	want := "NAME   READY   SUSPENDED   REVISION       DRIFTED   PENDING   AGE   MESSAGE\ndev    True    false       main@e15a32f   False     0         10d   applied revision main@sha1:e15a32f\n" +
		"Warning: not found in syncs: dev\n" + warning + denied
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestAgeAloneIsNoChange(t *testing.T) {
	row := func(age, pending string) *metav1.Table {
		tab := table("Name", "Age", "Pending", "*Objects")
		addRow(tab, "dev", age, pending, 1)
		return tab
	}
	if got := changedRows(row("1s", "0"), row("2s", "0")); len(got.Rows) > 0 {
		t.Errorf("changed are %v", got.Rows)
	}
	if got := changedRows(row("1s", "0"), row("2s", "1")); len(got.Rows) != 1 {
		t.Errorf("changed are %v", got.Rows)
	}
	if got := changedRows(row("1s", "0"), table("Name", "Age", "Pending", "*Objects")); got.Rows[0].Cells[2] != "Deleted" {
		t.Errorf("what is gone is %v", got.Rows)
	}
}

func TestTheCommandAgainstAServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"poolwright.dev","versions":[{"groupVersion":"poolwright.dev/v1alpha1","version":"v1alpha1"}]},{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}`))
		case "/apis/apps/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true,"verbs":["get"]}]}`))
		case "/apis/poolwright.dev/v1alpha1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"poolwright.dev/v1alpha1","resources":[{"name":"syncs","kind":"Sync","namespaced":true,"verbs":["list"]}]}`))
		case "/apis/poolwright.dev/v1alpha1/namespaces/gitops/syncs":
			_, _ = w.Write([]byte(`{"kind":"SyncList","apiVersion":"poolwright.dev/v1alpha1","items":[{"metadata":{"namespace":"gitops","name":"dev"}}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	for name, test := range map[string]struct {
		args          []string
		out, err, end string
	}{
		"a section":                {args: []string{"syncs", "-o", "name"}, out: "sync.poolwright.dev/dev\n"},
		"a name that nothing has":  {args: []string{"syncs", "dev", "prod", "-o", "name"}, out: "sync.poolwright.dev/dev\n", end: "not found in syncs: prod"},
		"a kind that is not there": {args: []string{"pools"}, end: "the cluster does not have the kind nodepools.karpenter.sh; to check the installation, run: poolwright check"},
		"nothing in a section":     {args: []string{"pulls"}, err: "No pullrequests found in namespace gitops.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, warnings bytes.Buffer
			cmd := NewCommand(Environment{
				Config:    func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil },
				Namespace: func() string { return "gitops" }, Out: &out, Err: &warnings, Now: now,
			})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetArgs(test.args)
			err := cmd.ExecuteContext(t.Context())
			if (err == nil) != (test.end == "") || err != nil && err.Error() != test.end {
				t.Errorf("error %v, want %q", err, test.end)
			}
			if out.String() != test.out || test.end == "" && warnings.String() != test.err {
				t.Errorf("stdout %q, stderr %q", out.String(), warnings.String())
			}
		})
	}
}
