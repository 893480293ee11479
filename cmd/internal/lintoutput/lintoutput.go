// Package lintoutput has the forms in which programs read what lint found: JSON, SARIF and the commands of
// GitHub Actions.
//
// It refuses to decide what a finding is, and to print it for people. Start reading at JSON.
package lintoutput

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/poolwright/poolwright/cmd/internal/offline"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// List is the JSON form of what lint found.
type List struct {
	Objects  int          `json:"objects"`
	Problems []Diagnostic `json:"problems"`
	Warnings []Diagnostic `json:"warnings"`
}

// Diagnostic is one of them. File is relative to the repository's root; Line is 0 where only the
// file is known.
type Diagnostic struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	// Code is a code of docs/findings.md, Facts are Message as data.
	Code    finding.Code  `json:"code"`
	Facts   finding.Facts `json:"facts,omitempty"`
	Message string        `json:"message"`
}

// JSON is what lint found, for JSON.
func JSON(found offline.LintResult) List {
	list := func(problems []state.Problem) []Diagnostic {
		out := make([]Diagnostic, 0, len(problems))
		for _, p := range problems {
			one := Diagnostic{File: p.Origin.File, Line: p.Origin.Line, Field: p.Field, Code: p.Code, Facts: p.Facts, Message: p.Message}
			if p.Object != (state.Key{}) {
				one.Object = p.Object.String()
			}
			out = append(out, one)
		}
		return out
	}
	return List{Objects: found.Objects, Problems: list(found.Problems), Warnings: list(found.Warnings)}
}

// WriteWorkflowCommands writes what lint found as commands of GitHub Actions, which shows each beside its line
// of a pull request.
func WriteWorkflowCommands(w io.Writer, found offline.LintResult) error {
	value := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var text strings.Builder
	for _, level := range []struct {
		name     string
		problems []state.Problem
	}{{"error", found.Problems}, {"warning", found.Warnings}} {
		for _, p := range level.problems {
			var properties []string
			if p.Origin.File != "" {
				properties = append(properties, "file="+property.Replace(printable(p.Origin.File)))
			}
			if p.Origin.Line > 0 {
				properties = append(properties, fmt.Sprintf("line=%d", p.Origin.Line))
			}
			properties = append(properties, "title="+property.Replace(printable(string(p.Code))))
			fmt.Fprintf(&text, "::%s %s::%s\n", level.name, strings.Join(properties, ","), value.Replace(printable(p.Message)))
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// printable has no control character but those that end lines, which a log would interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\r' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// The parts of SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format) that lint's findings
// have. Names are those of the specification.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   finding.Code       `json:"id"`
		ShortDescription     sarifMessage       `json:"shortDescription"`
		Help                 sarifMessage       `json:"help"`
		HelpURI              string             `json:"helpUri"`
		DefaultConfiguration sarifConfiguration `json:"defaultConfiguration"`
	}
	sarifConfiguration struct {
		Level finding.Severity `json:"level"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    finding.Code     `json:"ruleId"`
		Level     finding.Severity `json:"level"`
		Message   sarifMessage     `json:"message"`
		Locations []sarifLocation  `json:"locations,omitempty"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysicalLocation `json:"physicalLocation"`
	}
	sarifPhysicalLocation struct {
		ArtifactLocation sarifArtifactLocation `json:"artifactLocation"`
		Region           *sarifRegion          `json:"region,omitempty"`
	}
	sarifArtifactLocation struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
)

// SARIF is what lint of a version found as a SARIF log, for JSON.
func SARIF(found offline.LintResult, version string) any { return sarifOf(found, version) }

func sarifOf(found offline.LintResult, version string) sarifLog {
	results := append(sarifResults(found.Problems, finding.Error), sarifResults(found.Warnings, finding.Warning)...)
	return sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{
			Tool:    sarifTool{Driver: sarifDriver{Name: "poolwright lint", Version: version, Rules: sarifRules(results)}},
			Results: results,
		}},
	}
}

// sarifRules are the codes of the results, as far as the table of codes has them.
func sarifRules(results []sarifResult) []sarifRule {
	used := map[finding.Code]bool{}
	for _, r := range results {
		used[r.RuleID] = true
	}
	out := []sarifRule{}
	for _, code := range slices.Sorted(maps.Keys(used)) {
		if d, ok := finding.Describe(code); ok {
			out = append(out, sarifRule{code, sarifMessage{d.Summary}, sarifMessage{d.Remedy}, d.HelpURI(), sarifConfiguration{d.Severity}})
		}
	}
	return out
}

func sarifResults(problems []state.Problem, level finding.Severity) []sarifResult {
	out := make([]sarifResult, 0, len(problems))
	for _, p := range problems {
		result := sarifResult{RuleID: p.Code, Level: level, Message: sarifMessage{p.Message}}
		if p.Origin.File != "" {
			place := sarifPhysicalLocation{ArtifactLocation: sarifArtifactLocation{(&url.URL{Path: p.Origin.File}).String()}}
			if p.Origin.Line > 0 {
				place.Region = &sarifRegion{p.Origin.Line}
			}
			result.Locations = []sarifLocation{{place}}
		}
		out = append(out, result)
	}
	return out
}
