package finding

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type resource string

func TestTheTextIsThatOfTheFormatAndTheFactsAreItsArguments(t *testing.T) {
	for name, c := range map[string]struct {
		got   Finding
		text  string
		facts string
	}{
		"no arguments":                        {New("C", "100%% sure"), "100% sure", ""},
		"numbers, in the order of the names":  {New("C", "%d of %.2f", NewFact("used", 3), NewFact("hourlyUSD", 1.5)), "3 of 1.50", `{"hourlyUSD":1.5,"used":3}`},
		"text with a width":                   {New("C", "%.2q", NewFact("name", "abc")), `"ab"`, `{"name":"abc"}`},
		"an error, a Stringer and a resource": {New("C", "%v %s %s", NewFact("reason", errors.New("denied")), NewFact("after", time.Minute), NewFact("resource", resource("cpu"))), "denied 1m0s cpu", `{"after":"1m0s","reason":"denied","resource":"cpu"}`},
		"a value that the text has otherwise": {New("C", "after %s", As("timeoutSeconds", time.Minute.Seconds(), time.Minute)), "after 1m0s", `{"timeoutSeconds":60}`},
		"a list":                              {New("C", "%s", As("pools", []string{"a", "b"}, "a and b")), "a and b", `{"pools":["a","b"]}`},
		"what is no fact":                     {New("C", "%s %d", "a", 1), "a 1", ""},
		"empty and without a value":           {New("C", "x%s%s", NewFact("name", ""), As("hourlyUSD", nil, "")).With(NewFact("list", []string(nil))), "x", ""},
		"no number that JSON has":             {New("C", "%v", NewFact("n", math.Inf(1))), "+Inf", `{"n":"+Inf"}`},
		"facts that the text does not have":   {New("C", "x").With(NewFact("b", true), NewFact("a", uint8(1))), "x", `{"a":1,"b":true}`},
		"a later one of the same name":        {New("C", "%d", NewFact("n", 1)).With(NewFact("n", 2)), "1", `{"n":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			want := Finding{Code: "C", Facts: Facts(c.facts), Text: c.text}
			if diff := cmp.Diff(want, c.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindingsAreOrderedByTextCodeAndFacts(t *testing.T) {
	want := []Finding{{Code: "B", Text: "a"}, {Code: "A", Text: "b"}, {Code: "B", Text: "b"}, {Code: "B", Facts: `{"a":1}`, Text: "b"}}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Finding.Compare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFactsAreTheSameAfterJSON(t *testing.T) {
	for _, facts := range []Facts{"", FactsOf(NewFact("a", "<x> & \"y\""), NewFact("n", int64(math.MaxInt64)), NewFact("usd", 0.25), NewFact("on", false), NewFact("list", []string{"b", "a"}))} {
		raw, err := json.Marshal(Finding{Code: "C", Facts: facts})
		var got Finding
		if err == nil {
			err = json.Unmarshal(raw, &got)
		}
		if err != nil || got.Facts != facts {
			t.Errorf("%s became %s, %v", facts, got.Facts, err)
		}
	}
	if raw, err := json.Marshal(Finding{Code: "C", Text: "t"}); err != nil || string(raw) != `{"code":"C","text":"t"}` {
		t.Errorf("without facts it is %s, %v", raw, err)
	}
}

// A process that renders untrusted content may return anything.
func TestOfForeignJSONOnlyFactsAreTaken(t *testing.T) {
	for in, want := range map[string]Facts{
		`null`:            "",
		`"text"`:          "",
		`[1]`:             "",
		`{}`:              "",
		`{"a":{"b":"c"}}`: "",
		`{"A b":"x","ok":"y","toolong` + strings.Repeat("x", 64) + `":1}`: `{"ok":"y"}`,
		`{"list":["a",1],"texts":["a"],"none":null}`:                      `{"texts":["a"]}`,
		`{"b":1,"a":2}`: `{"a":2,"b":1}`,
	} {
		got := Facts("left over")
		if err := json.Unmarshal([]byte(in), &got); err != nil || got != want {
			t.Errorf("%s became %q, %v", in, got, err)
		}
	}
	var got Facts
	if err := got.UnmarshalJSON([]byte("{")); err == nil {
		t.Errorf("no error, and %q", got)
	}
}

func TestEveryTextOfFactsIsChanged(t *testing.T) {
	facts := FactsOf(NewFact("a", "secret"), NewFact("list", []string{"x", "secret"}), NewFact("n", 1))
	got := facts.Texts(func(text string) string { return strings.ReplaceAll(text, "secret", "(masked)") })
	if want := Facts(`{"a":"(masked)","list":["x","(masked)"],"n":1}`); got != want {
		t.Errorf("got %s", got)
	}
	if got := Facts("").Texts(strings.ToUpper); got != "" {
		t.Errorf("of none: %q", got)
	}
}

func TestFactsWithoutNumbersKeepTheRest(t *testing.T) {
	of := FactsOf(NewFact("vcpus", 12), NewFact("ratio", 0.5), NewFact("pool", "gpu-2"), NewFact("zones", []string{"a"}), NewFact("spot", true))
	if diff := cmp.Diff(FactsOf(NewFact("pool", "gpu-2"), NewFact("zones", []string{"a"}), NewFact("spot", true)), of.WithoutNumbers()); diff != "" {
		t.Error(diff)
	}
	if got := FactsOf(NewFact("vcpus", 12)).WithoutNumbers(); got != "" {
		t.Errorf("of numbers alone there is %s", got)
	}
}

// The form of codes is that of reasons of conditions, by which dashboards and searches go.
func TestEachCodeIsDescribedInAForm(t *testing.T) {
	form := regexp.MustCompile(`^[A-Z][A-Za-z0-9]{3,50}$`)
	all := map[Code]bool{}
	for _, s := range Sections() {
		previous := ""
		for _, d := range s.Descriptors {
			if !form.MatchString(string(d.Code)) || string(d.Code) <= previous || all[d.Code] {
				t.Errorf("%s: %s after %s", s.Title, d.Code, previous)
			}
			for _, sentence := range []string{d.Summary, d.Remedy} {
				if !strings.HasSuffix(sentence, ".") || strings.ContainsAny(sentence, "|\n") {
					t.Errorf("%s: no sentence that a table can have: %q", d.Code, sentence)
				}
			}
			if !slices.Contains([]Severity{Error, Warning, Note}, d.Severity) {
				t.Errorf("%s: severity %q", d.Code, d.Severity)
			}
			if got, ok := Describe(d.Code); !ok || got != d {
				t.Errorf("%s is described as %+v", d.Code, got)
			}
			all[d.Code], previous = true, string(d.Code)
		}
	}
	if got, ok := Describe("Daguerreotype"); ok {
		t.Errorf("described is %+v", got)
	}
}

func ExampleNew() {
	f := New(DuplicateKey, "key %q is given twice, first in line %d; remove one", NewFact("key", "spec"), NewFact("firstLine", 3))
	d, _ := Describe(f.Code)
	fmt.Println(f.Text)
	fmt.Println(f.Code, d.Severity, f.Facts)
	// Output:
	// key "spec" is given twice, first in line 3; remove one
	// DuplicateKey error {"firstLine":3,"key":"spec"}
}

func TestAFactThatIsNoFiniteNumberIsLeftOut(t *testing.T) {
	var got Facts
	if err := json.Unmarshal([]byte(`{"a":1e999,"b":-1e400,"c":1e9,"d":9223372036854775807}`), &got); err != nil {
		t.Fatal(err)
	}
	if want := Facts(`{"c":1e9,"d":9223372036854775807}`); got != want {
		t.Errorf("facts are %s, want %s", got, want)
	}
}
