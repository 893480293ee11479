package iam

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// statement is a part of a policy document, as far as IAM checks it when it
// stores one.
type statement map[string]json.RawMessage

func (s statement) has(any ...string) bool {
	return slices.ContainsFunc(any, func(k string) bool { _, ok := s[k]; return ok })
}

func malformed(format string, args ...any) error {
	return api.Refuse("MalformedPolicyDocument", format, args...)
}

// documentForm are the characters that IAM takes in a document: those of Latin-1.
var documentForm = regexp.MustCompile(`^[\t\n\r\x20-\x{ff}]*$`)

// mostDocumentChars bounds what IAM reads at all; its quotas are far below.
const mostDocumentChars = 131072

// isDocument reports whether IAM reads a text as a document at all.
func isDocument(doc string) bool {
	return documentForm.MatchString(doc) && utf8.RuneCountInString(doc) <= mostDocumentChars
}

// statements reads a policy document of either kind.
func statements(doc string) ([]statement, error) {
	var read struct {
		Version   string
		ID        string `json:"Id"`
		Statement json.RawMessage
	}
	if !isDocument(doc) {
		return nil, api.Refuse("ValidationError", "1 validation error detected: the policy document is over %d characters, or has one that is none of Latin-1.", mostDocumentChars)
	}
	d := json.NewDecoder(strings.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil || d.More() {
		return nil, malformed("This policy contains invalid Json")
	}
	if read.Version != "" && read.Version != "2012-10-17" && read.Version != "2008-10-17" {
		return nil, malformed("The policy is not in the valid JSON format: version %q is not known.", read.Version)
	}
	var many []statement
	if err := json.Unmarshal(read.Statement, &many); err != nil {
		var single statement
		if err := json.Unmarshal(read.Statement, &single); err != nil {
			return nil, malformed("Syntax errors in policy.")
		}
		many = []statement{single}
	}
	if err := checkForm(many); err != nil {
		return nil, err
	}
	return many, checkElements(many)
}

// checkForm refuses documents without statements, and statements that lack an element or have one that IAM does not define.
func checkForm(many []statement) error {
	known := []string{"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"}
	for n, s := range many {
		for k := range s {
			if !slices.Contains(known, k) {
				return malformed("Syntax errors in policy: statement %d has the element %s.", n+1, k)
			}
		}
		if e := string(s["Effect"]); e != `"Allow"` && e != `"Deny"` {
			return malformed("Syntax errors in policy: statement %d has the effect %s.", n+1, e)
		}
		if !s.has("Action", "NotAction") {
			return malformed("Policy statement must contain actions.")
		}
	}
	if len(many) == 0 {
		return malformed("The policy failed legacy parsing: it has no statement.")
	}
	return nil
}

// checkElements refuses statements whose elements IAM does not take.
func checkElements(all []statement) error {
	for _, s := range all {
		if err := s.elements(); err != nil {
			return err
		}
	}
	return uniqueSids(all)
}

// checkDocument refuses what is no permissions policy.
func checkDocument(doc string) error {
	all, err := statements(doc)
	if err != nil {
		return err
	}
	for _, s := range all {
		switch {
		case s.has("Principal", "NotPrincipal"):
			return malformed("Policy document should not specify a principal.")
		case !s.has("Resource", "NotResource"):
			return malformed("Policy statement must contain resources.")
		}
	}
	return nil
}

// stringList reads a string or a list of strings.
func stringList(raw json.RawMessage) []string {
	var many []string
	if json.Unmarshal(raw, &many) == nil {
		return many
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	return nil
}

// visibleChars is the size that IAM's quotas count: without white space.
func visibleChars(doc string) int {
	n := 0
	for _, r := range doc {
		if !unicode.IsSpace(r) {
			n++
		}
	}
	return n
}
