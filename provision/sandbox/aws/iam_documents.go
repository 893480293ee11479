package aws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// iamStatement is a part of a policy document, as far as IAM checks it when it
// stores one.
type iamStatement map[string]json.RawMessage

func (s iamStatement) has(any ...string) bool {
	return slices.ContainsFunc(any, func(k string) bool { _, ok := s[k]; return ok })
}

func malformed(format string, args ...any) error {
	return api.Refuse("MalformedPolicyDocument", format, args...)
}

// statements reads a policy document of either kind.
func statements(doc string) ([]iamStatement, error) {
	var read struct {
		Version   string
		ID        string `json:"Id"`
		Statement json.RawMessage
	}
	d := json.NewDecoder(strings.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil || d.More() {
		return nil, malformed("This policy contains invalid Json")
	}
	if read.Version != "" && read.Version != "2012-10-17" && read.Version != "2008-10-17" {
		return nil, malformed("The policy is not in the valid JSON format: version %q is not known.", read.Version)
	}
	var many []iamStatement
	if err := json.Unmarshal(read.Statement, &many); err != nil {
		var single iamStatement
		if err := json.Unmarshal(read.Statement, &single); err != nil {
			return nil, malformed("Syntax errors in policy.")
		}
		many = []iamStatement{single}
	}
	known := []string{"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"}
	for n, s := range many {
		for k := range s {
			if !slices.Contains(known, k) {
				return nil, malformed("Syntax errors in policy: statement %d has the element %s.", n+1, k)
			}
		}
		if e := string(s["Effect"]); e != `"Allow"` && e != `"Deny"` {
			return nil, malformed("Syntax errors in policy: statement %d has the effect %s.", n+1, e)
		}
		if !s.has("Action", "NotAction") {
			return nil, malformed("Policy statement must contain actions.")
		}
	}
	if len(many) == 0 {
		return nil, malformed("The policy failed legacy parsing: it has no statement.")
	}
	return many, checkElements(many)
}

// checkElements refuses statements whose elements IAM does not take.
func checkElements(all []iamStatement) error {
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

// mostTrustChars bounds a trust policy by IAM's default quota.
const mostTrustChars = 2048

// checkTrust refuses what is no trust policy, and one that names a role of the
// account that does not exist, or not for everybody yet.
func (in *call) checkTrust(doc string) error {
	all, err := statements(doc)
	if err != nil {
		return err
	}
	if visibleChars(doc) > mostTrustChars {
		return conflict("LimitExceeded", "Cannot exceed quota for ACLSizePerRole: %d", mostTrustChars)
	}
	for _, s := range all {
		if !s.has("Principal") {
			return malformed("Missing required field Principal")
		}
		if s.has("Resource", "NotResource") {
			return malformed("Has prohibited field Resource")
		}
		for _, action := range stringList(s["Action"]) {
			if !strings.HasPrefix(action, "sts:") {
				return malformed("AssumeRole policy may only specify STS AssumeRole actions.")
			}
		}
		var principals map[string]json.RawMessage
		if err := json.Unmarshal(s["Principal"], &principals); err != nil && string(s["Principal"]) != `"*"` {
			return malformed("Invalid principal in policy.")
		}
		if err := principalProblem(principals); err != nil {
			return err
		}
		for _, arn := range stringList(principals["AWS"]) {
			ours := fmt.Sprintf("arn:%s:iam::%s:role/", in.cloud.account.Partition(), in.cloud.account.ID)
			if strings.HasPrefix(arn, ours) && in.roleOf(arn) == nil {
				return malformed("Invalid principal in policy: \"AWS\":\"%s\"", arn)
			}
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
