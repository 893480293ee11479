package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestNodesOfAGroupAreTouchedWhereTheyChangeOrAreNamedToAWS(t *testing.T) {
	before := map[string]types.UID{"i-1": "a", "i-2": "b"}
	call := func(key, params string) []sandboxaws.Call {
		return []sandboxaws.Call{{Operation: "CreateTags", Key: key, Params: params}}
	}
	for name, c := range map[string]struct {
		now   map[string]types.UID
		calls []sandboxaws.Call
		want  []string
	}{
		"as it was":              {before, call("engine", "ResourceId.1=i-3"), nil},
		"by hand":                {before, call(personKey, "ResourceId.1=i-1"), nil},
		"one is named":           {before, call("engine", "ResourceId.1=i-2"), []string{"i-2"}},
		"one is gone":            {map[string]types.UID{"i-2": "b"}, nil, []string{"i-1"}},
		"one has another Node":   {map[string]types.UID{"i-1": "a", "i-2": "c"}, nil, []string{"i-2"}},
		"one is new":             {map[string]types.UID{"i-1": "a", "i-2": "b", "i-3": "c"}, nil, []string{"i-3"}},
		"one is named, one gone": {map[string]types.UID{"i-1": "a"}, call("engine", "ResourceId.1=i-1"), []string{"i-1", "i-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, touched(group{nodes: before}, group{nodes: c.now}, c.calls)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAGroupIsUnchangedWhereItIsOnlyRead(t *testing.T) {
	for operation, fails := range map[string]bool{"DescribeNodegroup": false, "ListNodegroups": false, "CreateTags": false, "UpdateNodegroupConfig": true, "DeleteNodegroup": true} {
		if err := unchanged([]sandboxaws.Call{{Operation: operation}}); (err != nil) != fails {
			t.Errorf("%s: %v", operation, err)
		}
	}
}
