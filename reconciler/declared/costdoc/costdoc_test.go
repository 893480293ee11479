package costdoc_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/cost"
	"github.com/poolwright/poolwright/reconciler/declared/costdoc"
)

const whole = `# What the document says.
region: eu-west-1
hoursPerMonth: 720
prices:
  - {instanceType: g4dn.xlarge, capacityType: spot, usdPerHour: 0.16}
scenarios:
  - name: Always-on spot
    instanceType: g4dn.xlarge
    capacityType: spot
    hoursPerDay: 24
    statedUSD: 115
  - name: 필요할 때만
    instanceType: g4dn.xlarge
    capacityType: spot
    hoursPerMonth: 60
    statedUSD: 9.5 - 30
    statedSavingPercent: 90–95
`

func TestAFileIsReadWhole(t *testing.T) {
	got, problems, err := costdoc.Parse("x/cost.yaml", []byte(whole))
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	want := cost.Document{
		Name: "x/cost.yaml", Region: "eu-west-1", HoursPerMonth: 720,
		Prices: []cost.Quote{{InstanceType: "g4dn.xlarge", CapacityType: "spot", USDPerHour: 0.16}},
		Scenarios: []cost.Scenario{
			{Name: "Always-on spot", InstanceType: "g4dn.xlarge", CapacityType: "spot", Hours: 720, Stated: cost.Range{Min: 115, Max: 115}},
			{Name: "필요할 때만", InstanceType: "g4dn.xlarge", CapacityType: "spot", Hours: 60, Stated: cost.Range{Min: 9.5, Max: 30, Decimals: 1}, Saving: &cost.Range{Min: 90, Max: 95}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMonthIsThatOfBillsUnlessTheDocumentSetsIt(t *testing.T) {
	got, problems, err := costdoc.Parse("cost.yaml", []byte(strings.Replace(whole, "hoursPerMonth: 720\n", "", 1)))
	if err != nil || len(problems) > 0 || got.HoursPerMonth != 730 || got.Scenarios[0].Hours != 730 {
		t.Errorf("%v %v %+v", err, problems, got)
	}
}

func TestAProblemIsReportedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		want     []string
	}{
		"a field that there is not":            {"hoursPerMonth: 720", "hoursPrMonth: 720", []string{`cost.yaml:3: unknown field "hoursPrMonth" in a cost table; did you mean "hoursPerMonth"?`}},
		"a field of a price that there is not": {"usdPerHour: 0.16", "usd: 0.16", []string{`cost.yaml:5: unknown field "usd" in a price`}},
		"a price that is missing":              {", usdPerHour: 0.16", "", []string{"cost.yaml:5: usdPerHour is missing"}},
		"a price of nothing":                   {"usdPerHour: 0.16", "usdPerHour: 0", []string{`cost.yaml:5: usdPerHour "0" is not a number above 0 and up to 1000000000`}},
		"a price that is no number":            {"usdPerHour: 0.16", "usdPerHour: .nan", []string{`cost.yaml:5: usdPerHour ".nan" is not a number above 0`}},
		"a price with a sign":                  {"usdPerHour: 0.16", "usdPerHour: $0.16", []string{`cost.yaml:5: usdPerHour "$0.16" is not a number`}},
		"a price that is given twice":          {"scenarios:\n", "  - {instanceType: g4dn.xlarge, capacityType: spot, usdPerHour: 0.17}\nscenarios:\n", []string{"cost.yaml:5: the spot price of g4dn.xlarge is given twice; remove one"}},
		"a region that is none":                {"eu-west-1", "Ireland", []string{`cost.yaml:2: region "Ireland" is none, such as eu-west-1`}},
		"a type that is none":                  {"instanceType: g4dn.xlarge, ", "instanceType: G4, ", []string{`cost.yaml:5: instanceType "G4" is none, such as g4dn.xlarge`}},
		"a capacity type that there is not":    {"capacityType: spot, ", "capacityType: reserved, ", []string{`cost.yaml:5: capacityType "reserved" is neither spot nor on-demand`}},
		"no hours":                             {"    hoursPerDay: 24\n", "", []string{"cost.yaml:7: a scenario needs hoursPerDay or hoursPerMonth, and not both"}},
		"hours twice":                          {"    hoursPerDay: 24\n", "    hoursPerDay: 24\n    hoursPerMonth: 1\n", []string{"cost.yaml:7: a scenario needs hoursPerDay or hoursPerMonth, and not both"}},
		"a day of 25 hours":                    {"hoursPerDay: 24", "hoursPerDay: 25", []string{`cost.yaml:10: hoursPerDay "25" is not a number above 0 and up to 24`}},
		"more hours than the month":            {"hoursPerMonth: 60", "hoursPerMonth: 740", []string{"cost.yaml:15: hoursPerMonth 740 is more than the table's month has"}},
		"a figure that is none":                {"statedUSD: 115", "statedUSD: about 115", []string{`cost.yaml:11: statedUSD "about 115" is neither a number up to 1000000000 nor a range of two, such as 10-30`}},
		"a range the wrong way round":          {"9.5 - 30", "30-9.5", []string{`cost.yaml:16: statedUSD "30-9.5" is neither`}},
		"a saving of more than all":            {"90–95", "90–105", []string{`cost.yaml:17: statedSavingPercent "90–105" is neither a number up to 100`}},
		"a name that breaks a table":           {"Always-on spot", "Always | on", []string{`cost.yaml:7: name "Always | on" holds a character that no table can show`}},
		"a name that moves the cursor":         {"Always-on spot", `"a\e[2Jb"`, []string{`cost.yaml:7: name "a\x1b[2Jb" holds a character`}},
		"a name that is too long":              {"Always-on spot", strings.Repeat("long ", 20), []string{"cost.yaml:7: name must be 1 to 60 characters"}},
		"an empty field":                       {"statedUSD: 115", "statedUSD:", []string{"cost.yaml:11: statedUSD is empty: give it a value, or remove it"}},
		"a list that is none":                  {"prices:\n  - {", "prices:\n  {", []string{"cost.yaml:5: prices must be a list"}},
		"a scenario that is a text":            {"  - name: Always-on spot\n    instanceType: g4dn.xlarge\n    capacityType: spot\n    hoursPerDay: 24\n    statedUSD: 115\n", "  - always\n", []string{"cost.yaml:7: a scenario must be fields with values"}},
		"a key that is given twice":            {"hoursPerMonth: 720", "region: eu-west-2", []string{`cost.yaml:3: key "region" is given twice`}},
		"YAML that is none":                    {"hoursPerMonth: 720", "hoursPerMonth: [", []string{"this is not valid YAML"}},
		"two documents":                        {"prices:\n", "---\nprices:\n", []string{"cost.yaml:5: a second document starts here"}},
		"an alias":                             {"region: eu-west-1", "region: &r eu-west-1\nhours: *r", []string{`cost.yaml:3: unknown field "hours"`}},
	} {
		t.Run(name, func(t *testing.T) {
			content := strings.Replace(whole, c.from, c.to, 1)
			if content == whole {
				t.Fatal("the test changes nothing")
			}
			doc, problems, err := costdoc.Parse("cost.yaml", []byte(content))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(cost.Document{}, doc); diff != "" {
				t.Errorf("a document was made of it: %s", diff)
			}
			var message strings.Builder
			for _, p := range problems {
				message.WriteString(p.String() + "\n")
			}
			for _, want := range c.want {
				if !strings.Contains(message.String(), want) {
					t.Errorf("got  %swant %s", message.String(), want)
				}
			}
		})
	}
}

func TestAFileWithoutScenariosIsAProblem(t *testing.T) {
	for content, want := range map[string]string{
		"":                                   "cost.yaml:1: this file is empty",
		"# nothing\n":                        "cost.yaml:1: this file is empty",
		"region: eu-west-1\n":                "cost.yaml:1: scenarios are missing",
		"region: eu-west-1\nscenarios: []\n": "cost.yaml:1: scenarios are missing",
		"- a\n":                              "cost.yaml:1: a cost table must be fields with values",
	} {
		_, problems, err := costdoc.Parse("cost.yaml", []byte(content))
		if err != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].String(), want) {
			t.Errorf("%q: %v, %v", content, problems, err)
		}
	}
}

