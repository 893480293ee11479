package examples_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whoever has one of the documents finds its commands and what became of each part, in
// every example under the same headings.
func TestEveryPageHasTheSectionsOfTheDocuments(t *testing.T) {
	for _, page := range readPages(t) {
		for _, heading := range []string{"Verify", "Monitor", "Troubleshoot", "Differences from the document"} {
			if !strings.Contains(page.text, "\n## "+heading+"\n") {
				t.Errorf("%s has no section %q", page.name, heading)
			}
		}
	}
}

var (
	// listed is a command whose comment has the names that it prints, or whose output is below it.
	listed = regexp.MustCompile("(?m)^(?:kubectl get (nodepools|ec2nodeclasses) +# (.*)|\\$ kubectl get (nodepools|ec2nodeclasses)\n((?:[A-Za-z].*\n)+))")
	// selector is a label that a command selects nodes or pods by.
	selector = regexp.MustCompile(`(?m)kubectl [^\n|#]*? -l ([^\s=` + "`" + `]+)(?:=([^\s` + "`" + `]+))?`)
	quoted   = regexp.MustCompile("`(workloads|scaling|monitoring)/([a-z0-9.-]+)`|-f ((?:workloads|scaling|monitoring)/\\S+)")
)

func TestCommandsOfThePagesNameWhatTheExampleDeclares(t *testing.T) {
	kinds := map[string]string{"nodepools": "NodePool", "ec2nodeclasses": "EC2NodeClass"}
	for _, page := range readPages(t) {
		commands := listed.FindAllStringSubmatch(page.text, -1)
		if len(commands) != len(kinds) {
			t.Errorf("%s lists %d kinds of objects by a command, not %d", page.name, len(commands), len(kinds))
		}
		for _, command := range commands {
			kind, names := command[1], strings.Split(command[2], ", ")
			if kind == "" {
				kind, names = command[3], nil
				for line := range strings.Lines(command[4]) {
					names = append(names, strings.Fields(line)[0])
				}
				names = names[1:] // below the heading
			}
			if diff := cmp.Diff(named(page.plan, kinds[kind]), names); diff != "" {
				t.Errorf("%s: kubectl get %s prints something else (-declared +page):\n%s", page.name, kind, diff)
			}
		}
		for _, label := range selector.FindAllStringSubmatch(page.text, -1) {
			key, value := label[1], label[2]
			known := key == "karpenter.sh/nodepool" || key+"="+value == "app.kubernetes.io/name=poolwright"
			if !known && !strings.Contains(page.plan, key+": "+value) {
				t.Errorf("%s selects by %s=%s, which nothing in the example has", page.name, key, value)
			}
		}
		for _, file := range quoted.FindAllStringSubmatch(page.text, -1) {
			name := file[3]
			if name == "" {
				name = file[1] + "/" + file[2]
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page.name), name)); err != nil {
				t.Errorf("%s names a file that does not exist: %v", page.name, err)
			}
		}
	}
}

// The tests of the set-ups compare a comment behind a command with what it lists, and nothing else.
func TestCommentsBehindCommandsOfThePagesAreNamesOfPoolsAndClasses(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```(?:sh|console)\n(.*?)^```$")
	compared := regexp.MustCompile(`^(?:\$ )?kubectl get (?:nodepools|ec2nodeclasses) +#`)
	for _, page := range readPages(t) {
		for _, commands := range block.FindAllStringSubmatch(page.text, -1) {
			for line := range strings.Lines(commands[1]) {
				if strings.Contains(line, " #") && !compared.MatchString(line) {
					t.Errorf("%s has a comment that no test compares with anything: %s", page.name, line)
				}
			}
		}
	}
}

