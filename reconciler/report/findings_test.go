package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// aws is a thing of AWS that the Cluster in cluster.yaml declares.
func aws(service, kind, region, name string, content object) state.Item {
	i := item("aws", service, kind, name, "cluster.yaml", 9, content)
	i.Key.Namespace = region
	return i
}

// account is a plan in which some of AWS is ours, some is read-only, and of
// some nothing is known.
func account() plan.Plan {
	compared := func(i state.Item, how string) state.Item {
		i.ReadOnly = how
		return i
	}
	unknown := func(i state.Item, why string) state.Item {
		return state.Item{Key: i.Key, Observation: state.Observation{Unknown: why}}
	}
	const region = "eu-west-1"
	role := aws("iam", "Role", "", "dev-nodes", object{"policies": []any{"AmazonEKSWorkerNodePolicy"}, "trust": "ec2.amazonaws.com", "tags": object{"poolwright.dev/cluster": "dev"}})
	rule := aws("eventbridge", "Rule", region, "dev-rebalance", object{"state": "ENABLED", "target": "dev"})
	version := compared(aws("eks", "Version", region, "dev", object{"version": "1.34"}), "run: aws eks update-cluster-version --name dev --kubernetes-version 1.34")
	addon := compared(aws("eks", "Addon", region, "vpc-cni", object{"version": "v1.20.1-eksbuild.1"}), "run: aws eks create-addon --cluster-name dev --addon-name vpc-cni")
	queue := aws("sqs", "Queue", region, "dev", object{"retention": "5m"})
	logs := aws("eks", "Logging", region, "dev", object{"types": []any{"audit"}})
	quota := aws("servicequotas", "Quota", region, "Running On-Demand G and VT instances", object{})
	pool := item("kubernetes", "karpenter.sh", "NodePool", "gpu", "pools/gpu.yaml", 3, object{"spec": object{"weight": int64(10)}})

	disabled := live(rule, object{"state": "DISABLED", "target": "dev"})
	disabled.Applied = state.Hash(rule.Object)
	noted := live(quota, object{})
	noted.Notes, noted.Warnings = []finding.Finding{{Text: "12 of 64 vCPUs are in use"}}, []finding.Finding{{Text: "NodePool gpu may ask for 192 vCPUs, the quota is 64; ask for more: aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-DB2E81BA"}}
	return plan.Compute(
		state.NewSet(role, rule, version, addon, queue, logs, quota, pool),
		state.NewSet(disabled, live(version, object{"version": "1.33"}), noted, live(pool, object{"spec": object{"weight": int64(5)}}),
			unknown(queue, "denied: poolwright-controller may not call sqs:GetQueueAttributes; add config/iam/resources.json to it"),
			unknown(logs, "throttled by eks:DescribeCluster, asked again at the next look")),
		plan.Guard(50, ""))
}

func TestWhatIsUnknownNotedAndComparedReadsAsTheGoldenFiles(t *testing.T) {
	p := account()
	for form, got := range all(t, New(p, nil)) {
		golden.Compare(t, "testdata/aws."+form, got)
	}
	o := apply.Outcome{}
	for _, c := range p.Changes {
		r := apply.Result{Change: c, Status: apply.Applied}
		switch {
		case c.Skipped():
			r.Status = apply.Skipped
		case c.Held():
			r.Status = apply.Held
		}
		o.Results = append(o.Results, r)
	}
	for form, got := range all(t, NewOutcome(p, nil, o)) {
		golden.Compare(t, "testdata/aws-outcome."+form, got)
	}
	reported := plan.ReportTarget("aws")(p)
	for form, got := range all(t, New(reported, nil)) {
		golden.Compare(t, "testdata/aws-reported."+form, got)
	}
}

