package query

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, body string) Form {
	t.Helper()
	f, err := Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLists(t *testing.T) {
	f := parse(t, "Id.2=b&Id.10=c&Id.1=a&Filter.1.Name=n&Filter.1.Value.1=v&Filter.2.Name=m&Idx.1=no")
	if diff := cmp.Diff([]string{"a", "b", "c"}, f.List("Id")); diff != "" {
		t.Error("a list must come in the order of its numbers:", diff)
	}
	fs := f.Each("Filter")
	if len(fs) != 2 || fs[0].Get("Name") != "n" || fs[1].Get("Name") != "m" {
		t.Errorf("sub-forms: %v", fs)
	}
	if diff := cmp.Diff([]string{"v"}, fs[0].List("Value")); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, body := range map[string]string{
		"a name given twice":   "A=1&A=2",
		"a broken percent":     "A=%zz",
		"a semicolon as break": "A=1;B=2",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(body); err == nil {
				t.Error("was accepted")
			}
		})
	}
}

func TestUnknown(t *testing.T) {
	patterns := []string{"Action", "Filter.#.Name", "Filter.#.Value.#", "Data.*"}
	for body, want := range map[string]string{
		"Action=a&Filter.1.Name=n&Filter.12.Value.3=v": "",
		"Data.Any.Thing.4=x":                           "",
		"Data=x":                                       "Data",
		"Filter.Name=x":                                "Filter.Name",
		"Filter.0.Name=x":                              "Filter.0.Name",
		"Filter.01.Name=x":                             "Filter.01.Name",
		"Filter.1.Name.1=x":                            "Filter.1.Name.1",
		"Filter.1=x":                                   "Filter.1",
		"Action=a&Zeta=1&Ba=2":                         "Ba",
	} {
		if got := parse(t, body).Unknown(patterns); got != want {
			t.Errorf("%s: unknown %q, want %q", body, got, want)
		}
	}
}

func TestNumbersAndBooleans(t *testing.T) {
	f := parse(t, "N=12&Bad=1x&T=true&F=false&E=")
	if n, ok, err := f.Int("N"); n != 12 || !ok || err != nil {
		t.Error(n, ok, err)
	}
	if _, ok, err := f.Int("Absent"); ok || err != nil {
		t.Error(ok, err)
	}
	if _, _, err := f.Int("Bad"); err == nil || !strings.Contains(err.Error(), "Bad") {
		t.Error("the error must name the parameter:", err)
	}
	if v, err := f.Bool("T"); !v || err != nil {
		t.Error(v, err)
	}
	if v, err := f.Bool("F"); v || err != nil {
		t.Error(v, err)
	}
	if _, err := f.Bool("E"); err == nil {
		t.Error("an empty boolean was accepted")
	}
}

func TestDocument(t *testing.T) {
	got := string(Document(Group("R", Text("a", `<&>"`), Opt("b", ""), Opt("c", "x"), Bool("d", true),
		List("set", "item", []Element{Group("", Int("n", 1)), Group("", Int("n", 2))}), Values("vs", "member", []string{"p"})), "urn:x"))
	want := `<?xml version="1.0" encoding="UTF-8"?>` + "\n" +
		`<R xmlns="urn:x"><a>&lt;&amp;&gt;&#34;</a><c>x</c><d>true</d><set><item><n>1</n></item><item><n>2</n></item></set><vs><member>p</member></vs></R>`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzForm(f *testing.F) {
	f.Add("Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag%3Aa&Filter.1.Value.1=b")
	f.Add("A.1.B.2=x&A.01=y&A..=&.=1&=&A.999999999999=z")
	f.Fuzz(func(t *testing.T, body string) {
		form, err := Parse(body)
		if err != nil {
			return
		}
		for _, name := range form.Names() {
			if got := form.Unknown([]string{"*"}); got != "" {
				t.Fatalf("* does not cover %q", got)
			}
			head, _, _ := strings.Cut(name, ".")
			_ = form.List(head)
			for _, sub := range form.Each(head) {
				_ = sub.Names()
			}
			doc := Document(Group("r", Text("v", name), Text("w", form.Get(name))), "")
			d := xml.NewDecoder(strings.NewReader(string(doc)))
			for {
				if _, err := d.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("the answer is not XML: %v", err)
				}
			}
		}
	})
}
