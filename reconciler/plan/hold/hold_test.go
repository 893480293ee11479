package hold

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

func TestReasonsAreReadAsOneSentence(t *testing.T) {
	most := 5
	nodes := &Nodes{Replaced: 14, Removed: 2, Max: &most, Reviewed: &Reviews{PullRequests: []int64{13, 12}, Nodes: 4, Now: 14}}
	for _, tt := range []struct {
		name string
		of   Reasons
		want string
	}{
		{"nothing", nil, ""},
		{"read-only", Reasons{{Rule: ReadOnly, Facts: Facts{Detail: "run: aws eks create-addon"}}}, "run: aws eks create-addon"},
		{"drift", Reasons{{Rule: DriftReported}}, "drift is only reported (drift: Report)"},
		{"a target that is not written to", Reasons{{Rule: DriftReported, Facts: Facts{Detail: "nothing is written to aws (drift: Report)"}}}, "nothing is written to aws (drift: Report)"},
		{"a share", Reasons{{Rule: MaxPrunePercent, Facts: Facts{Deletions: &Deletions{Count: 11, Managed: 20, MaxPercent: 50}}}}, "would delete 11 of 20 objects, more than 50% (guard.maxPrunePercent)"},
		{"everything", Reasons{{Rule: MaxPrunePercent, Facts: Facts{Deletions: &Deletions{Count: 2, Managed: 2, MaxPercent: 50}}}}, "would delete all 2 objects (guard.maxPrunePercent)"},
		{"the text of two rules is there once", Reasons{{Rule: MaxNodesReplaced, Facts: Facts{Nodes: nodes}}, {Rule: ReviewExceeded, Facts: Facts{Nodes: nodes}}},
			"would replace 14 nodes and take away 2 with their pools; guard.maxNodesReplaced is 5; 14 of them where 4 were predicted in the review of #12, #13"},
		{"a deletion", Reasons{{Rule: DeletionLosses, Facts: Facts{Object: "NodePool/a", Detail: "3 nodes go with it"}}}, "deleting NodePool/a: 3 nodes go with it"},
		{"an update", Reasons{{Rule: UpdateLosses, Facts: Facts{Object: "Cluster/a", Detail: "the engine stops"}}}, "updating Cluster/a: the engine stops"},
		{"a quota that one pool exceeds", Reasons{{Rule: QuotaExceeded, Facts: Facts{Quota: &Quota{Codes: []string{"L-1"}, Pools: []string{"a"}, NeededVCPUs: 72, LimitVCPUs: 64}}}},
			"NodePool a needs at least 72 vCPUs, the quota allows 64 (guard.quota): request a quota increase (quota code L-1) or lower a limit"},
		{"quotas that several pools exceed", Reasons{{Rule: QuotaExceeded, Facts: Facts{Quota: &Quota{Codes: []string{"L-1", "L-2"}, Pools: []string{"a", "b", "c"}, NeededVCPUs: 200, LimitVCPUs: 128, UsedByOthers: true}}}},
			"NodePools a, b and c need at least 200 vCPUs, the quotas allow 128 in all, less what other instances use (guard.quota): request a quota increase (quota codes L-1, L-2) or lower a limit"},
		{"a quota that allows no node", Reasons{{Rule: QuotaExceeded, Facts: Facts{Quota: &Quota{Codes: []string{"L-1"}, Pools: []string{"a"}, NeededVCPUs: 16, LimitVCPUs: 64, UsedByOthers: true, SmallestType: "p5.4xlarge"}}}},
			"NodePool a can have no node: its smallest instance type p5.4xlarge has 16 vCPUs, the quota allows 64, less what other instances use (guard.quota): request a quota increase (quota code L-1) or allow a smaller type"},
		{"quotas that allow a node together alone", Reasons{{Rule: QuotaExceeded, Facts: Facts{Quota: &Quota{Codes: []string{"L-1", "L-2"}, Pools: []string{"a"}, NeededVCPUs: 16, LimitVCPUs: 24, SmallestType: "p5.4xlarge"}}}},
			"NodePool a can have no node: its smallest instance type p5.4xlarge has 16 vCPUs, none of the quotas has as many left (guard.quota): request a quota increase (quota codes L-1, L-2) or allow a smaller type"},
		{"the last limit", Reasons{{Rule: QuotaExceeded, Facts: Facts{Quota: &Quota{Codes: []string{"L-1", "L-2"}, Pools: []string{"a"}, LimitVCPUs: 24, Unlimited: true}}}},
			"NodePool a would have no limit of CPUs, GPUs or nodes any more, and the quotas allow 24 in all (guard.quota): keep one of the limits"},
		{"a quota that is unknown", Reasons{{Rule: QuotaExceeded, Facts: Facts{Quota: &Quota{Pools: []string{"a"}, Unknown: "throttled"}}}},
			"NodePool a needs more than before of quotas that could not be read: throttled (guard.quota)"},
		{"a part in use", Reasons{{Rule: DependentDeletionHeld, Facts: Facts{Object: "Queue/a", Fields: []string{"spec.interruptionQueue"}}}}, "spec.interruptionQueue stays: Queue/a still uses it, and the deletion of Queue/a is held"},
		{"a part that may be", Reasons{{Rule: DependentDeletionHeld, Facts: Facts{Object: "Queue/a", Fields: []string{"spec.interruptionQueue"}, Detail: "denied"}}},
			"spec.interruptionQueue may be in use: it is not known whether there is Queue/a to be deleted: denied"},
		{"a hold", Reasons{{Rule: HoldUntil, Facts: Facts{Until: "2026-11-28T18:00:00Z"}}}, "stays as it is until 2026-11-28T18:00:00Z (hold-until)"},
		{"a hold with its reason", Reasons{{Rule: HoldUntil, Facts: Facts{Until: "2026-11-28T18:00:00Z", Detail: "INC-7"}}}, "stays as it is until 2026-11-28T18:00:00Z (hold-until): INC-7"},
		{"a hold on what goes along", Reasons{{Rule: HoldUntil, Facts: Facts{Object: "ConfigMap/a/b", Until: "2026-11-28T18:00:00Z"}}},
			"ConfigMap/a/b, which would be deleted with it, stays as it is until 2026-11-28T18:00:00Z (hold-until)"},
		{"a relaxed Sync", Reasons{{Rule: SyncChangeHeld, Facts: Facts{Object: "Sync/a", Fields: []string{"spec.prune", "spec.drift"}}}},
			"updating Sync/a would relax it (spec.prune, spec.drift), which the repository alone cannot do"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, tt.of.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

// What others wrote is masked by itself.
func TestSecretsInWhatOthersWroteAreMasked(t *testing.T) {
	const secret = "ghp_0123456789abcdefABCDEF"
	for name, of := range map[string]Reason{
		"what goes with a deletion":    {Rule: DeletionLosses, Facts: Facts{Object: "A/a", Detail: "denied: " + secret}},
		"why nothing can be predicted": {Rule: MaxNodesReplaced, Facts: Facts{Nodes: &Nodes{Unknown: "denied: " + secret, Max: new(int)}}},
		"why quotas are unknown":       {Rule: QuotaExceeded, Facts: Facts{Quota: &Quota{Pools: []string{"a"}, Unknown: "denied: " + secret}}},
		"why more may be replaced":     {Rule: MaxNodesReplaced, Facts: Facts{Nodes: &Nodes{Uncertain: "denied: " + secret, Max: new(int)}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := of.String(); strings.Contains(got, secret) || !strings.Contains(got, "denied: (masked)") {
				t.Error(got)
			}
		})
	}
}

// A rule is an enum of the API.
func TestRulesAreNamedAsReasonsOfConditionsAre(t *testing.T) {
	page, err := os.ReadFile("../../../docs/kinds/sync.md")
	if err != nil {
		t.Fatal(err)
	}
	reason := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	for _, rule := range []Rule{ReadOnly, DriftReported, MaxPrunePercent, DeletionLosses, UpdateLosses, MaxNodesReplaced, ReviewExceeded, QuotaExceeded, DependentDeletionHeld, SyncChangeHeld, HoldUntil} {
		if !reason.MatchString(string(rule)) || !strings.Contains(string(page), "\n| "+string(rule)+" | ") {
			t.Errorf("%q is no reason, or not on the page of the Sync", rule)
		}
		if rule.Skips() != (Reasons{{Rule: rule}}).Skipped() || (Reasons{{Rule: rule}, {Rule: MaxPrunePercent}}).Skipped() || (Reasons{}).Skipped() {
			t.Errorf("what %s skips is not what is skipped by it alone", rule)
		}
	}
}

func TestOneConfirmationQuotesEachTokenOnce(t *testing.T) {
	in := confirm.Binding{UID: "a"}
	pool := Token{Purpose: "deletions", Digest: "1", Losses: loss.Counts{"Node": 10}}
	nodes := Token{Purpose: "nodes", Digest: "1"}
	all := Join([]Token{nodes, pool, nodes, pool}, in)
	if all != pool.Encode(in)+","+nodes.Encode(in) || all != Join([]Token{pool, nodes}, in) || Join(nil, in) != "" {
		t.Errorf("joined: %s", all)
	}
	grown, more := pool, pool
	grown.Losses, more.Losses = loss.Counts{"Node": 12}, loss.Counts{"Node": 13}
	begun, older := pool, pool
	begun.Number, older.Number = 1, 2
	for name, tt := range map[string]struct {
		token Token
		in    confirm.Binding
		want  bool
	}{
		"the one by which a deletion was begun": {begun, in, true},
		"that one after another was used":       {begun, in.Use(Token{Purpose: "deletions", Digest: "2"}.Encode(in)), true},
		"that one of another number":            {older, in, false},
		"that one of another Sync":              {begun, confirm.Binding{UID: "b"}, false},
		"it":                                    {pool, in, true},
		"beside another":                        {nodes, in, true},
		"a fifth more goes with it":             {grown, in, true},
		"yet more goes with it":                 {more, in, false},
		"another purpose":                       {Token{Purpose: "guard", Digest: "1"}, in, false},
		"another content":                       {Token{Purpose: "nodes", Digest: "2"}, in, false},
		"another Sync":                          {nodes, confirm.Binding{UID: "b"}, false},
		"after one of another purpose was used": {nodes, in.Use(pool.Encode(in)), true},
		"after it was used":                     {nodes, in.Use(nodes.Encode(in)), false},
		"after both were used":                  {pool, in.Use(confirm.Tokens(all)...), false},
		"after something else was handled":      {nodes, confirm.Binding{UID: "a", Handled: "x"}, true},
	} {
		if then, ok := tt.token.ConfirmedBy(all, tt.in); ok != tt.want || ok && tt.token.Purpose == "deletions" && then["Node"] != 10 {
			t.Errorf("%s: quoted %v with %v", name, ok, then)
		}
	}
}
