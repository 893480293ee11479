// Package finding is what lint, plans and targets report beside differences: a code, by which programs and searches
// recognize it, the facts that it is about, and the sentence made from them for people.
//
// It refuses to decide what follows from a finding, and nothing may read one back from its sentence. The codes are
// constants of the packages that report them; what each of them means is in one table, from which docs/findings.md is
// made. Start reading at Finding, then at Descriptor.
package finding

import (
	"cmp"
	"fmt"
	"strings"
)

// Code identifies a kind of finding, in CamelCase as the reasons of conditions. It is stable: a code is never renamed,
// nor given another meaning.
type Code string

// The codes that several packages report.
const (
	// DuplicateObject: two manifests declare the same object.
	DuplicateObject Code = "DuplicateObject"
	// DuplicateKey: a mapping has a key twice.
	DuplicateKey Code = "DuplicateKey"
	// NameMissing: an object has no metadata.name.
	NameMissing Code = "NameMissing"
	// ObjectInvalid: a manifest cannot be read as an object of its kind.
	ObjectInvalid Code = "ObjectInvalid"
	// FileUnreadable: a file cannot be read.
	FileUnreadable Code = "FileUnreadable"
	// FindingsOmitted: there are more findings than are listed.
	FindingsOmitted Code = "FindingsOmitted"
	// RefusedByAPIServer: an object does not fit its schema in the cluster.
	RefusedByAPIServer Code = "RefusedByAPIServer"
	// HoldInvalid: a hold on an object names no time, or one that is too far ahead.
	HoldInvalid Code = "HoldInvalid"
	// IgnoreRuleUnused: a rule of spec.ignore of a Sync matches no declared object.
	IgnoreRuleUnused Code = "IgnoreRuleUnused"
	// Unreadable: the content of an object may not be read.
	Unreadable Code = "Unreadable"
	// DryRunRefused: an API server refuses a dry run of a change.
	DryRunRefused Code = "DryRunRefused"
)

// Finding is one thing to report.
type Finding struct {
	Code Code `json:"code"`
	// Facts are what Text is made from.
	Facts Facts `json:"facts,omitempty"`
	// Text is for people.
	Text string `json:"text"`
}

// New makes a finding whose text is the format with the arguments, as of fmt.Sprintf. Its facts are
// those of the arguments that are a Fact.
func New(code Code, format string, args ...any) Finding {
	return Finding{Code: code, Facts: FactsOf(args...), Text: fmt.Sprintf(format, args...)}
}

// With adds facts that the text does not have.
func (f Finding) With(facts ...Fact) Finding {
	f.Facts = f.Facts.with(facts)
	return f
}

// Compare orders findings by their texts.
func (f Finding) Compare(other Finding) int {
	return cmp.Or(strings.Compare(f.Text, other.Text), strings.Compare(string(f.Code), string(other.Code)), strings.Compare(string(f.Facts), string(other.Facts)))
}
