// Package wait makes the command wait, by which scripts and CI jobs wait for a condition of a Sync: that it
// is ready, that it has applied a revision, or that the nodes of its pools are replaced.
//
// It refuses to write anything, and to compute what a condition of the Sync has. Start reading at parse.
package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// NotMet is the error of a condition that is not met in time, or cannot be met any more.
type NotMet struct{ Message string }

// Error implements error.
func (n NotMet) Error() string { return n.Message }

// NewCommand makes the command wait, without the flags of a connection.
func NewCommand(env get.Environment) *cobra.Command {
	var condition, output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait SYNC --for=ready|applied=REVISION|rollout[=REVISION]",
		Short: "Wait until a Sync is ready, has applied a revision, or has no node to be replaced",
		Long: `Wait for one condition of a Sync:

  ready             its condition Ready is True, for its newest generation
  applied=REVISION  REVISION is what it applied last: a commit, seven or more of its first digits, or branch@sha1:commit.
                    Where that revision is Stalled, the wait ends
  rollout=REVISION  it has applied REVISION, is ready, and its condition RolledOut is True: no node of its pools is to be replaced
  rollout           the same, of whichever revision it has

ready and rollout concern what the Sync has fetched: right after a merge they are met before the controller has fetched it.

Exit codes: 0 the condition is met, 1 it is not met in time, or cannot be met any more, 2 an error, 130 interrupted.`,
		Example: "  poolwright wait dev --for=applied=$(git rev-parse HEAD) --timeout=10m\n  poolwright wait dev --for=rollout=$(git rev-parse HEAD) --timeout=1h",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("wait takes one argument, the name of a Sync, and got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			check, err := parse(condition)
			if err != nil {
				return err
			}
			if err := document.CheckFormat(output, document.ObjectFormats()); err != nil {
				return err
			}
			kube, err := get.Connect(env)
			if err != nil {
				return err
			}
			w := &syncWaiter{kube: kube, key: client.ObjectKey{Namespace: env.Namespace(), Name: args[0]}}
			sentence, err := w.wait(cmd.Context(), check, timeout, func(sentence string) { fmt.Fprintln(env.Err, sentence) })
			return w.print(env, output, sentence, err)
		},
	}
	cmd.Flags().StringVar(&condition, "for", "", "the condition: ready, applied=REVISION, rollout=REVISION or rollout")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait; 0 checks once")
	cmd.Flags().StringVarP(&output, "output", "o", document.ObjectFormats()[0], "text, json, yaml or name: the Sync as get prints it")
	return cmd
}

// print prints the sentence of a condition that is met, or the Sync, also where the condition is not met.
func (w *syncWaiter) print(env get.Environment, output, sentence string, err error) error {
	_, notMet := errors.AsType[NotMet](err)
	switch {
	case output == document.ObjectFormats()[0] && err == nil:
		fmt.Fprintln(env.Out, sentence)
	case output != document.ObjectFormats()[0] && (err == nil || notMet):
		return cmp.Or(env.WriteSync(output, &w.last), err)
	}
	return err
}

// outcome is what a check found.
type outcome struct {
	met bool
	// never is true where the condition cannot be met any more.
	never bool
	// sentence is what was found.
	sentence string
}

// syncCheck checks a condition of a Sync.
type syncCheck func(context.Context, *syncWaiter, *v1alpha1.Sync) (outcome, error)

// parse reads the value of --for.
func parse(condition string) (syncCheck, error) {
	kind, revision, given := strings.Cut(condition, "=")
	switch {
	case condition == "":
		return nil, errors.New("give the condition: --for=ready, --for=applied=REVISION, --for=rollout=REVISION or --for=rollout")
	case kind == "ready" && !given:
		return ready, nil
	case kind == "rollout" && !given:
		return rolledOut, nil
	case kind == "applied" && usable(revision):
		return applied(revision), nil
	case kind == "rollout" && usable(revision):
		return rolledOutOf(revision), nil
	case kind == "applied", kind == "rollout":
		return nil, fmt.Errorf("--for=%s needs a revision: a commit, at least seven of its first digits, or branch@sha1:commit, and not %q", kind, revision)
	}
	return nil, fmt.Errorf("--for %q is not one of ready, applied=REVISION, rollout=REVISION, rollout", condition)
}

var digits = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// usable reports whether a revision identifies one that a Sync may have applied.
func usable(revision string) bool { return digits.MatchString(commitOf(revision)) }

// commitOf is the commit of a revision, or the digest of an artifact, whether or not its branch or tag is before it.
func commitOf(revision string) string {
	for _, algorithm := range []string{"sha1:", "sha256:"} {
		if ref, commit, found := strings.Cut(revision, algorithm); found && (ref == "" || strings.HasSuffix(ref, "@")) {
			return commit
		}
	}
	return revision
}

// matches reports whether the status of a Sync names the revision that was given.
func matches(status, given string) bool {
	if commitOf(given) != given {
		return status == given
	}
	return strings.HasPrefix(commitOf(status), given)
}

// syncWaiter waits for a condition of one Sync.
type syncWaiter struct {
	kube client.Client
	key  client.ObjectKey
	// last is the Sync as it was read last.
	last v1alpha1.Sync
}

