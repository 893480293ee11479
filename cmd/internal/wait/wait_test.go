package wait

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

const (
	commit = "e15a32f0000000000000000000000000000000aa"
	newer  = "33145d40000000000000000000000000000000bb"
)

// sync is one that is ready at the commit.
func sync(change ...func(*v1alpha1.Sync)) *v1alpha1.Sync {
	s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "gitops", Name: "dev", Generation: 2}}
	s.Status = v1alpha1.SyncStatus{ObservedGeneration: 2, LastAppliedRevision: "main@sha1:" + commit, LastAttemptedRevision: "main@sha1:" + commit}
	s.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "Applied revision main@sha1:" + commit}}
	for _, c := range change {
		c(s)
	}
	return s
}

// notReady is a Sync that tries the newer commit, and fails.
func notReady(s *v1alpha1.Sync) {
	s.Status.LastAttemptedRevision = "main@sha1:" + newer
	s.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "BuildFailed", Message: "a.yaml:3"}}
}

func stalled(s *v1alpha1.Sync) {
	notReady(s)
	s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "Stalled", Status: metav1.ConditionTrue, Reason: "BuildFailed", Message: "a.yaml:3"})
}

// withRollout is a condition RolledOut of the newest generation.
func withRollout(status metav1.ConditionStatus, reason, message string) func(*v1alpha1.Sync) {
	return func(s *v1alpha1.Sync) {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "RolledOut", Status: status, Reason: reason, Message: message, ObservedGeneration: s.Generation})
	}
}