// A first plan against an account: much is missing, most of it one way.
func TestManyChangesReadAsTheGoldenFiles(t *testing.T) {
	const region, how = "eu-west-1", "exists and was not made by Poolwright: set adopt: true in spec.nodeRole to let Poolwright change it"
	document := object{"Version": "2012-10-17", "Statement": []any{
		object{"Sid": "Read", "Effect": "Allow", "Action": []any{"ec2:DescribeInstances", "ec2:DescribeImages"}, "Resource": "*"},
		object{"Sid": "Make", "Effect": "Allow", "Action": []any{"ec2:RunInstances", "ec2:CreateFleet"}, "Resource": "*"},
	}}
	var desired, observed []state.Item
	for _, name := range []string{"engine", "engine-nodes", "engine-queue", "boundary"} {
		desired = append(desired, aws("iam", "Policy", "", "dev-"+name, object{"document": document, "tags": object{"poolwright.dev/cluster": "dev"}}))
	}
	for _, name := range []string{"spot", "rebalance", "health", "state"} {
		desired = append(desired, aws("eventbridge", "Rule", region, "dev-"+name, object{"state": "ENABLED", "target": "dev"}))
	}
	queue := aws("sqs", "Queue", region, "dev", object{"retention": "5m", "policy": document})
	role := aws("iam", "Role", "", "dev-nodes", object{"policies": []any{"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"}})
	found := live(role, object{"policies": []any{"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryReadOnly", "CloudWatchAgentServerPolicy"}})
	found.ReadOnly = how
	addon := aws("eks", "Addon", region, "vpc-cni", object{"version": "v1.20.1-eksbuild.1", "values": object{"a": "b"}})
	group := aws("eks", "NodeGroup", region, "system", object{"scaling": object{"min": int64(2), "max": int64(3)}, "types": []any{"m7i.large"}, "ami": "AL2023_x86_64_STANDARD", "document": document})
	addon.ReadOnly, group.ReadOnly = "run: aws eks create-addon --cluster-name dev --addon-name vpc-cni", "run: aws eks create-nodegroup --cluster-name dev --nodegroup-name system"
	desired, observed = append(desired, queue, role, addon, group), append(observed, found)
	for _, name := range []string{"subnet-a", "subnet-b", "subnet-c"} {
		tag := aws("ec2", "SubnetTag", region, name, object{"value": "dev"})
		tag.Origin.Line = 14
		desired = append(desired, tag)
		observed = append(observed, state.Item{Key: tag.Key, Observation: state.Observation{Unknown: "denied: poolwright-controller may not call ec2:DescribeSubnets; add config/iam/resources.json to it"}})
	}
	for form, got := range all(t, New(plan.Compute(state.NewSet(desired...), state.NewSet(observed...)), nil)) {
		golden.Compare(t, "testdata/many."+form, got)
	}
}

func TestWhatIsOnlyComparedIsShownWholeWhenRequested(t *testing.T) {
	addon := aws("eks", "Addon", "eu-west-1", "vpc-cni", object{"values": object{"a": "b"}})
	addon.ReadOnly = "run: aws eks create-addon"
	got := render(t, func(b *bytes.Buffer) error {
		return New(plan.Compute(state.NewSet(addon), state.Set{}), nil).Text(b, Options{Lines: -1})
	})
	if !strings.Contains(got, "+ values:\n    +   a: b\n") {
		t.Errorf("got %s", got)
	}
}

func TestTheHeadlineCallsNothingAChangeThatIsNotMade(t *testing.T) {
	compared := aws("eks", "Version", "eu-west-1", "dev", object{"version": "1.34"})
	compared.ReadOnly = "run: aws eks update-cluster-version"
	lost := state.Item{Key: compared.Key, Observation: state.Observation{Unknown: "denied"}}
	noted := live(compared, compared.Object)
	noted.Notes = []finding.Finding{{Text: "look at this"}}
	ours := aws("sqs", "Queue", "eu-west-1", "dev", object{"retention": "5m"})
	warned := live(ours, ours.Object)
	warned.Warnings = []finding.Finding{{Text: "it is about to end"}}
	tests := []struct {
		name     string
		p        plan.Plan
		headline string
		empty    bool
	}{
		{"a difference that is read-only", plan.Compute(state.NewSet(compared), state.NewSet(live(compared, object{}))), "Plan: no changes; 1 read-only", false},
		{"an unknown thing", plan.Compute(state.NewSet(compared), state.NewSet(lost)), "Plan: incomplete, nothing could be compared (1 object)", false},
		{"an unknown thing beside one that is as declared", plan.Compute(state.NewSet(compared, ours), state.NewSet(lost, ours)), "Plan: incomplete, 1 of 2 objects could not be compared; 1 as declared", false},
		{"a warning", plan.Compute(state.NewSet(ours), state.NewSet(warned)), "Plan: no changes, 1 object as declared; 1 warning", true},
		{"a note", plan.Compute(state.NewSet(compared), state.NewSet(noted)), "Plan: no changes, 1 object as declared", true},
		{"a creation beside both", plan.Compute(state.NewSet(compared, ours, aws("sqs", "Queue", "eu-west-1", "x", object{})), state.NewSet(lost)),
			"Plan: 2 to create, 0 to update, 0 to delete; 1 unknown", false},
		{"a deletion that is only reported", plan.Compute(state.Set{}, state.NewSet(live(ours, ours.Object)), plan.ReportTarget("aws"), plan.Guard(0, "")),
			"Plan: no changes; 1 read-only", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := New(tt.p, nil)
			if got := r.headline(); got != tt.headline {
				t.Errorf("headline %q, want %q", got, tt.headline)
			}
			if r.Empty() != tt.empty || len(r.Holds) != 0 {
				t.Errorf("empty %v, holds %v", r.Empty(), r.Holds)
			}
		})
	}
}