func TestAHugeFileIsRefused(t *testing.T) {
	huge := []byte("a: " + strings.Repeat("x", 1<<20))
	if _, _, err := costdoc.Parse("cost.yaml", huge); err == nil || !strings.Contains(err.Error(), "cost.yaml is larger than 256 KiB") {
		t.Error(err)
	}
	if _, _, err := costdoc.Read(fstest.MapFS{"cost.yaml": {Data: huge}}, "cost.yaml"); err == nil || !strings.Contains(err.Error(), "cost.yaml is larger than 256 KiB") {
		t.Error(err)
	}
	rows := []byte("scenarios: [" + strings.Repeat("{}, ", 300) + "]\n")
	if _, problems, err := costdoc.Parse("cost.yaml", rows); err != nil || len(problems) == 0 || !strings.Contains(problems[0].Message, "scenarios has 300 entries, the most are 200") {
		t.Error(problems, err)
	}
}

func TestTheNearestFileUpwardsIsFound(t *testing.T) {
	tree := fstest.MapFS{
		"cost.yaml":                  {Data: []byte("a")},
		"examples/a/cost.yaml":       {Data: []byte("a")},
		"examples/a/clusters/dev/x":  {Data: []byte("a")},
		"examples/b/clusters/dev/x":  {Data: []byte("a")},
		"examples/c/cost.yaml/x.txt": {Data: []byte("a")},
	}
	for folder, want := range map[string]string{
		"examples/a/clusters/dev": "examples/a/cost.yaml", "examples/a": "examples/a/cost.yaml",
		"examples/b/clusters/dev": "cost.yaml", "examples/c": "cost.yaml", ".": "cost.yaml", "": "cost.yaml",
	} {
		if got := costdoc.Find(tree, folder); got != want {
			t.Errorf("from %q: %q, want %q", folder, got, want)
		}
	}
	if got := costdoc.Find(fstest.MapFS{"a/x": {}}, "a"); got != "" {
		t.Errorf("found %q where there is none", got)
	}
}