func TestConditions(t *testing.T) {
	suspended := func(s *v1alpha1.Sync) { s.Spec.Suspend = true }
	over := withRollout("True", "UpToDate", "Revision main@sha1:1: no node is to be replaced")
	rolledBack := func(to string) func(s *v1alpha1.Sync) {
		return func(s *v1alpha1.Sync) { s.Annotations = map[string]string{v1alpha1.RollbackAnnotation: to} }
	}
	for name, test := range map[string]struct {
		condition string
		objects   []client.Object
		// met is the sentence of a condition that is met, notMet of one that is not, end that of another error.
		met, notMet, end string
	}{
		"a Sync that is ready":                             {condition: "ready", objects: []client.Object{sync()}, met: "Sync dev: Applied revision main@sha1:" + commit},
		"a Sync that is not":                               {condition: "ready", objects: []client.Object{sync(notReady)}, notMet: "Sync dev: it is not ready: BuildFailed: a.yaml:3"},
		"a Sync that is ready for an older generation":     {condition: "ready", objects: []client.Object{sync(func(s *v1alpha1.Sync) { s.Generation = 3 })}, notMet: "Sync dev: its newest generation has not been reconciled yet"},
		"a Sync without a condition":                       {condition: "ready", objects: []client.Object{sync(func(s *v1alpha1.Sync) { s.Status.Conditions = nil })}, notMet: "Sync dev: it has no condition Ready yet"},
		"a Sync that is suspended":                         {condition: "ready", objects: []client.Object{sync(suspended)}, notMet: "Sync dev: it is suspended; to resume it, run: poolwright resume dev"},
		"a Sync that does not exist":                       {condition: "ready", end: `no Sync "dev" in namespace gitops; to list those that there are, run: poolwright get syncs -A`},
		"a commit that is applied":                         {condition: "applied=" + commit, objects: []client.Object{sync()}, met: "Sync dev: applied main@sha1:" + commit},
		"a short commit":                                   {condition: "applied=" + commit[:7], objects: []client.Object{sync()}, met: "Sync dev: applied main@sha1:" + commit},
		"a revision as the status has it":                  {condition: "applied=main@sha1:" + commit, objects: []client.Object{sync()}, met: "Sync dev: applied main@sha1:" + commit},
		"an artifact as the status has it":                 {condition: "applied=latest@sha256:" + commit, objects: []client.Object{sync(func(s *v1alpha1.Sync) { s.Status.LastAppliedRevision = "latest@sha256:" + commit })}, met: "Sync dev: applied latest@sha256:" + commit},
		"a short commit of a Sync that follows no branch":  {condition: "applied=" + commit[:7], objects: []client.Object{sync(func(s *v1alpha1.Sync) { s.Status.LastAppliedRevision = "sha1:" + commit })}, met: "Sync dev: applied sha1:" + commit},
		"the digest of a bucket as the status has it":      {condition: "applied=sha256:" + commit, objects: []client.Object{sync(func(s *v1alpha1.Sync) { s.Status.LastAppliedRevision = "sha256:" + commit })}, met: "Sync dev: applied sha256:" + commit},
		"the commit of another branch":                     {condition: "applied=dev@sha1:" + commit, objects: []client.Object{sync()}, notMet: "Sync dev: it has applied main@sha1:" + commit},
		"a commit that is applied while a later one fails": {condition: "applied=" + commit, objects: []client.Object{sync(stalled)}, met: "Sync dev: applied main@sha1:" + commit},
		"a commit that is tried":                           {condition: "applied=" + newer, objects: []client.Object{sync(notReady)}, notMet: "Sync dev: it has applied main@sha1:" + commit + ", and tried main@sha1:" + newer + "; it is not ready: BuildFailed: a.yaml:3"},
		"a commit other than that of a rollback":           {condition: "applied=" + newer, objects: []client.Object{sync(rolledBack(commit))}, notMet: "Sync dev: it is rolled back to main@sha1:" + commit + "; to have it apply what is newer, run: poolwright resume dev --rollback"},
		"the commit of a rollback":                         {condition: "applied=" + newer[:7], objects: []client.Object{sync(rolledBack(newer))}, notMet: "Sync dev: it has applied main@sha1:" + commit},
		"a commit that is stalled":                         {condition: "applied=" + newer, objects: []client.Object{sync(stalled)}, notMet: "Sync dev: main@sha1:" + newer + " is not applied: BuildFailed: a.yaml:3"},
		"another commit than the one that is stalled":      {condition: "applied=" + newer[:7] + "1", objects: []client.Object{sync(stalled)}, notMet: "Sync dev: it has applied main@sha1:" + commit + ", and tried main@sha1:" + newer + "; it is not ready: BuildFailed: a.yaml:3"},
		"a roll-out that is over":                          {condition: "rollout", objects: []client.Object{sync(over)}, met: "Sync dev: Revision main@sha1:1: no node is to be replaced"},
		"a roll-out that is under way":                     {condition: "rollout", objects: []client.Object{sync(withRollout("False", "RollingOut", "nodes are to be replaced"))}, notMet: "Sync dev: it is not rolled out: RollingOut: nodes are to be replaced"},
		"a roll-out that is not known":                     {condition: "rollout", objects: []client.Object{sync(withRollout("Unknown", "PartlyUnknown", "EC2NodeClass gpu: not reconciled yet."))}, notMet: "Sync dev: it is not rolled out: PartlyUnknown: EC2NodeClass gpu: not reconciled yet."},
		"a controller without the condition":               {condition: "rollout", objects: []client.Object{sync()}, notMet: "Sync dev: it has no condition RolledOut, which controllers before this release do not set: upgrade the controller"},
		"a roll-out of a generation that is not newest":    {condition: "rollout", objects: []client.Object{sync(over, func(s *v1alpha1.Sync) { s.Generation, s.Status.ObservedGeneration = 3, 3 })}, notMet: "Sync dev: its newest generation has not been reconciled yet"},
		"a roll-out of a Sync that fails":                  {condition: "rollout", objects: []client.Object{sync(notReady, over)}, notMet: "Sync dev: it is not ready: BuildFailed: a.yaml:3"},
		"a roll-out of a revision that is not fetched yet": {condition: "rollout=" + newer, objects: []client.Object{sync(over)}, notMet: "Sync dev: it has applied main@sha1:" + commit},
		"a roll-out of a revision that is applied":         {condition: "rollout=" + commit[:7], objects: []client.Object{sync(over)}, met: "Sync dev: Revision main@sha1:1: no node is to be replaced"},
		"a roll-out of a revision that is stalled":         {condition: "rollout=" + newer, objects: []client.Object{sync(stalled, over)}, notMet: "Sync dev: main@sha1:" + newer + " is not applied: BuildFailed: a.yaml:3"},
		"a revision with a control sequence": {condition: "applied=" + newer, objects: []client.Object{sync(func(s *v1alpha1.Sync) {
			s.Status.LastAppliedRevision, s.Status.LastAttemptedRevision = "a\x1b[2J", "a\x1b[2J"
		})}, notMet: `Sync dev: it has applied a\x1b[2J`},
	} {
		t.Run(name, func(t *testing.T) {
			check, err := parse(test.condition)
			if err != nil {
				t.Fatal(err)
			}
			w := &syncWaiter{kube: reconcilertest.InstalledClient(t, test.objects...), key: client.ObjectKey{Namespace: "gitops", Name: "dev"}}
			sentence, err := w.wait(t.Context(), check, 0, func(string) { t.Error("what is checked once is not reported twice") })
			var unmet NotMet
			switch {
			case test.met != "":
				if err != nil || sentence != test.met {
					t.Errorf("%q, %v, want %q", sentence, err, test.met)
				}
			case test.notMet != "":
				if !errors.As(err, &unmet) || unmet.Message != test.notMet {
					t.Errorf("%v, want %q", err, test.notMet)
				}
			case err == nil || err.Error() != test.end || errors.As(err, &unmet):
				t.Errorf("%v, want %q", err, test.end)
			}
		})
	}
}

