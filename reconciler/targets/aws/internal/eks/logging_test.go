package eks

import (
	"errors"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

func newLoggingLife(t *testing.T, change func(*sandboxaws.Config), types ...v1alpha1.LogType) *kindtest.Fixture {
	t.Helper()
	return kindtest.NewFixture(t, Logging{}, func(c *sandboxaws.Config) {
		c.Cluster.Endpoint = "https://127.0.0.1:6443"
		if change != nil {
			change(c)
		}
	}, v1alpha1.ClusterSpec{Logging: &v1alpha1.Logging{Adopt: true, Types: types}})
}

func setLogging(l *kindtest.Fixture, on []ekstypes.LogType, off ...ekstypes.LogType) {
	l.Helper()
	setups := []ekstypes.LogSetup{{Enabled: sdk.Bool(true), Types: on}, {Enabled: sdk.Bool(false), Types: off}}
	l.Do(l.Clients.EKS.UpdateClusterConfig(l.Context(), &eks.UpdateClusterConfigInput{
		Name: sdk.String("sandbox"), Logging: &ekstypes.Logging{ClusterLogging: setups},
	}))
}

func TestLoggingIsTurnedOnAndPutRightWhereItIsBroken(t *testing.T) {
	l := newLoggingLife(t, nil, "audit", "api")
	if observed := l.ReadOne(l.Items()[0]); observed.Ours || !strings.HasPrefix(observed.UID, "arn:aws:eks:us-east-1:000000000000:cluster/sandbox#") {
		t.Errorf("ours %v, uid %s", observed.Ours, observed.UID)
	}
	l.Converge()
	l.Requests(map[string]int{"DescribeCluster": 1})
	l.Deny("eks", "DescribeCluster")
	l.Break("one type off", func() { setLogging(l, []ekstypes.LogType{"api"}, "audit") })
	l.Break("one type more", func() { setLogging(l, []ekstypes.LogType{"scheduler"}) })
	l.Break("all on", func() { setLogging(l, ekstypes.LogType("").Values()) })
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Logging.Types = []v1alpha1.LogType{} })
	l.Converge()
	if got := l.ReadOne(l.Items()[0]).Object["types"]; !state.Equal(got, []any{}) {
		t.Errorf("%v are on", got)
	}
}

func TestLoggingWithoutTypesIsNotCompared(t *testing.T) {
	l := newLoggingLife(t, nil)
	if got := l.Items(); len(got) > 0 {
		t.Errorf("it wants %v", kindtest.Names(got))
	}
}

func TestLoggingIsPendingWhileEKSIsAtIt(t *testing.T) {
	l := newLoggingLife(t, func(c *sandboxaws.Config) { c.Delays.Update = time.Hour }, "api")
	item := l.Items()[0]
	if err := l.Write(t.Context(), l.Clients, item, l.ReadOne(item)); err != nil {
		t.Fatal(err)
	}
	observed := l.ReadOne(item)
	if observed.Pending == "" {
		t.Error("nothing is pending")
	}
	err := l.Write(t.Context(), l.Clients, item, observed)
	if err == nil || awserr.Exists(err) || !strings.Contains(err.Error(), "at another update") {
		t.Errorf("a second update: %v", err)
	}
}

func TestAnUpdateThatChangesNothingIsNoError(t *testing.T) {
	l := newLoggingLife(t, nil, "api")
	l.Converge()
	item := l.Items()[0]
	if err := l.Write(t.Context(), l.Clients, item, l.ReadOne(item)); err != nil {
		t.Error(err)
	}
	refused := &ekstypes.InvalidParameterException{Message: sdk.String("The log type 'x' is not known")}
	if err := updated(refused); !errors.Is(err, refused) {
		t.Errorf("another refusal became %v", err)
	}
}

func TestLogTypesInAnyFormAreRead(t *testing.T) {
	on, off := sdk.Bool(true), sdk.Bool(false)
	for name, tt := range map[string]struct {
		logging *ekstypes.Logging
		want    []any
	}{
		"no logging":       {nil, []any{}},
		"no entries":       {&ekstypes.Logging{}, []any{}},
		"only what is off": {&ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: off, Types: []ekstypes.LogType{"api"}}}}, []any{}},
		"without a result": {&ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Types: []ekstypes.LogType{"api"}}}}, []any{}},
		"in several entries, one twice": {&ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{
			{Enabled: on, Types: []ekstypes.LogType{"scheduler", "api"}}, {Enabled: on, Types: []ekstypes.LogType{"api"}},
		}}, []any{"api", "scheduler"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, resource.Strings(logTypes(&ekstypes.Cluster{Logging: tt.logging}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoggingSurvivesTheDeathOfItsWriter(t *testing.T) {
	kindtest.Survives(t, func(t *testing.T) *kindtest.Fixture { return newLoggingLife(t, nil, "api") })
}

// noClusterSpec declares everything that EKS reports of a cluster.
func noClusterSpec() v1alpha1.ClusterSpec {
	return v1alpha1.ClusterSpec{
		Version: "1.33", Logging: &v1alpha1.Logging{Types: []v1alpha1.LogType{"api"}}, Addons: []v1alpha1.Addon{{Name: "vpc-cni"}},
		ManagedNodeGroups: []v1alpha1.ManagedNodeGroup{{Name: "system", InstanceTypes: []string{"t3.small"}}},
	}
}

func TestAClusterThatDoesNotExistIsMissedWithWhatToCorrect(t *testing.T) {
	for _, k := range []resource.Kind{Logging{}, Version{}, Addons{}, NodeGroups{}, NodeGroupHardware{}} {
		l := kindtest.NewFixture(t, k, nil, noClusterSpec())
		l.Clients.Scope.Cluster, l.Declared.Cluster, l.Declared.Spec.Name = "other", "other", "other"
		_, hardware := k.(NodeGroupHardware)
		for key, observed := range l.ReadAll() {
			reports := strings.Contains(observed.Missing, `no cluster "other" in us-east-1 of account 000000000000: correct spec.name`)
			if reports == hardware || observed.Superseded != hardware || observed.Err != nil || observed.Object != nil {
				t.Errorf("%s: %+v", key, observed)
			}
		}
		if len(l.ReadAll()) == 0 {
			t.Errorf("%T tells nothing", k)
		}
	}
}

func TestOneObservationReadsEachResourceOnce(t *testing.T) {
	spec := noClusterSpec()
	l := kindtest.NewFixture(t, Logging{}, kindtest.SystemGroup, spec)
	before := len(l.Cloud.Calls())
	one := l.Clients.Cached()
	for _, k := range []resource.Kind{Logging{}, Version{}, Addons{}, NodeGroups{}, NodeGroupHardware{}} {
		var keys []state.Key
		for _, item := range k.Desired(l.Declared) {
			keys = append(keys, item.Key)
		}
		k.Read(t.Context(), one, keys)
	}
	if diff := cmp.Diff(map[string]int{"DescribeCluster": 1, "DescribeAddon": 1, "DescribeNodegroup": 1}, l.Calls(before)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
