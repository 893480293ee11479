package page

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/poolwright/poolwright/internal/hostiletext"
)

// plant puts one text into every text of a document.
func plant(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		if !v.IsNil() {
			plant(v.Elem(), text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			plant(v.Index(i), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				plant(v.Field(i), text)
			}
		}
	default:
	}
}

// hostilePages are all pages, with one text wherever content can be.
func hostilePages(t testing.TB, text string) map[string]string {
	t.Helper()
	in := Input{Report: newReport(), Namespace: "poolwright-system", History: night(), Interrupted: &Interruption{Since: now()}}
	e := pendingPod()
	plant(reflect.ValueOf(&in).Elem(), text)
	plant(reflect.ValueOf(&e).Elem(), text)
	overview, err := renderer(t).Overview(in)
	out := map[string]string{"overview": rendered(t, overview, err)}
	explained, err := renderer(t).Explanation(ExplanationInput{Explanation: e, Path: "/pods/a/b", Name: text, Report: in.Report, Interrupted: in.Interrupted})
	out["explanation"] = rendered(t, explained, err)
	events, err := renderer(t).Events(EventsInput{Report: in.Report, History: in.History, Interrupted: in.Interrupted})
	out["events"] = rendered(t, events, err)
	pull, err := pulled(renderer(t).Pull(PullInput{Report: in.Report, Namespace: "poolwright-system", History: in.History, Interrupted: in.Interrupted, Number: 38}))
	out["pull"] = rendered(t, pull, err)
	open, err := pulled(renderer(t).Pull(PullInput{Report: in.Report, Namespace: "poolwright-system", History: in.History, Number: 41}))
	out["open pull"] = rendered(t, open, err)
	savings, err := renderer(t).Savings(SavingsInput{Report: in.Report, History: in.History, Interrupted: in.Interrupted})
	out["savings"] = rendered(t, savings, err)
	node, err := renderer(t).Explanation(ExplanationInput{Explanation: e, Path: "/nodes/a", Name: text, Report: in.Report, Recorded: RecordedNode(in.Report, in.History, text)})
	out["node"] = rendered(t, node, err)
	failed, err := renderer(t).Failure(text, text, in.Report)
	out["failure"] = rendered(t, failed, err)
	return out
}

// elements are the start tags of a page with the names of their attributes, in their order, and where its links lead.
func elements(t testing.TB, page string) (tags, links []string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return tags, links
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			tag := token.Data
			for _, a := range token.Attr {
				tag += " " + a.Key
				if slices.Contains([]string{"href", "src", "data-updates"}, a.Key) {
					links = append(links, a.Val)
				}
			}
			tags = append(tags, tag)
		default:
		}
	}
}

// checkInert fails where a text has become more than text.
func checkInert(t testing.TB, text string) {
	t.Helper()
	benign := hostilePages(t, "x")
	for name, got := range hostilePages(t, text) {
		want, _ := elements(t, benign[name])
		tags, links := elements(t, got)
		if diff := cmp.Diff(want, tags); diff != "" && strings.TrimSpace(text) != "" {
			t.Errorf("%s has other elements (-harmless +hostile):\n%s", name, diff)
		}
		for _, link := range links {
			if !strings.HasPrefix(link, "/") && !strings.HasPrefix(link, "#") || strings.HasPrefix(link, "//") {
				t.Errorf("%s has a link to %q", name, link)
			}
		}
		for i, r := range got {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%s has %U at %d", name, r, i)
			}
		}
		if len(got) > 500_000 {
			t.Errorf("%s has %d bytes", name, len(got))
		}
	}
}

func TestHostileContentStaysText(t *testing.T) {
	texts := hostiletext.All()
	texts["a megabyte"] = strings.Repeat("<b>", 1<<20/3)
	texts["a script in an attribute"] = `" onmouseover="alert(1)" x='`
	texts["a scheme"] = "javascript:alert(1)"
	texts["a template"] = `{{template "layout.html"}} {{.}}`
	texts["the end of a stream's event"] = "x\n\nevent: status\ndata: <b>"
	for name, text := range texts {
		t.Run(name, func(t *testing.T) { checkInert(t, text) })
	}
}

func FuzzHostileContentStaysText(f *testing.F) {
	for _, text := range hostiletext.All() {
		f.Add(text)
	}
	f.Fuzz(checkInertOf)
}

func checkInertOf(t *testing.T, text string) { checkInert(t, text) }

// A secret that is known by its shape is in no page, even where it is cut.
func TestNoSecretIsOnAPage(t *testing.T) {
	const secret = "ghp_0123456789abcdefABCDEF0123456789abcd"
	for name, text := range map[string]string{
		"alone":                    secret,
		"in a URL":                 "cloning https://bot:" + secret + "@git.example/x failed",
		"where the text is cut":    strings.Repeat("x ", maxText/2-5) + secret,
		"where much more is cut":   strings.Repeat("x ", 4*maxText-10) + secret,
		"in a header":              "Authorization: Bearer " + secret,
		"after a direction change": "\u202e" + secret,
	} {
		t.Run(name, func(t *testing.T) {
			for page, got := range hostilePages(t, text) {
				if strings.Contains(got, secret[:12]) {
					t.Errorf("%s has the secret", page)
				}
			}
		})
	}
}

// spanOf is how many columns a cell takes.
var spanOf = regexp.MustCompile(`colspan="([0-9]+)"`)

// The rows and cells of a table are named for who cannot read its layout.
func TestTablesHaveTheirHeaders(t *testing.T) {
	d, err := renderer(t).Overview(Input{Report: newReport(), Namespace: "poolwright-system", History: night()})
	overview := rendered(t, d, err)
	d, err = renderer(t).Explanation(ExplanationInput{Explanation: pendingPod(), Path: "/", Name: "x", Report: newReport()})
	pages := []string{overview, rendered(t, d, err)}
	d, err = pulled(renderer(t).Pull(PullInput{Report: newReport(), Namespace: "poolwright-system", History: night(), Number: 38}))
	pages = append(pages, rendered(t, d, err))
	d, err = renderer(t).Savings(SavingsInput{Report: newReport(), History: night()})
	for _, page := range append(pages, rendered(t, d, err)) {
		for table := range strings.SplitSeq(page, "<table") {
			table, _, found := strings.Cut(table, "</table>")
			if !found {
				continue
			}
			if !strings.Contains(table, "<caption") || !strings.Contains(table, `scope="col"`) || !strings.Contains(table, `scope="row"`) {
				t.Errorf("a table lacks its caption or its headers: %.200s", table)
			}
			head, body, _ := strings.Cut(table, "</thead>")
			columns := strings.Count(head, "<th role")
			for row := range strings.SplitSeq(body, "<tr ") {
				cells := strings.Count(row, "<th role") + strings.Count(row, "<td role")
				for _, span := range spanOf.FindAllStringSubmatch(row, -1) {
					n, _ := strconv.Atoi(span[1]) // they are digits
					cells += n - 1
				}
				if cells > 0 && cells != columns {
					t.Errorf("a row has %d cells and the table %d columns: %.200s", cells, columns, row)
				}
			}
		}
	}
}
