package monitoring

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

// alertCases have for each alert series, a minute between their samples, by which it fires at the end, and others by which
// it does not.
var alertCases = []struct {
	alert, name, series string
	// fires are the labels of those that fire.
	fires []string
}{
	{"PoolwrightNoLeader", "no replica leads for five minutes", `leader_election_master_status{name="poolwright",instance="a"} 0x5`, []string{`{}`}},
	{"PoolwrightNoLeader", "nothing is scraped", `up 0x5`, []string{`{}`}},
	{"PoolwrightNoLeader", "a replica leads, and another does not", "leader_election_master_status{name=\"poolwright\",instance=\"a\"} 0x6\nleader_election_master_status{name=\"poolwright\",instance=\"b\"} 1x6", nil},
	{"PoolwrightNoLeader", "the lease moves within four minutes", "leader_election_master_status{name=\"poolwright\",instance=\"a\"} 1 0x5\nleader_election_master_status{name=\"poolwright\",instance=\"b\"} 0x4 1", nil},
	{"PoolwrightNoLeader", "only another controller leads", `leader_election_master_status{name="cert-manager"} 1x5`, []string{`{}`}},

	{"PoolwrightSyncNotReady", "one of two Syncs is not ready for 15 minutes", "poolwright_sync_ready{sync=\"dev\"} 0x15\npoolwright_sync_ready{sync=\"gpu\"} 1x15", []string{`{__name__="poolwright_sync_ready", sync="dev"}`}},
	{"PoolwrightSyncNotReady", "it is ready for a moment in between", `poolwright_sync_ready{sync="dev"} 0x10 1 0x10`, nil},
	{"PoolwrightSyncNotReady", "it was deleted", `poolwright_sync_ready{sync="dev"} 0x20 stale`, nil},

	{"PoolwrightDriftNotCorrected", "an object differs for an hour", `poolwright_sync_drifted_objects{sync="dev"} 1x60`, []string{`{__name__="poolwright_sync_drifted_objects", sync="dev"}`}},
	{"PoolwrightDriftNotCorrected", "it is as in Git before the hour ends", `poolwright_sync_drifted_objects{sync="dev"} 1x58 0`, nil},

	{"PoolwrightObjectsUnknown", "AWS refuses to have something read for 15 minutes", "poolwright_sync_unknown_objects{sync=\"dev\",target=\"aws\"} 2x15\npoolwright_sync_unknown_objects{sync=\"dev\",target=\"cluster\"} 0x15", []string{`{sync="dev", target="aws"}`}},
	{"PoolwrightObjectsUnknown", "everything can be read", `poolwright_sync_unknown_objects{sync="dev",target="aws"} 0x15`, nil},

	{"PoolwrightForgeErrors", "the token is refused each minute", `poolwright_forge_errors_total{sync="dev",reason="Unauthorized"} 0+1x30`, []string{`{reason="Unauthorized", sync="dev"}`}},
	// As limits.Backoff has them in the end.
	{"PoolwrightForgeErrors", "the token has been refused for hours, every five minutes", `poolwright_forge_errors_total{sync="dev",reason="Unauthorized"} ` + rises(5, 40), []string{`{reason="Unauthorized", sync="dev"}`}},
	{"PoolwrightForgeErrors", "the forge limits the rate", `poolwright_forge_errors_total{sync="dev",reason="RateLimited"} 0+10x30`, nil},
	{"PoolwrightForgeErrors", "it failed four times", `poolwright_forge_errors_total{sync="dev",reason="ForgeUnavailable"} 0x20 1 2 3 4x6`, nil},

	// As TestAnObjectThatIsAlwaysChangedIsCorrectedEveryHalfHourInTheEnd has them.
	{"PoolwrightDriftRecurring", "two managers overwrite one object for an hour", `poolwright_changes_total{sync="dev",action="update",cause="drift",result="applied"} 0 3 4x1 5x3 6x7 7x15 8x29 9x30`, []string{`{sync="dev"}`}},
	{"PoolwrightDriftRecurring", "they have done so for a week", `poolwright_changes_total{sync="dev",action="update",cause="drift",result="applied"} ` + rises(30, 7*48), []string{`{sync="dev"}`}},
	{"PoolwrightDriftRecurring", "revisions change many objects", `poolwright_changes_total{sync="dev",action="update",cause="revision",result="applied"} 0+10x60`, nil},
	{"PoolwrightDriftRecurring", "somebody edited three objects by hand", `poolwright_changes_total{sync="dev",action="update",cause="drift",result="applied"} 0x30 3x30`, nil},

	{"PoolwrightGPUPoolBackoff", "no node is launched for another hour", fmt.Sprintf(`poolwright_gpu_pool_backoff_end_timestamp_seconds{nodepool="gpu"} %dx2`, start.Add(time.Hour).Unix()), []string{`{__name__="poolwright_gpu_pool_backoff_end_timestamp_seconds", nodepool="gpu"}`}},
	{"PoolwrightGPUPoolBackoff", "the back-off has ended", fmt.Sprintf(`poolwright_gpu_pool_backoff_end_timestamp_seconds{nodepool="gpu"} %dx2`, start.Unix()), nil},
	{"PoolwrightGPUPoolBackoff", "there was none", `poolwright_gpu_pool_backoff_end_timestamp_seconds{nodepool="gpu"} 0x2`, nil},

	{"PoolwrightGPUNodesUnhealthy", "two nodes lack their GPUs for ten minutes", `poolwright_gpu_nodes_unhealthy{nodepool="gpu",reason="NoDriver"} 2x10`, []string{`{nodepool="gpu", reason="NoDriver"}`}},
	{"PoolwrightGPUNodesUnhealthy", "the node is replaced before", `poolwright_gpu_nodes_unhealthy{nodepool="gpu",reason="NoDriver"} 1x8 stale`, nil},

	{"PoolwrightNodePoolNearLimit", "15 of 16 GPUs", "karpenter_nodepools_usage{nodepool=\"gpu\",resource_type=\"nvidia.com/gpu\"} 15x15\nkarpenter_nodepools_limit{nodepool=\"gpu\",resource_type=\"nvidia.com/gpu\"} 16x15", []string{`{nodepool="gpu", resource_type="nvidia.com/gpu"}`}},
	{"PoolwrightNodePoolNearLimit", "half of the GPUs, and CPUs without a limit", "karpenter_nodepools_usage{nodepool=\"gpu\",resource_type=\"nvidia.com/gpu\"} 8x15\nkarpenter_nodepools_usage{nodepool=\"gpu\",resource_type=\"cpu\"} 96x15\nkarpenter_nodepools_limit{nodepool=\"gpu\",resource_type=\"nvidia.com/gpu\"} 16x15", nil},
	{"PoolwrightNodePoolNearLimit", "a limit of zero, by which a pool is switched off", "karpenter_nodepools_usage{nodepool=\"gpu\",resource_type=\"cpu\"} 0x15\nkarpenter_nodepools_limit{nodepool=\"gpu\",resource_type=\"cpu\"} 0x15", nil},

	{"PoolwrightPodsUnschedulable", "a pod waits for 20 minutes", `karpenter_pods_unbound_time_seconds{name="train",namespace="ml",dynamic_resources="false"} 0+60x21`, []string{`{}`}},
	{"PoolwrightPodsUnschedulable", "a pod gets its node after ten", `karpenter_pods_unbound_time_seconds{name="train",namespace="ml",dynamic_resources="false"} 0+60x10 stale _x11`, nil},

	{"PoolwrightNodeLaunchErrors", "EC2 has no capacity", `karpenter_cloudprovider_errors_total{nodepool="gpu",error="InsufficientCapacityError",method="Create",controller="nodeclaim.lifecycle",provider="aws"} 0+1x30`, []string{`{error="InsufficientCapacityError", nodepool="gpu"}`}},
	{"PoolwrightNodeLaunchErrors", "types cannot be read, and nothing is launched", `karpenter_cloudprovider_errors_total{nodepool="gpu",error="unknown",method="GetInstanceTypes",controller="provisioner",provider="aws"} 0+1x30`, nil},
	{"PoolwrightNodeLaunchErrors", "the third attempt succeeds", `karpenter_cloudprovider_errors_total{nodepool="gpu",error="InsufficientCapacityError",method="Create",controller="nodeclaim.lifecycle",provider="aws"} 0x10 1 2x19`, nil},
}

