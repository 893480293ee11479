package page

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/internal/golden"
)

func TestThePages(t *testing.T) {
	for name, of := range map[string]func() (Document, error){
		"overview": func() (Document, error) {
			return renderer(t).Overview(Input{Report: newReport(), Window: 6 * time.Hour})
		},
		"history": func() (Document, error) {
			return renderer(t).Overview(Input{Report: newReport(), Namespace: "poolwright-system", History: night(), Window: time.Hour * 24})
		},
		"empty": func() (Document, error) {
			return renderer(t).Overview(Input{Report: get.Report{Time: metav1.NewTime(now())}})
		},
		"pod": func() (Document, error) {
			return renderer(t).Explanation(ExplanationInput{Explanation: pendingPod(), Path: "/pods/ml/train-7", Name: "train-7", Report: newReport()})
		},
		"interrupted-pod": func() (Document, error) {
			return renderer(t).Explanation(ExplanationInput{Explanation: pendingPod(), Path: "/pods/ml/train-7", Name: "train-7", Report: newReport(), Interrupted: &Interruption{Since: now().Add(-26 * time.Hour), Message: "connection refused"}})
		},
		"events": func() (Document, error) {
			return renderer(t).Events(EventsInput{Report: newReport(), History: night()})
		},
		"events-nothing": func() (Document, error) { return renderer(t).Events(EventsInput{Report: newReport()}) },
		"pull-merged": func() (Document, error) {
			return pulled(renderer(t).Pull(PullInput{Report: newReport(), Namespace: "poolwright-system", History: night(), Number: 38}))
		},
		"pull-open": func() (Document, error) {
			return pulled(renderer(t).Pull(PullInput{Report: newReport(), Namespace: "poolwright-system", History: night(), Number: 41}))
		},
		"savings": func() (Document, error) {
			return renderer(t).Savings(SavingsInput{Report: newReport(), History: night()})
		},
		"savings-hours": func() (Document, error) {
			return renderer(t).Savings(SavingsInput{Report: newReport(), History: night(), Window: 24 * time.Hour})
		},
		"node": func() (Document, error) {
			e := explain.Explanation{Time: metav1.NewTime(now()), Object: "NodeClaim/gpu-old", Since: ago(200 * time.Minute)}
			return renderer(t).Explanation(ExplanationInput{Explanation: e, Path: "/nodes/gpu-old", Name: "gpu-old", Report: newReport(), Recorded: RecordedNode(newReport(), night(), "gpu-old"), Gone: true})
		},
		"no-report": func() (Document, error) { return renderer(t).Failure("Not found", "there is no pod", get.Report{}) },
		"failure":   func() (Document, error) { return renderer(t).Failure("Not found", "there is no pod", newReport()) },
		"interrupted": func() (Document, error) {
			return renderer(t).Overview(Input{Report: get.Report{Time: metav1.NewTime(now())}, Interrupted: &Interruption{Since: now().Add(-time.Minute), Message: "connection refused"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := of()
			golden.Compare(t, "testdata/"+name+".html", rendered(t, d, err))
		})
	}
}

// pulled is the page of a pull request that exists.
func pulled(d Document, found bool, err error) (Document, error) {
	if !found {
		err = errors.Join(err, errors.New("there is no such pull request"))
	}
	return d, err
}

func TestAPageIsAFunctionOfItsInput(t *testing.T) {
	in := Input{Report: newReport(), Namespace: "poolwright-system", History: night()}
	a, err := renderer(t).Overview(in)
	first := rendered(t, a, err)
	for range 20 {
		b, err := renderer(t).Overview(in)
		if again := rendered(t, b, err); again != first {
			t.Fatal(cmp.Diff(first, again))
		}
	}
}

func TestTheTitleHasThePriceWhatIsIdleAndTheCluster(t *testing.T) {
	d, err := renderer(t).Overview(Input{Report: newReport()})
	if err != nil {
		t.Fatal(err)
	}
	if want := "$7.41–9.02/h · 5 idle GPUs · dev-euw1 · eu-west-1 · 111122223333"; d.Title != want {
		t.Errorf("the title is %q, not %q", d.Title, want)
	}
}

// What a Content-Security-Policy without unsafe-inline would refuse is not in a page.
func TestAPageHasNothingInline(t *testing.T) {
	d, err := renderer(t).Overview(Input{Report: newReport(), Namespace: "poolwright-system", History: night()})
	pages := hostilePages(t, "x")
	pages["the overview of a cluster"] = rendered(t, d, err)
	for name, got := range pages {
		for _, pattern := range []string{`<script>`, `<script[^>]*>[^<]`, `<style`, ` style=`, ` on[a-z]+=`, `javascript:`, `https?://`, `<form`, `<iframe`} {
			if at := regexp.MustCompile(pattern).FindString(got); at != "" {
				t.Errorf("%s has %q", name, at)
			}
		}
	}
}

func TestTheScriptIsSmallAndLoadsNothing(t *testing.T) {
	script, err := assetFiles.ReadFile("assets/page.js")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(script), "\n"); n > 150 {
		t.Errorf("the script has %d lines", n)
	}
	for _, file := range []string{"assets/page.js", "assets/style.css"} {
		content, err := assetFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if at := regexp.MustCompile(`https?://|@import|url\(|eval\(|import\(`).Find(content); at != nil {
			t.Errorf("%s has %q", file, at)
		}
	}
}

// What moves is only for who has not asked for less motion.
func TestNothingMovesForWhoPrefersReducedMotion(t *testing.T) {
	style, err := assetFiles.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	always := regexp.MustCompile(`(?m)^@media \(prefers-reduced-motion: no-preference\).*$`).ReplaceAll(style, nil)
	if len(always) == len(style) {
		t.Error("the style sheet has no rule for who has no preference")
	}
	if at := regexp.MustCompile(`animation|transition|scroll-behavior|@keyframes`).Find(always); at != nil {
		t.Errorf("%s is for everybody", at)
	}
}

func TestTheIdleShareOfThePriceIsByNode(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []get.Node
		want  *get.USD
	}{
		"no nodes":                             {nil, &get.USD{}},
		"half of one node, and all of another": {[]get.Node{{GPUs: gpus(4, 2, 2), USDPerHour: usd(4, 4)}, {GPUs: gpus(1, 0, 1), USDPerHour: usd(0.1, 1)}}, usd(2.1, 3)},
		"a node without GPUs":                  {[]get.Node{{GPUs: gpus(0, 0, 0), USDPerHour: usd(4, 4)}}, &get.USD{}},
		"an idle node without a price":         {[]get.Node{{GPUs: gpus(4, 2, 2)}}, nil},
		"a used node without a price":          {[]get.Node{{GPUs: gpus(4, 4, 0)}}, &get.USD{}},
		"pods that were not read":              {[]get.Node{{USDPerHour: usd(4, 4)}}, nil},
		"a price of another region":            {[]get.Node{{GPUs: gpus(1, 0, 1), USDPerHour: &get.USD{Min: 1, Max: 1, Approximate: true}}}, &get.USD{Min: 1, Max: 1, Approximate: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, (&get.Report{Nodes: c.nodes}).IdleUSD()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMoneyHasItsUnitAndNoPriceIsRoundedToNothing(t *testing.T) {
	for _, c := range []struct {
		of              *get.USD
		byHour, byMonth string
	}{
		{nil, "–", "–"},
		{usd(0, 0), "$0", "$0"},
		{usd(0.001, 0.001), "<$0.01", "$1"},
		{usd(0.526, 0.526), "$0.53", "$384"},
		{usd(0.05, 0.53), "$0.05–0.53", "$37–387"},
		{usd(1234.5, 1234.5), "$1,234.50", "$901,185"},
		{&get.USD{Min: 1, Max: 2, Approximate: true}, "~$1.00–2.00", "~$730–1,460"},
	} {
		if got := money(c.of); got != c.byHour {
			t.Errorf("%+v is %s, not %s", c.of, got, c.byHour)
		}
		if got := monthly(c.of); got != c.byMonth {
			t.Errorf("%+v is %s a month, not %s", c.of, got, c.byMonth)
		}
	}
}

func TestTheTimelineHasThePhasesOfTheWindow(t *testing.T) {
	at := func(class string, x, width int) bar { return bar{Class: class, X: x, Width: width} }
	for name, c := range map[string]struct {
		phases []get.Phase
		ends   time.Duration
		bars   []bar
		text   string
	}{
		"all of it in the window":              {phases("Launching", 60, "Ready", 30), 0, []bar{at("launching", 0, 500), at("ready", 500, 500)}, "Launching 30m, Ready 30m"},
		"its beginning before the window":      {phases("Launching", 90, "Ready", 30), 0, []bar{at("launching", 0, 500), at("ready", 500, 500)}, "Launching 60m, Ready 30m"},
		"a phase before the window":            {phases("Launching", 90, "Ready", 70), 0, []bar{at("ready", 0, 1000)}, "Launching 20m, Ready 70m"},
		"a short phase is wide enough to read": {phases("Ready", 0), 0, []bar{at("ready", 996, 4)}, "Ready 0s"},
		"a phase without a length":             {phases("Launching", 30, "Registering", 30, "Ready", 30), 0, []bar{at("ready", 500, 500)}, "Ready 30m"},
		"one that ended":                       {phases("Ready", 45, "Terminating", 30), 15 * time.Minute, []bar{at("ready", 250, 250), at("terminating", 500, 250)}, "Ready 15m, Terminating 15m"},
		"a state that is not known":            {phases("Paused", 30), 0, []bar{at("other", 500, 500)}, "Paused 30m"},
		"no phases":                            {nil, 0, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := timelineOf(c.phases, now().Add(-c.ends), now(), time.Hour)
			if diff := cmp.Diff(lifeline{Bars: c.bars, Text: c.text}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheWindowIsTheShortestThatHasAllNodes(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: time.Hour, 59 * time.Minute: time.Hour, 2 * time.Hour: 6 * time.Hour, 7 * time.Hour: 24 * time.Hour, 400 * time.Hour: 24 * time.Hour,
	} {
		r := get.Report{Time: metav1.NewTime(now()), Nodes: []get.Node{{Created: ago(age)}}}
		if got := (Input{Report: r}).window(); got != want {
			t.Errorf("with a node of %v it is %v, not %v", age, got, want)
		}
	}
	if got := (Input{Window: time.Hour, Report: newReport()}).window(); got != time.Hour {
		t.Errorf("one that was selected is %v", got)
	}
}

func TestAttentionBeginsWithTheMostSevere(t *testing.T) {
	var got []string
	for _, row := range attentionOf(Input{Report: newReport(), Interrupted: &Interruption{Since: now(), Message: "refused"}}) {
		got = append(got, row.Class+" "+row.Path+row.Command)
	}
	want := []string{
		"error ", "error #drift", "warning /pods/ml/train-7", "warning /pods/ml/train-8", "warning /pools/held", "warning /nodes/web",
		"note poolwright resume lab -n poolwright-system", "note ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// manyNodes are nodes of which the first are not ready, and the next have an idle GPU.
func manyNodes(all, notReady, idle int) get.Report {
	r := get.Report{Time: metav1.NewTime(now()), Summary: &get.Summary{}}
	for i := range all {
		n := get.Node{Name: fmt.Sprintf("ip-%04d.eu-west-1.compute.internal", i), NodePool: "gpu", InstanceType: "g5.xlarge", State: "Ready", GPUs: gpus(1, 1, 0), USDPerHour: usd(1, 2), Created: ago(time.Duration(i+1) * time.Second), Phases: phases("Launching", 100, "Registering", 99, "Ready", 90)}
		switch at := all - 1 - i; {
		case at < notReady:
			n.State = "NotReady"
		case at < notReady+idle:
			n.GPUs = gpus(1, 0, 1)
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

func TestThePageOfALargeClusterIsBounded(t *testing.T) {
	in := Input{Report: manyNodes(5000, 150, 30), History: night()}
	m := overviewOf(in)
	if len(m.NodeRows) != maxNodes || m.NodesLeft != 5002-maxNodes {
		t.Fatalf("%d nodes are on the page, %d are left", len(m.NodeRows), m.NodesLeft)
	}
	counts := map[string]int{}
	for _, row := range m.NodeRows {
		switch {
		case row.State == "NotReady":
			counts["not ready"]++
		case *row.GPUs.Idle > 0:
			counts["idle"]++
		default:
			counts[row.Name]++
		}
	}
	want := map[string]int{"not ready": 150, "idle": 30}
	for i := range maxNodes - 180 {
		want[fmt.Sprintf("ip-%04d", i)] = 1
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("other nodes are on the page (-want +got):\n%s", diff)
	}
	d, err := renderer(t).Overview(in)
	got := rendered(t, d, err)
	if len(got) > 400_000 {
		t.Errorf("the page has %d bytes", len(got))
	}
	if !strings.Contains(got, "4802 more nodes") {
		t.Error("what is left out is not on the page")
	}
}

func TestAttentionHasSomeRowsOfEachKindAndHowManyMoreThereAre(t *testing.T) {
	r := manyNodes(300, 150, 0)
	for i := range 7 {
		r.Pools = append(r.Pools, get.Pool{Name: fmt.Sprintf("pool-%d", i), State: "BackOff"})
	}
	for i := range 6 {
		r.Syncs = append(r.Syncs, get.Sync{Name: fmt.Sprintf("sync-%d", i), Ready: "False"})
	}
	var got []string
	for _, row := range attentionOf(Input{Report: r}) {
		if row.Path == "" && row.Command == "" {
			got = append(got, row.Text)
		}
	}
	if diff := cmp.Diff([]string{"1 more Sync not ready", "2 more NodePools not ready", "145 more nodes not ready"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if rows := len(attentionOf(Input{Report: r})); rows != 3*maxAttention+3 {
		t.Errorf("there are %d rows", rows)
	}
}

// The time of a page is that of the objects, not that at which it was rendered.
func TestAPageIsAsOfWhenTheClusterCouldBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		time        time.Time
		interrupted *Interruption
		want        string
	}{
		"up to date":        {now(), nil, "14:02:11"},
		"interrupted":       {now(), &Interruption{Since: now().Add(-time.Hour)}, "13:02:11"},
		"for more than day": {now(), &Interruption{Since: now().Add(-25 * time.Hour)}, "Nov 25 13:02:11"},
		"nothing was read":  {time.Time{}, nil, ""},
	} {
		if got := statusOf(get.Report{Time: metav1.NewTime(c.time)}, c.interrupted).Clock; got != c.want {
			t.Errorf("%s: as of %q, not %q", name, got, c.want)
		}
	}
}

// A live region that is replaced each second is announced each second.
func TestTheStateOfTheConnectionIsInNoSectionThatIsReplaced(t *testing.T) {
	d, err := renderer(t).Overview(Input{Report: newReport()})
	if got := rendered(t, d, err); strings.Count(got, `role="status"`) != 1 {
		t.Errorf("the page has not one state of the connection")
	}
	for _, s := range d.Sections {
		if strings.Contains(string(s.HTML), `role="status"`) {
			t.Errorf("the section %s has it", s.ID)
		}
	}
}

func TestAPageThatCannotBeRenderedAnewHasTheError(t *testing.T) {
	for _, want := range []string{SectionAttention, SectionExplanation, SectionEvents, SectionPull, SectionSavings} {
		s, err := renderer(t).Outdated(want, "Not found", "there is no <b>pod</b> ghp_0123456789abcdefABCDEF0123456789abcd")
		if err != nil {
			t.Fatal(err)
		}
		if html := string(s.HTML); s.ID != want || !strings.Contains(html, "Not found") || !strings.Contains(html, "&lt;b&gt;") || strings.Contains(html, "ghp_0123") {
			t.Errorf("it is %+v", s)
		}
	}
}

func TestTheColourOfTheIconIsOfTheCluster(t *testing.T) {
	a, b := newReport(), newReport()
	b.Summary = &get.Summary{Cluster: "prod-euw1", Region: "eu-west-1", Account: "111122223333"}
	if string(Favicon(a)) == string(Favicon(b)) {
		t.Error("two clusters have the same icon")
	}
	if string(Favicon(a)) != string(Favicon(newReport())) {
		t.Error("one cluster has two icons")
	}
}

// What was not read is not empty.
func TestASectionThatWasNotReadIsNotReportedAsEmpty(t *testing.T) {
	unread := func(kinds ...string) get.Report {
		r := get.Report{Time: metav1.NewTime(now()), Summary: &get.Summary{}}
		for _, kind := range kinds {
			r.IncompleteKinds = append(r.IncompleteKinds, get.IncompleteKind{Kind: kind, Reason: get.Forbidden})
		}
		return r
	}
	empty, drifted, ready := unread(), unread(), unread()
	empty.Summary.Nodes = &get.NodeCounts{}
	drifted.Syncs = []get.Sync{{Drifted: "Unknown"}}
	ready.Syncs = []get.Sync{{Drifted: "False"}}
	for name, c := range map[string]struct {
		report  get.Report
		section string
		want    string
	}{
		"pools":                     {unread("nodepools.karpenter.sh"), "pools", "were not read"},
		"no pools":                  {empty, "pools", "There are no NodePools"},
		"nodes":                     {unread("nodes"), "nodes", "were not read"},
		"no nodes":                  {empty, "nodes", "cost nothing"},
		"Syncs":                     {unread("syncs.poolwright.dev"), "syncs", "were not read"},
		"pull requests":             {unread("syncs.poolwright.dev"), "pulls", "were not read"},
		"drift":                     {unread("syncs.poolwright.dev"), "drift", "Unknown"},
		"drift without Syncs":       {empty, "drift", "Unknown"},
		"drift before a comparison": {drifted, "drift", "Unknown"},
		"no drift":                  {ready, "drift", "Everything is as"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := renderer(t).Overview(Input{Report: c.report})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range d.Sections {
				if s.ID == c.section && !strings.Contains(string(s.HTML), c.want) {
					t.Errorf("it lacks %q:\n%s", c.want, s.HTML)
				}
			}
		})
	}
}