// What was applied before the controller stopped to reconcile the Sync stays applied. Its conditions are of that time.
func TestTheConditionsOfASyncThatIsNotSelectedAreNotUsed(t *testing.T) {
	over := withRollout("True", "UpToDate", "no node is to be replaced")
	labelled := func(s *v1alpha1.Sync) { s.Labels = map[string]string{"stage": "canary"} }
	never := func(s *v1alpha1.Sync) { s.Status = v1alpha1.SyncStatus{} }
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, installation.Deployment, nil)
	const notSelected = "Sync dev is not reconciled: its labels do not match --watch-label-selector=stage=canary of Deployment gitops/poolwright; add the labels to it, or change the flag"
	for name, test := range map[string]struct {
		condition string
		sync      *v1alpha1.Sync
		get       error
		// notMet is the message of a condition that is not met; one that is met has none.
		notMet string
		// end is in the error that ends the wait.
		end string
	}{
		"ready, and selected":                                                           {condition: "ready", sync: sync(labelled)},
		"ready of an earlier time":                                                      {condition: "ready", sync: sync(), notMet: notSelected},
		"never reconciled":                                                              {condition: "ready", sync: sync(never), notMet: notSelected},
		"rolled out, and selected":                                                      {condition: "rollout", sync: sync(over, labelled)},
		"rolled out at an earlier time":                                                 {condition: "rollout", sync: sync(over), notMet: notSelected},
		"a revision that was rolled out":                                                {condition: "rollout=" + commit, sync: sync(over), notMet: notSelected},
		"a revision that is applied":                                                    {condition: "applied=" + commit, sync: sync()},
		"a revision that will not be":                                                   {condition: "applied=" + newer, sync: sync(), notMet: notSelected},
		"ready, and the Deployment may not be read":                                     {condition: "ready", sync: sync(labelled), get: forbidden, end: "it is not known whether the controller reconciles Sync dev: reading Deployment gitops/poolwright"},
		"rolled out, and the Deployment may not be read":                                {condition: "rollout", sync: sync(over, labelled), get: forbidden, end: "--for=applied=REVISION"},
		"ready, and the API server is away for a moment, which is waited for":           {condition: "ready", sync: sync(labelled), get: apierrors.NewServiceUnavailable("no leader"), end: context.Canceled.Error()},
		"a revision that is applied, and the Deployment may not be read":                {condition: "applied=" + commit, sync: sync(), get: forbidden},
		"a revision that is waited for, since what applies it proves who reconciles it": {condition: "applied=" + newer, sync: sync(), get: forbidden, end: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gitops", Name: installation.Deployment}}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: installation.Deployment, Args: []string{"run", "--watch-label-selector=stage=canary"}}}
			kube := interceptor.NewClient(reconcilertest.InstalledClient(t, test.sync, d).(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, deployment := o.(*appsv1.Deployment); deployment && test.get != nil {
					return test.get
				}
				return cl.Get(ctx, key, o, opts...)
			}})
			check, err := parse(test.condition)
			if err != nil {
				t.Fatal(err)
			}
			w := &syncWaiter{kube: kube, key: client.ObjectKey{Namespace: "gitops", Name: "dev"}}
			ctx, cancel := context.WithCancel(t.Context())
			_, err = w.wait(ctx, check, time.Hour, func(string) { cancel() }) // What is reported is waited for.
			var unmet NotMet
			notMet := errors.As(err, &unmet)
			switch {
			case test.end != "":
				if err == nil || notMet || !strings.Contains(err.Error(), test.end) {
					t.Errorf("%v, want an error with %q", err, test.end)
				}
			case test.notMet == "" && err != nil || test.notMet != "" && unmet.Message != test.notMet:
				t.Errorf("%v, want %q", err, test.notMet)
			}
		})
	}
}

