package examples_test

import (
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

// A metric that a page maps one of a document's to is one that the controller served in the
// recorded demo, by the same name.
func TestMetricsOfThePagesWereServedInTheDemo(t *testing.T) {
	served := map[string]bool{}
	files, err := filepath.Glob(filepath.Join("..", ".ci", "monitoring", "testdata", "*"))
	if err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`(?:karpenter|poolwright)_[a-z_]*[a-z]`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metric.FindAllString(string(text), -1) {
			served[name] = true
		}
	}
	n := 0
	row := regexp.MustCompile("(?m)^\\| [^|]*`[^|]*\\| (`[^|\n]*) \\|$")
	for _, page := range readPages(t) {
		for _, cells := range row.FindAllStringSubmatch(page.text, -1) {
			for _, name := range metric.FindAllString(cells[1], -1) {
				n++
				if !served[name] {
					t.Errorf("%s has the metric %s, which the demo did not serve", page.name, name)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d metrics were found", n)
	}
}

// A panel that a page maps one of a document's to is on the shipped dashboard that it names.
func TestPanelsOfThePagesAreOnTheShippedDashboards(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "config", "monitoring", "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`"title": "([^"]*)"`)
	shipped := map[string][]string{} // by the name of the dashboard
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var titles []string
		name := ""
		for _, m := range title.FindAllStringSubmatch(string(text), -1) {
			if of, found := strings.CutPrefix(m[1], "Poolwright / "); found {
				name = of
			}
			titles = append(titles, m[1])
		}
		shipped[name] = titles
	}
	n := 0
	panel := regexp.MustCompile(`"([^"]*)"`)
	for _, page := range readPages(t) {
		_, table, found := strings.Cut(page.text, "\n| panel of the document |")
		if !found {
			continue
		}
		rows, _, _ := strings.Cut(table, "\n\n")
		for _, row := range strings.Split(rows, "\n")[2:] {
			cells := strings.Split(row, "|")
			for group := range strings.SplitSeq(cells[2], ";") {
				dashboard, panels, _ := strings.Cut(strings.TrimSpace(group), ":")
				for _, m := range panel.FindAllStringSubmatch(panels, -1) {
					n++
					if !slices.Contains(shipped[dashboard], m[1]) {
						t.Errorf("%s names the panel %q of %q, which that dashboard does not have", page.name, m[1], dashboard)
					}
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d panels were found", n)
	}
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
