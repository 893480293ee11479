package clusterspec

import (
	"maps"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestTagsOfAClusterAreThoseThatItsPartsTake(t *testing.T) {
	role, queue := v1alpha1.ClusterSpec{NodeRole: &v1alpha1.NodeRole{Name: "nodes"}}, v1alpha1.ClusterSpec{InterruptionQueue: &v1alpha1.InterruptionQueue{}}
	for name, tt := range map[string]struct {
		spec       v1alpha1.ClusterSpec
		key, value string
		want       int // problems
	}{
		"letters, digits, blanks and some signs":   {role, "Cost center_.:/=+-@9", "a b_.:/=+-@9", 0},
		"letters of all scripts":                   {role, "équipe", "데이터", 0},
		"an empty value":                           {role, "a", "", 0},
		"the longest, in letters of two bytes":     {role, strings.Repeat("é", 128), strings.Repeat("é", 256), 0},
		"too long a key":                           {role, strings.Repeat("a", 129), "", 1},
		"too long a value":                         {role, "a", strings.Repeat("a", 257), 1},
		"an empty key":                             {role, "", "a", 1},
		"too long a key where no role is":          {queue, strings.Repeat("a", 129), "", 1},
		"a key that roles do not take":             {role, "a#b", "", 1},
		"a value that roles do not take":           {role, "a", "b,c", 1},
		"a value that log groups do not take":      {v1alpha1.ClusterSpec{Logging: &v1alpha1.Logging{}}, "a", "*", 1},
		"a value that the controller's role lacks": {v1alpha1.ClusterSpec{ControllerRole: &v1alpha1.ControllerRole{Name: "c"}}, "a", "*", 1},
		"a value that queues take":                 {queue, "a#b", "c,d*", 0},
	} {
		spec := tt.spec
		spec.Tags = map[string]string{"team": "ml", tt.key: tt.value}
		if got := Problems(state.Item{}, spec); len(got) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLabelsOfANodeGroupAreThoseThatEKSTakes(t *testing.T) {
	long := strings.Repeat("a", 63)
	for name, tt := range map[string]struct {
		labels map[string]string
		adopt  bool
		want   int // problems
	}{
		"the longest":                      {map[string]string{long: long}, true, 0},
		"none":                             {map[string]string{}, true, 0},
		"too long a key":                   {map[string]string{long + "a": "b"}, true, 1},
		"too long a value":                 {map[string]string{"a": long + "a"}, true, 1},
		"an empty key":                     {map[string]string{"": "b"}, true, 1},
		"an empty value that is to be set": {map[string]string{"a": ""}, true, 1},
		"an empty value that is compared":  {map[string]string{"a": ""}, false, 0},
		"two that are wrong":               {map[string]string{"a": "", long + "a": "", "b": "c"}, true, 2},
	} {
		group := v1alpha1.ManagedNodeGroup{Name: "g", Adopt: tt.adopt, Labels: maps.Clone(tt.labels)}
		if got := Problems(state.Item{}, v1alpha1.ClusterSpec{ManagedNodeGroups: []v1alpha1.ManagedNodeGroup{group}}); len(got) != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
