package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// A Sync may have a name that has the form of a secret, and so the token of its guard.
func TestTheCommandOfASyncWhoseNameResemblesASecretCanBeCopied(t *testing.T) {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "sk-production-europe-west-1", Namespace: "poolwright-system", UID: "u"}}
	done := ran(change("a", plan.Update, func(c *plan.Change) {
		c.Before = c.After
		c.Hold = hold.Reasons{
			{Rule: hold.UpdateLosses, Token: &hold.Token{Purpose: "deletions", Digest: confirm.Digest("x")}, Facts: hold.Facts{Object: "A/a", Detail: "ghp_0123456789abcdefABCDEF"}},
			{Rule: hold.SyncChangeHeld, Token: &hold.Token{Purpose: "guard." + sync.Name, Digest: confirm.Digest("x")}, Facts: hold.Facts{Object: "A/a"}},
		}
	}))
	done.Outcome.Results[0].Status, done.binding = "held", confirm.Binding{UID: "u"}
	v := resultOf(done)
	v.requireConfirmation(sync, done)
	v.write(sync, sync, done)
	command := confirm.Command(sync.Namespace, sync.Name, sync.Status.ConfirmationToken)
	for _, c := range sync.Status.Conditions {
		if c.Type != "Drifted" && !strings.HasSuffix(c.Message, "confirm all of it with: "+command) || strings.Contains(c.Message, "ghp_") {
			t.Errorf("%s: %s", c.Type, c.Message)
		}
	}
	if !strings.Contains(sync.Status.ConfirmationToken, "guard."+sync.Name) || !strings.Contains(v.message, "updating A/a: (masked)") {
		t.Errorf("it asks for %s: %s", sync.Status.ConfirmationToken, v.message)
	}
}

// A person decides by the names of the objects: none is masked for its form where something waits or
// failed, and what others wrote beside it is.
func TestTheNameOfAnObjectIsReadableWhateverItsForm(t *testing.T) {
	const name, secret = "sk-production-europe-west-1", "ghp_0123456789abcdefABCDEF"
	key := state.Key{Target: "kubernetes", Kind: "ConfigMap", Namespace: name, Name: "a"}
	file := state.Origin{File: name + "/a.yaml", Line: 3}
	of := func(status apply.Status, edit func(*apply.Result)) reconciliation {
		done := ran(change("a", plan.Update, nil))
		r := &done.Outcome.Results[0]
		r.Change.Key, r.Change.After.Key, r.Change.After.Origin, r.Status = key, key, file, status
		r.Change.Before, done.binding = r.Change.After, confirm.Binding{UID: "u"}
		edit(r)
		return done
	}
	failed := func(err error) reconciliation {
		return of(apply.Failed, func(r *apply.Result) { r.Err = err })
	}
	for what, done := range map[string]reconciliation{
		"held": of(apply.Held, func(r *apply.Result) {
			r.Change.Hold = hold.Reasons{{Rule: hold.UpdateLosses, Token: &hold.Token{Purpose: "deletions"}, Facts: hold.Facts{Object: key.String(), Detail: secret}}}
		}),
		"failed":                  failed(errors.New("the webhook wrote " + secret)),
		"refused for its schema":  failed(fmt.Errorf("%w: %s", targets.ErrSchema, secret)),
		"not known":               {Result: reconciler.Result{Plan: plan.Plan{Unknown: []plan.Unknown{{Key: key, Origin: file, Reason: secret}}}}},
		"declared with a problem": {Result: reconciler.Result{Problems: []state.Problem{{Origin: file, Message: secret}}}},
		"held with another reason": of(apply.Held, func(r *apply.Result) {
			r.Change.Hold = hold.Reasons{{Rule: hold.ReadOnly, Facts: hold.Facts{Detail: secret}}}
		}),
	} {
		t.Run(what, func(t *testing.T) {
			sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "dev", Namespace: "poolwright-system", UID: "u"}}
			v := resultOf(done)
			v.requireConfirmation(sync, done)
			v.write(sync, sync, done)
			text := v.message
			for _, p := range sync.Status.Pending {
				text += "\n" + p.Object + " " + p.Source + " " + p.Reason
			}
			for _, c := range sync.Status.Conditions {
				text += "\n" + c.Message
			}
			if !strings.Contains(text, name) || strings.Contains(text, secret) || what != "held with another reason" && !strings.Contains(v.message, name) {
				t.Errorf("got %s", text)
			}
		})
	}
}

// What looks like the start of a private key in one problem hides neither its place nor what is behind it.
func TestAProblemThatIsMaskedHidesNothingBehindIt(t *testing.T) {
	begin := "unknown field \"-----BEGIN PRIVATE KEY-----\""
	done := ran(change("a", plan.Update, nil))
	done.Outcome.Results[0].Status = apply.Applied
	done.Problems = []state.Problem{{Origin: state.Origin{File: "a.yaml", Line: 3}, Message: begin}, {Origin: state.Origin{File: "b.yaml", Line: 9}, Message: "no such field"}}
	v := resultOf(done)
	v.requireConfirmation(&v1alpha1.Sync{}, done)
	if want := "2 problems, the first: a.yaml:3: unknown field \"(masked); all other objects are applied, nothing is pruned; run poolwright lint on the folder to list every problem"; v.message != want {
		t.Errorf("got  %s\nwant %s", v.message, want)
	}
}

// A text of a commit that looks like a private key is masked, and nothing that waits beside it.
func TestAReasonThatIsMaskedHidesNoOther(t *testing.T) {
	path := sanitize.Name("-----BEGIN PRIVATE KEY-----")
	token := &hold.Token{Purpose: "deletions", Digest: "d"}
	reasons := hold.Reasons{
		{Rule: hold.DeletionLosses, Token: token, Facts: hold.Facts{Object: "Sync.poolwright.dev/poolwright-system/a", Detail: "the cluster stops following " + path + " of https://git.example/a, and deletionPolicy Orphan leaves what it applied (0 objects) as it is"}},
		{Rule: hold.UpdateLosses, Token: token, Facts: hold.Facts{Object: "Cluster.poolwright.dev/cluster", Detail: "the engine stops: 40 NodeClaims keep running unmanaged"}},
		{Rule: hold.DeletionLosses, Token: token, Facts: hold.Facts{Object: "VolumeSnapshotClass/z", Detail: "x"}},
	}
	for _, got := range []string{summary(reasons, confirm.Binding{}, false), limited(reasons.String(), reasonLimit)} {
		if !strings.Contains(got, "the engine stops") || !strings.Contains(got, "VolumeSnapshotClass/z") || strings.Contains(got, "PRIVATE KEY") {
			t.Errorf("got %s", got)
		}
	}
}
