package sts

import (
	"encoding/xml"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func TestACallerIsIdentified(t *testing.T) {
	type identity struct {
		Arn     string
		UserID  string `xml:"UserId"`
		Account string
	}
	for name, tt := range map[string]struct {
		region, key string
		want        identity
	}{
		"by its key":           {"us-east-1", "AKIAONE", identity{"arn:aws:sts::111122223333:assumed-role/sandbox/akiaone", "AROAEMULATED:akiaone", "111122223333"}},
		"by another key":       {"us-east-1", "AKIATWO", identity{"arn:aws:sts::111122223333:assumed-role/sandbox/akiatwo", "AROAEMULATED:akiatwo", "111122223333"}},
		"in another partition": {"cn-north-1", "AKIAONE", identity{"arn:aws-cn:sts::111122223333:assumed-role/sandbox/akiaone", "AROAEMULATED:akiaone", "111122223333"}},
	} {
		table := Table(&api.Account{ID: "111122223333", Region: tt.region})
		in := &api.Call{Op: "GetCallerIdentity", Key: tt.key}
		out, err := table.Operations[in.Op].Run(in)
		if err != nil {
			t.Fatal(err)
		}
		var got identity
		elements, _ := out.([]query.Element)
		if err := xml.Unmarshal(query.Document(query.Group("Result", elements...), ""), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if requests := table.Authorizations[in.Op](in); len(requests) != 0 {
			t.Errorf("%s: it requires %+v of IAM", name, requests)
		}
	}
}
