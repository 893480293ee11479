package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode"

	"github.com/poolwright/poolwright/cmd/internal/offline"
	"github.com/poolwright/poolwright/reconciler/state"
)

// lintFormats are the formats of lint's output.
var lintFormats = []string{"text", "json", "sarif", "github"}

// writeFindings writes what lint found in one of lintFormats.
func writeFindings(w io.Writer, format string, found offline.Linted) error {
	switch format {
	case "json":
		return writeJSON(w, findingsOf(found))
	case "sarif":
		return writeJSON(w, sarifOf(found))
	case "github":
		return writeWorkflowCommands(w, found)
	}
	var text strings.Builder
	for _, p := range found.All() {
		fmt.Fprintln(&text, p)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeJSON writes a value as indented JSON.
func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// findings is the JSON form of what lint found.
type findings struct {
	Objects  int       `json:"objects"`
	Mistakes []finding `json:"mistakes"`
	Warnings []finding `json:"warnings"`
}

// finding is one of them. File is relative to the repository's root; Line is 0 where only the
// file is known.
type finding struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Object  string `json:"object,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

func findingsOf(found offline.Linted) findings {
	list := func(problems []state.Problem) []finding {
		out := make([]finding, 0, len(problems))
		for _, p := range problems {
			one := finding{File: p.Origin.File, Line: p.Origin.Line, Field: p.Field, Message: p.Message}
			if p.Object != (state.Key{}) {
				one.Object = p.Object.String()
			}
			out = append(out, one)
		}
		return out
	}
	return findings{Objects: found.Objects, Mistakes: list(found.Mistakes), Warnings: list(found.Warnings)}
}

// writeWorkflowCommands writes them as commands of GitHub Actions, which shows each beside its line
// of a pull request.
func writeWorkflowCommands(w io.Writer, found offline.Linted) error {
	value := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	var text strings.Builder
	for _, level := range []struct {
		name     string
		problems []state.Problem
	}{{"error", found.Mistakes}, {"warning", found.Warnings}} {
		for _, p := range level.problems {
			place := ""
			if p.Origin.File != "" {
				place = " file=" + property.Replace(printable(p.Origin.File))
			}
			if p.Origin.Line > 0 {
				place += fmt.Sprintf(",line=%d", p.Origin.Line)
			}
			fmt.Fprintf(&text, "::%s%s::%s\n", level.name, place, value.Replace(printable(p.Message)))
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
		ID               string       `json:"id"`
		ShortDescription sarifMessage `json:"shortDescription"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
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

const (
	ruleMistake = "mistake"
	ruleWarning = "warning"
)

func sarifOf(found offline.Linted) sarifLog {
	results := append(sarifResults(found.Mistakes, ruleMistake, "error"), sarifResults(found.Warnings, ruleWarning, "warning")...)
	return sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{
			Tool: sarifTool{Driver: sarifDriver{Name: "poolwright lint", Version: readVersion().Version, Rules: []sarifRule{
				{ruleMistake, sarifMessage{"What cannot work, or a secret in Git"}},
				{ruleWarning, sarifMessage{"What may have another effect or a higher price than intended"}},
			}}},
			Results: results,
		}},
	}
}

func sarifResults(problems []state.Problem, rule, level string) []sarifResult {
	out := make([]sarifResult, 0, len(problems))
	for _, p := range problems {
		result := sarifResult{RuleID: rule, Level: level, Message: sarifMessage{p.Message}}
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