func TestFindingsAreMaskedLikeEverythingElse(t *testing.T) {
	i := aws("sqs", "Queue", "eu-west-1", "dev", object{"retention": "5m"})
	i.ReadOnly = "run: curl -H 'Authorization: Bearer abcdef0123456789'"
	lost := aws("sqs", "Queue", "eu-west-1", "lost", nil)
	secret := item("kubernetes", "", "Secret", "git", "s.yaml", 1, object{"stringData": object{"password": "hunter2-new"}})
	p := plan.Compute(state.NewSet(i, lost, secret), state.NewSet(state.Item{Key: lost.Key, Observation: state.Observation{
		Unknown: "asking https://robot:hunter3@proxy.example.com: no route", Notes: []finding.Finding{finding.New("ForeignPolicies", "the answer held %s", finding.As("policies", []string{"hunter2-new"}, "hunter2-new")).With(finding.NewFact("proxy", "https://robot:hunter3@proxy.example.com"))},
	}}))
	problems := []state.Problem{state.NewProblem(state.Origin{}, finding.New(finding.ObjectInvalid, "invalid: %s", finding.NewFact("reason", "hunter2-new")))}
	for form, got := range all(t, New(p, problems)) {
		for _, leak := range []string{"abcdef0123456789", "hunter"} {
			if strings.Contains(got, leak) {
				t.Errorf("%s holds %s:\n%s", form, leak, got)
			}
		}
		for _, want := range []string{"https://(masked)@proxy.example.com", "the answer held (masked)"} {
			if !strings.Contains(strings.ReplaceAll(got, "\u200b", ""), want) {
				t.Errorf("%s lacks %s:\n%s", form, want, got)
			}
		}
	}
}

func TestJSONSetsFindingsApart(t *testing.T) {
	var r Report
	if err := json.Unmarshal([]byte(render(t, func(b *bytes.Buffer) error { return New(account(), nil).JSON(b) })), &r); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Summary{Create: 1, Update: 2, Skipped: 2, ReadOnly: 2, Unknown: 2, Warnings: 1, Hash: r.Summary.Hash}, r.Summary); d != "" {
		t.Errorf("summary (-want +got):\n%s", d)
	}
	if len(r.Unknown) != 2 || r.Unknown[1].Kind != "Queue" || r.Unknown[1].File != "cluster.yaml" || r.Unknown[1].Line != 9 || len(r.Notes) != 2 || r.Notes[0].Severity != finding.Warning || r.Notes[1].Severity == finding.Warning {
		t.Errorf("unknown %+v, notes %+v", r.Unknown, r.Notes)
	}
	compared := slices.DeleteFunc(r.Changes, func(c Change) bool { return !c.ReadOnly })
	if len(compared) != 2 || !strings.HasPrefix(compared[0].Reason, "run: aws eks ") {
		t.Errorf("compared %+v", compared)
	}
}

func TestMarkdownFindsRoomForSomeOfEveryFinding(t *testing.T) {
	var desired, observed []state.Item
	for n := range 3000 {
		i := aws("sqs", "Queue", "eu-west-1", strings.Repeat("q", 1+n%50)+string(rune('a'+n%26))+strings.Repeat("x", n/26), object{"n": int64(n)})
		desired = append(desired, i)
		switch n % 3 {
		case 0:
			observed = append(observed, state.Item{Key: i.Key, Observation: state.Observation{Unknown: "denied: sqs:GetQueueAttributes is missing"}})
		case 1:
			noted := live(i, i.Object)
			noted.Notes = []finding.Finding{{Text: "mind the gap"}}
			observed = append(observed, noted)
		}
	}
	for _, limit := range []int{minLimit, 5000, defaultLimit} {
		got := render(t, func(b *bytes.Buffer) error {
			return New(plan.Compute(state.NewSet(desired...), state.NewSet(observed...)), nil).Markdown(b, Options{Limit: limit})
		})
		checkMarkdown(t, got, limit)
		if limit < 5000 {
			continue
		}
		for _, want := range []string{"- 1000 objects: `denied: sqs", "`: `aws Queue.sqs/", "mind the gap", "| `+` |", "; 1000 unknown\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("limit %d: lacks %q", limit, want)
			}
		}
	}
}

func TestMarkdownShowsTheBeginningOfAVeryLongReason(t *testing.T) {
	i := aws("sqs", "Queue", "eu-west-1", "dev", nil)
	lost := state.Item{Key: i.Key, Observation: state.Observation{Unknown: "denied " + strings.Repeat("x", defaultLimit)}}
	got := render(t, func(b *bytes.Buffer) error {
		return New(plan.Compute(state.NewSet(i), state.NewSet(lost)), nil).Markdown(b, Options{})
	})
	checkMarkdown(t, got, defaultLimit)
	if !strings.Contains(got, "- `aws Queue.sqs/eu-west-1/dev (cluster.yaml:9)`: `denied xxx") || !strings.Contains(got, "more characters)") {
		t.Errorf("got %.2000s", got)
	}
}
