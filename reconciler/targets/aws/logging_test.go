package aws

import (
	"errors"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	sandbox "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

func newLoggingLife(t *testing.T, change func(*sandbox.Config), types ...v1alpha1.LogType) *life {
	t.Helper()
	return newLife(t, loggings{}, func(c *sandbox.Config) {
		c.Cluster.Endpoint = "https://127.0.0.1:6443"
		if change != nil {
			change(c)
		}
	}, v1alpha1.ClusterSpec{Logging: &v1alpha1.Logging{Adopt: true, Types: types}})
}

func (l *life) setLogging(on []ekstypes.LogType, off ...ekstypes.LogType) {
	l.Helper()
	setups := []ekstypes.LogSetup{{Enabled: sdk.Bool(true), Types: on}, {Enabled: sdk.Bool(false), Types: off}}
	l.do(l.c.eks.UpdateClusterConfig(l.Context(), &eks.UpdateClusterConfigInput{
		Name: sdk.String("sandbox"), Logging: &ekstypes.Logging{ClusterLogging: setups},
	}))
}

func TestLoggingIsTurnedOnAndPutRightWhereItIsBroken(t *testing.T) {
	l := newLoggingLife(t, nil, "audit", "api")
	if seen := l.see(l.wanted()[0]); seen.ours || !strings.HasPrefix(seen.uid, "arn:aws:eks:us-east-1:000000000000:cluster/sandbox#") {
		t.Errorf("ours %v, uid %s", seen.ours, seen.uid)
	}
	l.settle()
	l.asks(map[string]int{"DescribeCluster": 1})
	l.denied("eks", "DescribeCluster")
	l.broken("one type off", func() { l.setLogging([]ekstypes.LogType{"api"}, "audit") })
	l.broken("one type more", func() { l.setLogging([]ekstypes.LogType{"scheduler"}) })
	l.broken("all on", func() { l.setLogging(ekstypes.LogType("").Values()) })
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Logging.Types = []v1alpha1.LogType{} })
	l.settle()
	if got := l.see(l.wanted()[0]).object["types"]; !state.Equal(got, []any{}) {
		t.Errorf("%v are on", got)
	}
}

func TestLoggingWithoutTypesIsNotCompared(t *testing.T) {
	l := newLoggingLife(t, nil)
	if got := l.wanted(); len(got) > 0 {
		t.Errorf("it wants %v", names(got))
	}
}

func TestLoggingIsPendingWhileEKSIsAtIt(t *testing.T) {
	l := newLoggingLife(t, func(c *sandbox.Config) { c.Delays.Update = time.Hour }, "api")
	item := l.wanted()[0]
	if err := l.write(t.Context(), l.c, item, l.see(item)); err != nil {
		t.Fatal(err)
	}
	seen := l.see(item)
	if seen.pending == "" {
		t.Error("nothing is pending")
	}
	err := l.write(t.Context(), l.c, item, seen)
	if err == nil || exists(err) || !strings.Contains(err.Error(), "at another update") {
		t.Errorf("a second update: %v", err)
	}
}

func TestAnUpdateThatChangesNothingIsNoError(t *testing.T) {
	l := newLoggingLife(t, nil, "api")
	l.settle()
	item := l.wanted()[0]
	if err := l.write(t.Context(), l.c, item, l.see(item)); err != nil {
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
		"no logging":        {nil, []any{}},
		"no entries":        {&ekstypes.Logging{}, []any{}},
		"only what is off":  {&ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: off, Types: []ekstypes.LogType{"api"}}}}, []any{}},
		"without a verdict": {&ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Types: []ekstypes.LogType{"api"}}}}, []any{}},
		"in several entries, one twice": {&ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{
			{Enabled: on, Types: []ekstypes.LogType{"scheduler", "api"}}, {Enabled: on, Types: []ekstypes.LogType{"api"}},
		}}, []any{"api", "scheduler"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, strs(logTypes(&ekstypes.Cluster{Logging: tt.logging}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoggingSurvivesTheDeathOfItsWriter(t *testing.T) {
	survives(t, func(t *testing.T) *life { return newLoggingLife(t, nil, "api") })
}

// noClusterSpec declares everything that EKS reports of a cluster.
func noClusterSpec() v1alpha1.ClusterSpec {
	return v1alpha1.ClusterSpec{
		Version: "1.33", Logging: &v1alpha1.Logging{Types: []v1alpha1.LogType{"api"}}, Addons: []v1alpha1.Addon{{Name: "vpc-cni"}},
		SystemNodeGroups: []v1alpha1.SystemNodeGroup{{Name: "system", InstanceTypes: []string{"t3.small"}}},
	}
}

func TestAClusterThatDoesNotExistIsMissedWithWhatToCorrect(t *testing.T) {
	for _, k := range []kind{loggings{}, versions{}, addons{}, nodeGroups{}, nodeGroupHardwares{}} {
		l := newLife(t, k, nil, noClusterSpec())
		l.c.place.Cluster, l.scope.Cluster, l.scope.spec.Name = "other", "other", "other"
		_, hardware := k.(nodeGroupHardwares)
		for key, seen := range l.look() {
			tells := strings.Contains(seen.missing, `no cluster "other" in us-east-1 of account 000000000000: correct spec.name`)
			if tells == hardware || seen.moot != hardware || seen.err != nil || seen.object != nil {
				t.Errorf("%s: %+v", key, seen)
			}
		}
		if len(l.look()) == 0 {
			t.Errorf("%T tells nothing", k)
		}
	}
}

func TestOneLookAsksForEachThingOnce(t *testing.T) {
	spec := noClusterSpec()
	l := newLife(t, loggings{}, systemGroup, spec)
	before := len(l.cloud.Calls())
	one := l.c.caching()
	for _, k := range []kind{loggings{}, versions{}, addons{}, nodeGroups{}, nodeGroupHardwares{}} {
		var keys []state.Key
		for _, item := range k.want(l.scope) {
			keys = append(keys, item.Key)
		}
		k.read(t.Context(), one, keys)
	}
	if diff := cmp.Diff(map[string]int{"DescribeCluster": 1, "DescribeAddon": 1, "DescribeNodegroup": 1}, l.calls(before)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