// wait waits until the check is met, and returns its sentence.
func (w *syncWaiter) wait(ctx context.Context, check syncCheck, timeout time.Duration, report func(string)) (string, error) {
	var last outcome
	once := func(ctx context.Context) (bool, string, error) {
		var sync v1alpha1.Sync
		err := w.kube.Get(ctx, w.key, &sync)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return false, "", fmt.Errorf("no Sync %q in namespace %s; to list those that there are, run: poolwright get syncs -A", w.key.Name, w.key.Namespace)
		}
		if err != nil {
			return false, "", fmt.Errorf("reading Sync %s: %w", w.key.Name, err)
		}
		w.last = sync
		if last, err = check(ctx, w, &sync); err != nil {
			return false, "", err
		}
		if last.never {
			return false, "", NotMet{fmt.Sprintf("Sync %s: %s", w.key.Name, last.sentence)}
		}
		if last.met {
			return true, "", nil
		}
		return false, last.sentence, nil
	}
	if timeout <= 0 {
		met, sentence, err := once(ctx)
		if err == nil && !met {
			err = NotMet{fmt.Sprintf("Sync %s: %s", w.key.Name, sentence)}
		}
		return fmt.Sprintf("Sync %s: %s", w.key.Name, last.sentence), err
	}
	err := installation.Await(ctx, timeout, report, once)
	if late, is := errors.AsType[installation.Timeout](err); is {
		return "", NotMet{fmt.Sprintf("Sync %s: %s", w.key.Name, late)}
	}
	return fmt.Sprintf("Sync %s: %s", w.key.Name, last.sentence), err
}

// ready checks the condition Ready. That of a Sync which the controller does not reconcile is of an earlier time, and stays; where it
// is not known whether it does, no condition counts, and that is an error.
func ready(ctx context.Context, w *syncWaiter, sync *v1alpha1.Sync) (outcome, error) {
	err := w.checkWatched(ctx, sync)
	if _, is := errors.AsType[NotMet](err); err != nil && !is {
		return outcome{}, fmt.Errorf("%w; request permission to read that Deployment, or wait for a revision, which needs none: --for=applied=REVISION", err)
	}
	return readyCondition(sync), err
}

// checkWatched returns NotMet where the controller does not reconcile the Sync, and another error where that is not known.
func (w *syncWaiter) checkWatched(ctx context.Context, sync *v1alpha1.Sync) error {
	err := installation.CheckWatched(ctx, w.kube, sync)
	if _, is := errors.AsType[installation.NotWatchedError](err); is {
		return NotMet{err.Error()}
	}
	return err
}

func readyCondition(sync *v1alpha1.Sync) outcome {
	c := conditions.Get(sync, fluxmeta.ReadyCondition)
	switch {
	case !sync.DeletionTimestamp.IsZero():
		return outcome{never: true, sentence: "it is being deleted"}
	case sync.Spec.Suspend:
		// One that ends by itself can be waited for.
		return outcome{never: suspension.Until(sync).IsZero(), sentence: "it is suspended" + suspension.Details(sync) + "; to resume it, run: poolwright resume " + sync.Name}
	case c == nil:
		return outcome{sentence: "it has no condition Ready yet"}
	case c.Status != metav1.ConditionTrue:
		return outcome{sentence: "it is not ready: " + sanitize.Text(c.Reason) + ": " + sanitize.Text(c.Message)}
	case sync.Status.ObservedGeneration < sync.Generation:
		return outcome{sentence: "its newest generation has not been reconciled yet"}
	}
	return outcome{met: true, sentence: sanitize.Text(c.Message)}
}

// applied checks that a revision is the one that was applied last.
func applied(revision string) syncCheck {
	return func(ctx context.Context, w *syncWaiter, sync *v1alpha1.Sync) (outcome, error) {
		s := sync.Status
		if matches(s.LastAppliedRevision, revision) {
			return outcome{met: true, sentence: "applied " + sanitize.Text(s.LastAppliedRevision)}, nil
		}
		stalled := conditions.Get(sync, fluxmeta.StalledCondition)
		if matches(s.LastAttemptedRevision, revision) && stalled != nil && stalled.Status == metav1.ConditionTrue {
			return outcome{never: true, sentence: fmt.Sprintf("%s is not applied: %s: %s", sanitize.Text(s.LastAttemptedRevision), sanitize.Text(stalled.Reason), sanitize.Text(stalled.Message))}, nil
		}
		if to := rollback.Revision(sync); to != "" && !matches(to, revision) {
			return outcome{never: true, sentence: "it is rolled back to " + to + "; to have it apply what is newer, run: poolwright resume " + sync.Name + " --rollback"}, nil
		}
		// Where it is not known whether the controller reconciles the Sync, a revision that it applies proves that it does.
		unknown := w.checkWatched(ctx, sync)
		if _, is := errors.AsType[NotMet](unknown); is {
			return outcome{}, unknown
		}
		o := readyCondition(sync)
		if o.never {
			return o, nil
		}
		sentence := "it has applied " + cmp.Or(sanitize.Text(s.LastAppliedRevision), "nothing yet")
		if s.LastAttemptedRevision != s.LastAppliedRevision {
			sentence += ", and tried " + sanitize.Text(s.LastAttemptedRevision)
		}
		switch {
		case unknown != nil:
			sentence += "; " + sanitize.Text(unknown.Error())
		case !o.met:
			sentence += "; " + o.sentence
		}
		return outcome{sentence: sentence}, nil
	}
}
