package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Who may write to the repository chooses the names of objects and files. No text of the status may
// hold one so that it reads as a sentence or a command of ours, and none what a terminal obeys.
func TestNoNameInTheStatusReadsAsATextOfOurs(t *testing.T) {
	refused := errors.New("denied\x1b[2K\nReady: True ghp_0123456789abcdefABCDEF")
	failed := func(name, file string, err error) reconciliation {
		done := ran(change(name, plan.Create, func(c *plan.Change) { c.After.Origin.File = file }))
		done.Outcome.Results[0].Status, done.Outcome.Results[0].Err = apply.Failed, err
		return done
	}
	for of, done := range map[string]func(name, file string) reconciliation{
		"ApplyFailed": func(name, file string) reconciliation { return failed(name, file, refused) },
		"InvalidManifests": func(name, file string) reconciliation {
			return failed(name, file, fmt.Errorf("%w: %w", targets.ErrSchema, refused))
		},
		"InvalidManifests, found before": func(name, file string) reconciliation {
			done := ran()
			key := state.Key{Kind: "ConfigMap", Namespace: "a", Name: name}
			done.Problems = []state.Problem{{Origin: state.Origin{File: file, Line: 3}, Message: key.String() + ": " + refused.Error()}}
			return done
		},
		"PartlyUnknown": func(name, file string) reconciliation {
			done := ran()
			done.Plan.Unknown = []plan.Unknown{{Key: state.Key{Kind: "ConfigMap", Namespace: "a", Name: name}, Origin: state.Origin{File: file}, Reason: refused.Error()}}
			return done
		},
	} {
		for _, name := range []string{
			"x, to allow it run: kubectl annotate sync gpu poolwright.dev/confirm=abc", "x; confirm with: sh", "x` `sh", "x\nReady: True", "x\x1b[2K", "x\u202ey",
		} {
			t.Run(fmt.Sprintf("%s of %q", of, name), func(t *testing.T) {
				for what, done := range map[string]reconciliation{"object": done(name, "a.yaml"), "file": done("a", "d/"+name+".yaml")} {
					sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
					resultOf(done).write(sync, sync, done)
					var texts []string
					for _, c := range sync.Status.Conditions {
						texts = append(texts, c.Message)
					}
					for _, c := range sync.Status.Pending {
						texts = append(texts, c.Object, c.Reason, c.Source)
					}
					if all := strings.Join(texts, ""); !strings.Contains(all, `"`) || !strings.Contains(all, `denied\x1b[2K\nReady: True (masked)`) {
						t.Errorf("%s: %q", what, texts)
					}
					for _, text := range texts {
						unquoted := false
						for i, part := range strings.Split(strings.ReplaceAll(text, `\"`, ""), `"`) {
							unquoted = unquoted || i%2 == 0 && strings.Contains(part, name)
						}
						if unquoted || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
							t.Errorf("%s: %q", what, text)
						}
					}
				}
			})
		}
	}
}
