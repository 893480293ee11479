package oracle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

func TestTheRuleForOfferings(t *testing.T) {
	const cheap, dear = "g4dn.xlarge in subnet-1, spot", "g4dn.2xlarge in subnet-1, spot"
	requests := func(client string, refused []string, offerings ...string) trace.Request {
		return trace.Request{Wire: trace.AWS, Client: client, Verb: "CreateFleet", Kind: "ec2", Status: 200, Offerings: offerings, Refused: refused}
	}
	lacks := []string{cheap}
	for _, c := range []struct {
		name    string
		records []trace.Record
		want    []string
	}{
		{"another offering may be requested", over(timed{1, requests("c1", lacks, cheap, dear)}, timed{2, requests("c1", nil, dear)}), nil},
		{"the one without capacity may not", over(timed{1, requests("c1", lacks, cheap, dear)}, timed{3, requests("c1", nil, cheap, dear)}),
			[]string{"offerings: requests g4dn.xlarge in subnet-1, spot 2s after there was no capacity"}},
		{"a launch that began before the response may", over(timed{1, requests("c1", lacks, cheap)}, timed{1, requests("c1", nil, cheap)}), nil},
		{"it may after three minutes", over(timed{1, requests("c1", lacks, cheap)}, timed{181, requests("c1", nil, cheap)}), nil},
		{"another process has not learned of it", over(timed{1, requests("c1", lacks, cheap)}, timed{3, requests("c2", nil, cheap)}), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range Check(c.records) {
				if v.Rule == "offerings" {
					got = append(got, v.Rule+": "+v.Detail)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