func TestTheRollOutOfARevisionGoesOnWhereANewerOneFollows(t *testing.T) {
	w, check := &syncWaiter{kube: reconcilertest.InstalledClient(t)}, rolledOutOf(commit)
	if o, err := check(t.Context(), w, sync(notReady)); err != nil || o.met {
		t.Fatalf("%+v, %v", o, err)
	}
	next := func(s *v1alpha1.Sync) {
		s.Status.LastAppliedRevision, s.Status.LastAttemptedRevision = "main@sha1:"+newer, "main@sha1:"+newer
	}
	if o, err := check(t.Context(), w, sync(next, withRollout("True", "UpToDate", "no node"))); err != nil || !o.met {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestWaitingEndsWithTheTime(t *testing.T) {
	w := &syncWaiter{kube: reconcilertest.InstalledClient(t, sync(notReady)), key: client.ObjectKey{Namespace: "gitops", Name: "dev"}}
	var reported []string
	_, err := w.wait(t.Context(), ready, 10*time.Millisecond, func(s string) { reported = append(reported, s) })
	var unmet NotMet
	if !errors.As(err, &unmet) || !strings.HasPrefix(unmet.Message, "Sync dev: after 10ms still: it is not ready: BuildFailed") {
		t.Errorf("it ends with %v", err)
	}
	if len(reported) != 1 {
		t.Errorf("reported are %q", reported)
	}
}

func TestWhatIsStalledEndsTheWait(t *testing.T) {
	w := &syncWaiter{kube: reconcilertest.InstalledClient(t, sync(stalled)), key: client.ObjectKey{Namespace: "gitops", Name: "dev"}}
	_, err := w.wait(t.Context(), applied(newer), time.Hour, func(string) {})
	if _, is := errors.AsType[NotMet](err); !is {
		t.Errorf("it ends with %v", err)
	}
}

func TestAnInterruptionIsNoResult(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &syncWaiter{kube: reconcilertest.InstalledClient(t, sync(notReady)), key: client.ObjectKey{Namespace: "gitops", Name: "dev"}}
	_, err := w.wait(ctx, ready, time.Hour, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

func TestUnreadableConditionsAreRefused(t *testing.T) {
	for condition, want := range map[string]string{
		"":                  "give the condition: --for=ready",
		"ready=now":         "is not one of ready, applied=REVISION, rollout=REVISION, rollout",
		"condition=Ready":   "is not one of ready, applied=REVISION, rollout=REVISION, rollout",
		"applied":           "needs a revision",
		"applied=":          "needs a revision",
		"applied=main":      "needs a revision",
		"applied=e15a32":    "needs a revision",
		"applied=main@sha1": "needs a revision",
		"rollout=":          "--for=rollout needs a revision",
		"rollout=main":      "--for=rollout needs a revision",
	} {
		if _, err := parse(condition); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--for=%s: %v, want %q", condition, err, want)
		}
	}
}

// A suspension that ends by itself can be waited for, another one cannot.
func TestASuspensionWithAnEndIsWaitedFor(t *testing.T) {
	end := time.Date(2026, 11, 28, 18, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		until time.Time
		never bool
		want  string
	}{
		"with an end":    {end, false, "it is suspended until 2026-11-28T18:00:00Z: EKS is upgraded; to resume it, run: poolwright resume dev"},
		"without an end": {time.Time{}, true, "it is suspended: EKS is upgraded; to resume it, run: poolwright resume dev"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := ready(t.Context(), &syncWaiter{kube: reconcilertest.InstalledClient(t)}, sync(func(s *v1alpha1.Sync) { suspension.Start(s, "EKS is upgraded", test.until) }))
			if err != nil || o.met || o.never != test.never || o.sentence != test.want {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}