// The page of altanova has a time of the printed demo beside the document's.
func TestThePageOfAltanovaHasTheTimeOfThePrintedDemo(t *testing.T) {
	demo, err := os.ReadFile(filepath.Join("..", "docs", "demo.md"))
	if err != nil {
		t.Fatal(err)
	}
	printed := regexp.MustCompile(`(?m)^ *pod pending +-> CreateFleet requested +([0-9.]+ s)  5 s$`).FindSubmatch(demo)
	if printed == nil {
		t.Fatal("docs/demo.md has no time from the pending pod to the CreateFleet request")
	}
	page, err := os.ReadFile(filepath.Join("altanova", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := "| 5 s | " + string(printed[1]) + " from the pending pod to the CreateFleet request, in [the demo]"
	if !strings.Contains(string(page), want) {
		t.Errorf("the page of altanova has another time than docs/demo.md, which has %q", want)
	}
}

// A metric that a page maps one of a document's to is registered by the controller, under that name.
func TestMetricsOfThePagesAreRegistered(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", ".ci", "monitoring", "testdata", "registered.txt"))
	if err != nil {
		t.Fatal(err)
	}
	registered := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			registered[fields[0]] = true
		}
	}
	n := 0
	for _, page := range readPages(t) {
		for _, cells := range mapped(page.text) {
			for _, name := range metricName.FindAllString(cells[1], -1) {
				n++
				if !registered[name] {
					t.Errorf("%s has the metric %s, which the controller does not register", page.name, name)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d metrics were found", n)
	}
}

// A panel that a page maps a panel or a metric of a document's to is on the shipped dashboard that it names, and
// shows the metric. A metric without one has "none".
func TestPanelsOfThePagesAreOnTheShippedDashboards(t *testing.T) {
	shipped := shippedPanels(t)
	n := 0
	panel := regexp.MustCompile(`"([^"]*)"`)
	for _, page := range readPages(t) {
		for _, cells := range mapped(page.text) {
			last := cells[len(cells)-1]
			without := strings.HasPrefix(last, "none; ")
			if !without && !panel.MatchString(last) {
				t.Errorf("%s has neither a panel nor none for %s", page.name, cells[0])
			}
			for group := range strings.SplitSeq(last, ";") {
				dashboard, panels, _ := strings.Cut(strings.TrimSpace(group), ":")
				for _, m := range panel.FindAllStringSubmatch(panels, -1) {
					n++
					shows, found := shipped[dashboard][m[1]]
					if !found {
						t.Errorf("%s names the panel %q of %q, which that dashboard does not have", page.name, m[1], dashboard)
					}
					metrics := metricName.FindAllString(cells[1], -1)
					if len(cells) > 2 && !without && !slices.ContainsFunc(metrics, func(name string) bool { return strings.Contains(shows, name) }) {
						t.Errorf("%s has the panel %q for %q, and its queries are %q", page.name, m[1], metrics, shows)
					}
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d panels were found", n)
	}
}

var (
	metricName = regexp.MustCompile(`(?:karpenter|poolwright)_[a-z_]*[a-z]`)
	// tableOfPanels has panels of the shipped dashboards in its last column.
	tableOfPanels = regexp.MustCompile(`(?m)^\|.*\| panel of a [^|\n]*shipped dashboard[^|\n]* \|\n\|[-|]*\n((?:\|.*\n)+)`)
)

// mapped are the rows of a page's tables that map panels of the document, with two cells each, or metrics, with three:
// the document's, today's, and the panel.
func mapped(text string) (rows [][]string) {
	for _, table := range tableOfPanels.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(table[1]) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// shippedPanels are the queries of each panel, by the names of its dashboard and its own.
func shippedPanels(t *testing.T) map[string]map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "config", "monitoring", "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	shipped := map[string]map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var dashboard struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			t.Fatal(file, err)
		}
		panels := map[string]string{}
		for _, p := range dashboard.Panels {
			for _, target := range p.Targets {
				panels[p.Title] += target.Expr + "\n"
			}
		}
		shipped[strings.TrimPrefix(dashboard.Title, "Poolwright / ")] = panels
	}
	return shipped
}

type page struct {
	name, text string
	// plan is the golden plan of the example's clusters.
	plan string
}

func readPages(t *testing.T) (pages []page) {
	t.Helper()
	names, err := filepath.Glob("*/README.md")
	if err != nil || len(names) != 5 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		plans, err := filepath.Glob(filepath.Join("testdata", filepath.Dir(name), "*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		all := ""
		for _, plan := range plans {
			content, err := os.ReadFile(plan)
			if err != nil {
				t.Fatal(err)
			}
			all += string(content)
		}
		pages = append(pages, page{name, string(text), all})
	}
	return pages
}

// named are the names of the objects of a kind that a plan creates.
func named(plan, kind string) []string {
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\+ `+kind+`\.[a-z0-9.]+/([a-z0-9-]+) `).FindAllStringSubmatch(plan, -1) {
		names[m[1]] = true
	}
	return slices.Sorted(maps.Keys(names))
}
