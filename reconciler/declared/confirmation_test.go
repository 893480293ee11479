package declared

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAConfirmationNeverComesFromARepository(t *testing.T) {
	const reported = " is a person's consent and never comes from a repository; take it out here, and set it on the live object with kubectl annotate"
	for name, tt := range map[string]struct{ text, want string }{
		"of deletions": {
			"apiVersion: poolwright.dev/v1alpha1\nkind: Sync\nmetadata:\n  name: dev\n  annotations:\n    a: b\n    poolwright.dev/confirm: 0123456789ab\n",
			"x/a.yaml:7: Sync.poolwright.dev/dev: the annotation poolwright.dev/confirm" + reported,
		},
		"of orphans": {
			"apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: cluster\n  annotations: {poolwright.dev/confirm-garbage-collection: 3-1a2b3c4d}\n",
			"x/a.yaml:5: Cluster.poolwright.dev/cluster: the annotation poolwright.dev/confirm-garbage-collection" + reported,
		},
		"to roll back": {
			"apiVersion: poolwright.dev/v1alpha1\nkind: Sync\nmetadata:\n  name: dev\n  annotations:\n    poolwright.dev/rollback-to: e15a32f0000000000000000000000000000000aa\n",
			"x/a.yaml:6: Sync.poolwright.dev/dev: the annotation poolwright.dev/rollback-to" + reported,
		},
		"to end a suspension": {
			"apiVersion: poolwright.dev/v1alpha1\nkind: Sync\nmetadata:\n  name: dev\n  annotations:\n    poolwright.dev/suspend-until: 2026-11-28T18:00:00Z\n",
			"x/a.yaml:6: Sync.poolwright.dev/dev: the annotation poolwright.dev/suspend-until" + reported,
		},
		"within a list": {
			"apiVersion: v1\nkind: List\nitems:\n- apiVersion: poolwright.dev/v1alpha1\n  kind: Sync\n  metadata: {name: dev, annotations: {poolwright.dev/confirm: ''}}\n",
			"x/a.yaml:6: Sync.poolwright.dev/dev: the annotation poolwright.dev/confirm" + reported,
		},
		"by a variable": {
			"apiVersion: poolwright.dev/v1alpha1\nkind: Sync\nmetadata:\n  name: dev\n  annotations:\n    poolwright.dev/${WORD}: 0123456789ab\n",
			"x/a.yaml:5: Sync.poolwright.dev/dev: the annotation poolwright.dev/confirm" + reported,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, got := problemsOf(tree("x/a.yaml", tt.text, "x/b.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\n"), "x",
				Options{Values: valuesOf(t, map[string]string{"WORD": "confirm"})})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if items := d.Set.Items(); len(items) != 1 || items[0].Key.Name != "kept" {
				t.Errorf("declared are %v", items)
			}
		})
	}
}
