package page

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

const (
	// unknown stands for a value that is not known.
	unknown = "–"
	// atLeast is before what is only bounded below.
	atLeast = "≥ "
	// maxText is how many characters of a text a page has: a message may be a megabyte long.
	maxText = 600
	// hoursPerMonth is that of AWS' own estimates.
	hoursPerMonth = 730
	// The signs are of fonts that every system has; emoji are not.
	signError   = "✕"
	signWarning = "⚠"
	signNote    = "○"
	signGood    = "✓"
)

// functions are those of the templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"text": clean, "money": money, "monthly": monthly, "number": number, "count": count, "percent": percent, "scale": scale, "short": short,
		"windowName": windowName, "windowQuery": windowQuery, "stamp": stamp, "orDash": orDash, "since": since, "pullSign": pullSign, "column": column,
	}
}

// clean is text without secrets that are known by their shape and without what does not print, which ends after some hundred characters.
func clean(s string) string {
	// A secret that is cut in two is not known by its shape: more is sanitized than is kept.
	const margin = 4 * maxText
	cut := len(s) > 2*margin
	if cut {
		s = strings.ToValidUTF8(s[:2*margin], "")
	}
	s = sanitize.Text(s)
	if runes := []rune(s); cut || len(runes) > maxText {
		return string(runes[:min(len(runes), maxText)]) + "…"
	}
	return s
}

// orDash is a text, or where it is empty what stands for one that is not known.
func orDash(s string) string {
	if s == "" {
		return unknown
	}
	return clean(s)
}

// money is a price by the hour, without the unit.
func money(u *get.USD) string {
	if u == nil {
		return unknown
	}
	return priceRange(u, amount(u.Min), amount(u.Max))
}

// monthly is what a price by the hour is for a month.
func monthly(u *get.USD) string {
	if u == nil {
		return unknown
	}
	return priceRange(u, thousands(u.Min*hoursPerMonth), thousands(u.Max*hoursPerMonth))
}

// priceRange is a price from the least to the most, as texts.
func priceRange(u *get.USD, least, most string) string {
	text := withSign(least)
	if most != least {
		text += "–" + most
	}
	if u.Approximate {
		return "~" + text
	}
	return text
}

// withSign is a number of dollars with the sign of the currency, which is before the number of one that is only bounded, as in <$0.01.
func withSign(dollars string) string {
	if bound, found := strings.CutPrefix(dollars, "<"); found {
		return "<$" + bound
	}
	return "$" + dollars
}

// amount is a number of dollars with cents. Only nothing is 0; what is less than a cent is not rounded to it.
func amount(usd float64) string {
	const cent = 0.01
	switch {
	case usd <= 0 || math.IsNaN(usd):
		return "0"
	case usd < cent:
		return "<0.01"
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(usd, 'f', 2, 64), ".")
	return grouped(whole) + "." + fraction
}

// costChange is by how much more or less an hour costs, between the least and the most, where that is known.
func costChange(least, most float64, known bool) string {
	if !known {
		return unknown
	}
	text := signed(least)
	if high := signed(most); high != text {
		text += " to " + high
	}
	return text + "/h"
}

// signed is a number of dollars with its sign.
func signed(usd float64) string {
	switch {
	case usd > 0:
		return "+" + withSign(amount(usd))
	case usd < 0:
		return "−" + withSign(amount(-usd))
	}
	return withSign(amount(0))
}

// thousands is a number of dollars without cents.
func thousands(usd float64) string {
	if usd <= 0 || math.IsNaN(usd) {
		return "0"
	}
	return grouped(strconv.FormatFloat(math.Round(usd), 'f', 0, 64))
}

// grouped is a number with a comma before each three digits.
func grouped(digits string) string {
	const group = 3
	for i := len(digits) - group; i > 0; i -= group {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func number(n *int64) string {
	if n == nil {
		return unknown
	}
	return grouped(strconv.FormatInt(*n, 10))
}

func count(n *int) string {
	if n == nil {
		return unknown
	}
	return grouped(strconv.Itoa(*n))
}

// percent is a part of a whole, from 0 to 100.
func percent(part, whole float64) float64 {
	const all = 100
	if whole <= 0 || math.IsNaN(part) || math.IsNaN(whole) {
		return 0
	}
	return math.Round(min(1, max(0, part/whole))*all*10) / 10
}

// scale is a number of percent as SVG has it.
func scale(p float64) string { return strconv.FormatFloat(p, 'f', -1, 64) }

// short are the first digits of a commit, or of a revision.
func short(revision string) string {
	const digits = 7
	revision = clean(revision)
	if ref, commit, found := strings.Cut(revision, "@sha1:"); found && len(commit) > digits {
		return ref + "@" + commit[:digits]
	}
	if len(revision) > digits && strings.Trim(revision, "0123456789abcdef") == "" {
		return revision[:digits]
	}
	return orDash(revision)
}

// age is how long before a time something was.
func age(now time.Time, t metav1.Time) string {
	if t.IsZero() {
		return unknown
	}
	return duration.ShortHumanDuration(max(0, now.Sub(t.Time).Round(time.Second)))
}

// clock is the time of day, of a time that is a day ago with its date; empty of the zero time.
func clock(t, now time.Time) string {
	const day = 24 * time.Hour
	switch {
	case t.IsZero():
		return ""
	case now.Sub(t) >= day:
		return t.UTC().Format("Jan 2 " + time.TimeOnly)
	}
	return t.UTC().Format(time.TimeOnly)
}

// stamp is a time as the attribute datetime has it.
func stamp(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

// windowName is the length of a timeline.
func windowName(d time.Duration) string {
	const day = 24 * time.Hour
	if d > day {
		return fmt.Sprintf("%d d", d/day)
	}
	return fmt.Sprintf("%d h", d/time.Hour)
}

// since is a window as the flag --since takes it.
func since(d time.Duration) string { return fmt.Sprintf("%dh", d/time.Hour) }

// windowQuery is the query by which a page is requested with a timeline of some length.
func windowQuery(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("?hours=%d", d/time.Hour)
}

// column is the label of one of the GPU hours of a use.
func column(i int) string {
	return []string{"GPU hours paid", "GPU hours requested", "GPU hours idle", "GPU hours not allocatable", "GPU hours not observed"}[i]
}

// pullSign is the sign of a pull request's phase.
func pullSign(phase string) string {
	switch phase {
	case "Failed":
		return signError
	case "Done":
		return signGood
	case "RollingOut", "Merged":
		return "▸"
	}
	return signNote
}

// Text is what a page has of a text that is not ours.
func Text(s string) string { return clean(s) }
