package e2e

import (
	"errors"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// declaresItself has the repository declare the Sync that bootstrap made, as a person
// writes it down from the live one, and ends with bootstrap's next run.
func (l *laptop) declaresItself() {
	l.Helper()
	l.repo.branch = "main" // The one that is checked out, which the Sync follows.
	const sync = `apiVersion: poolwright.dev/v1alpha1
kind: Sync
metadata: {name: dev, namespace: %s}
spec:
  source: {git: {url: %q, ref: {branch: main}, secretRef: {name: git}}}
  path: clusters/dev
  guard: {maxPrunePercent: %d}
`
	declare := func(percent int) {
		l.repo.write("clusters/dev/sync.yaml", fmt.Sprintf(sync, engineSystem, l.followed().Spec.Source.Git.URL, percent))
		l.repo.commit(fmt.Sprintf("Declare the Sync with a guard of %d percent", percent))
		if got := l.types("reconcile", "dev", "--timeout=1m"); got.code != 0 && percent <= 30 {
			l.Errorf("reconcile ends with %d: %s%s", got.code, got.out, got.err)
		}
	}
	l.repo.replace("clusters/dev/kustomization.yaml", "  - cluster.yaml\n", "  - cluster.yaml\n  - sync.yaml\n")
	declare(30)
	l.eventually("the Sync is its own, and ready", func() error { return l.isItsOwn(30, "ReconciliationSucceeded") })
	declare(80)
	l.eventually("what relaxes its guard waits", func() error { return l.isItsOwn(30, "SyncChangeHeld") })
	declare(30)
	l.eventually("the Sync is ready again", func() error { return l.isItsOwn(30, "ReconciliationSucceeded") })
	l.expect(l.bootstrap("--yes"), 0, "Sync dev is declared in the repository that it follows", "nothing to change")
	l.expect(l.bootstrap("--yes", "--branch=other"), 0, "Sync dev is declared in the repository that it follows", "nothing to change")
	if err := l.isItsOwn(30, "ReconciliationSucceeded"); err != nil {
		l.Error(err)
	}
}

// followed is the live Sync.
func (l *laptop) followed() *v1alpha1.Sync {
	l.Helper()
	var sync v1alpha1.Sync
	if err := l.hand.Get(l.Context(), client.ObjectKey{Namespace: engineSystem, Name: "dev"}, &sync); err != nil {
		l.Fatal(err)
	}
	return &sync
}

// isItsOwn says how the live Sync is other than that, or nil.
func (l *laptop) isItsOwn(percent int32, reason string) error {
	sync := l.followed()
	ready := apimeta.FindStatusCondition(sync.Status.Conditions, "Ready")
	switch {
	case ready == nil || ready.Reason != reason:
		return fmt.Errorf("its condition is %+v, want %s", ready, reason)
	case sync.Labels[v1alpha1.SyncLabel] != "dev":
		return fmt.Errorf("its labels are %v, %+v, %+v", sync.Labels, ready, sync.Status)
	case sync.Spec.Guard.MaxPrunePercent == nil || *sync.Spec.Guard.MaxPrunePercent != percent:
		return errors.New("its guard is another")
	}
	return nil
}