// rises is a counter with a sample a minute, which rises by one each so many minutes, so many times.
func rises(minutes, times int) string {
	var out strings.Builder
	for n := range times {
		fmt.Fprintf(&out, "%dx%d ", n, minutes-1)
	}
	return out.String() + strconv.Itoa(times)
}

// firing are the labels of an alert's series that fire at the end: its expression had them at each evaluation, a minute apart,
// for the time of `for`.
func firing(t *testing.T, s series, expr string, hold time.Duration) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for _, one := range s.evaluate(t, expr, time.Minute) {
		last := s.end()
		n := len(one.Floats)
		for n > 0 && one.Floats[n-1].T == last.UnixMilli() {
			n--
			last = last.Add(-time.Minute)
		}
		if since := s.end().Sub(last) - time.Minute; n < len(one.Floats) && since >= hold {
			out[one.Metric.String()] = one.Floats[len(one.Floats)-1].F
		}
	}
	return out
}

func TestEachAlertFiresWhenItMustAndOnlyThen(t *testing.T) {
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	both := map[string]map[bool]bool{}
	for _, rule := range rules {
		both[rule.Alert] = map[bool]bool{}
		for _, c := range alertCases {
			if c.alert != rule.Alert {
				continue
			}
			both[rule.Alert][c.fires != nil] = true
			t.Run(rule.Alert+": "+c.name, func(t *testing.T) {
				var hold model.Duration
				if rule.For != nil {
					if hold, err = model.ParseDuration(string(*rule.For)); err != nil {
						t.Fatal(err)
					}
				}
				all := parseSeries(t, c.series, time.Minute)
				got := firing(t, all, rule.Expr.String(), time.Duration(hold))
				if d := cmp.Diff(c.fires, slices.Sorted(maps.Keys(got))); d != "" {
					t.Errorf("fires (-want +got):\n%s", d)
				}
				// The series last as long as `for` and no longer, by which a shorter one is found.
				if got := firing(t, all, rule.Expr.String(), time.Duration(hold)+time.Minute); hold > 0 && len(got) > 0 {
					t.Errorf("%v would fire a minute earlier", got)
				}
			})
		}
	}
	for alert, sides := range both {
		if len(sides) != 2 {
			t.Errorf("%s needs a case in which it fires, and one in which it does not", alert)
		}
	}
	for _, c := range alertCases {
		if both[c.alert] == nil {
			t.Errorf("there is no alert %s", c.alert)
		}
	}
}

// What Prometheus expands are Go templates with the labels that the expression leaves.
func TestAlertsHaveASeverityAndTextsOfLabelsThatTheyHave(t *testing.T) {
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		if severity := rule.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s has the severity %q", rule.Alert, severity)
		}
		set := map[string]string{}
		for _, c := range alertCases {
			if c.alert == rule.Alert && c.fires != nil {
				for _, one := range parseSeries(t, c.fires[0]+" 1", time.Minute) {
					set = one.Metric.Map()
				}
			}
		}
		for _, name := range []string{"summary", "description"} {
			text := rule.Annotations[name]
			parsed, err := template.New(rule.Alert).Option("missingkey=error").
				Funcs(template.FuncMap{"humanizePercentage": func(v float64) string { return fmt.Sprintf("%.4g%%", v*100) }}).
				Parse("{{$labels := .Labels}}{{$value := .Value}}" + text)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := parsed.Execute(&out, map[string]any{"Labels": set, "Value": 1.0}); err != nil || !strings.HasSuffix(out.String(), ".") {
				t.Errorf("%s: %s: %v: %q", rule.Alert, name, err, out.String())
			}
		}
	}
}
