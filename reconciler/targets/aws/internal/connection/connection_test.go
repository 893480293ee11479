package connection

import (
	"testing"
)

func TestCallersAreNamedWithoutTheirSessions(t *testing.T) {
	for arn, want := range map[string]string{
		"arn:aws:sts::123456789012:assumed-role/poolwright-a/i-0123": "role poolwright-a",
		"arn:aws:iam::123456789012:user/ops/jane":                    "user jane",
		"arn:aws:iam::123456789012:root":                             "the caller",
		"":                                                           "the caller",
	} {
		if got := callerOf(arn); got != want {
			t.Errorf("%s: %q", arn, got)
		}
	}
}

func TestOnlyTheNamesOfReadsPassForReads(t *testing.T) {
	for _, name := range []string{"GetRole", "ListRules", "DescribeCluster"} {
		if !IsRead(name) {
			t.Errorf("%s is taken for a write", name)
		}
	}
	for _, name := range []string{"", "CreateRole", "PutRule", "TagResource", "AssociateAccessPolicy", "getRole"} {
		if IsRead(name) {
			t.Errorf("%s is taken for a read", name)
		}
	}
}