// lineBreaks are those of YAML 1.1, section 5.4, by which the parser counts lines.
var lineBreaks = regexp.MustCompile("\r\n|[\n\r\u0085\u2028\u2029]")

// FuzzParse holds that a file is a document or has problems in lines that it has,
// and that what is reckoned from a document can be shown and is the same again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("scenarios: [{name: a, instanceType: g5.xlarge, capacityType: on-demand, hoursPerMonth: 0.000001, statedUSD: 999999999}]"))
	f.Add([]byte("scenarios: &a [*a]"))
	f.Add([]byte("{}"))
	f.Add([]byte("region: eu-west-1\rhours: 1\r"))
	types, err := catalog.Load()
	if err != nil {
		f.Fatal(err)
	}
	if types, err = types.Subset("g4dn", "g5"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		doc, problems, err := costdoc.Parse("cost.yaml", content)
		if err != nil {
			return
		}
		if len(problems) > 0 {
			for _, p := range problems {
				if p.Origin.Line < 1 || p.Origin.Line > 1+len(lineBreaks.FindAll(content, -1)) {
					t.Errorf("no such line: %s", p)
				}
			}
			return
		}
		if len(doc.Scenarios) == 0 {
			t.Fatal("neither a document nor a problem")
		}
		table := cost.NewTable(cost.Query{Region: "eu-west-1", HoursPerDay: 8, Document: &doc}, types)
		var text, markdown, raw bytes.Buffer
		for _, err := range []error{table.Text(&text), table.Markdown(&markdown), table.JSON(&raw)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, out := range []string{text.String(), markdown.String()} {
			if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("an unprintable character at %d of:\n%s", i, out)
			}
			if strings.Contains(out, "NaN") || strings.Contains(out, "Inf") {
				t.Errorf("a figure is none:\n%s", out)
			}
		}
		var again cost.Table
		if err := json.Unmarshal(raw.Bytes(), &again); err != nil {
			t.Fatal(err)
		}
	})
}
