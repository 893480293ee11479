package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// fault is what a controller serves while a fault lasts that an alert is for. The end-to-end tests read the same file,
// cmd/internal/e2e/alerts_test.go.
type fault struct {
	// of is an alert, or a metric of which the demo has no series.
	of, test, series string
}

func faults(t *testing.T) (all []fault) {
	t.Helper()
	for _, line := range lines(t, "testdata/faults.txt") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, " | ")
		if len(fields) != 4 {
			t.Fatalf("not four fields: %s", line)
		}
		all = append(all, fault{fields[0], fields[1], fields[3]})
	}
	return all
}

func TestEachAlertFiresInTheFaultThatItIsFor(t *testing.T) {
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	tests, awaited := inEndToEndTests(t, `(?m)^func (Test\w+)\(`), inEndToEndTests(t, `\.awaitSeries\([^,]+, [^,]+, "(\w+)"\)`)
	all := map[string][]fault{}
	for _, f := range faults(t) {
		all[f.of] = append(all[f.of], f)
		if !tests[f.test] || !awaited[f.of] {
			t.Errorf("there is no %s in cmd/internal/e2e, or no test awaits the series of %s", f.test, f.of)
		}
	}
	for _, rule := range rules {
		var text []string
		for _, f := range all[rule.Alert] {
			text = append(text, f.series)
		}
		delete(all, rule.Alert)
		var hold model.Duration
		if rule.For != nil {
			if hold, err = model.ParseDuration(string(*rule.For)); err != nil {
				t.Fatal(err)
			}
		}
		s := parseSeries(t, strings.Join(text, "\n"), time.Minute)
		if len(s) == 0 || len(firing(t, s, rule.Expr.String(), time.Duration(hold))) == 0 {
			t.Errorf("%s does not fire on %q", rule.Alert, text)
		}
	}
	for name, rows := range all {
		if selector(rows[0].series) != name {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// inEndToEndTests are the first groups of a pattern in the end-to-end tests.
func inEndToEndTests(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "cmd", "internal", "e2e", "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(raw, -1) {
			found[string(m[1])] = true
		}
	}
	return found
}
