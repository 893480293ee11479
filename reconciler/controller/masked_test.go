package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// A Sync may have a name that has the form of a secret, and so the token of its guard.
func TestTheCommandOfASyncWhoseNameLooksLikeASecretCanBeCopied(t *testing.T) {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "sk-production-europe-west-1", Namespace: "poolwright-system", UID: "u"}}
	done := ran(change("a", plan.Update, func(c *plan.Change) {
		c.Before = c.After
		c.Hold = hold.Reasons{
			{Rule: hold.UpdateLosses, Token: &hold.Token{Purpose: "deletions", Digest: confirm.Digest("x")}, Facts: hold.Facts{Object: "A/a", Detail: "ghp_0123456789abcdefABCDEF"}},
			{Rule: hold.LooserGuard, Token: &hold.Token{Purpose: "guard." + sync.Name, Digest: confirm.Digest("x")}, Facts: hold.Facts{Object: "A/a"}},
		}
	}))
	done.Outcome.Results[0].Status, done.scope = "held", confirm.Scope{UID: "u"}
	v := resultOf(done)
	v.ask(sync, done)
	v.write(&sync.Status, sync, done)
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

// A text of a commit that looks like a private key is masked, and nothing that waits beside it.
func TestAReasonThatIsMaskedHidesNoOther(t *testing.T) {
	path := sanitize.Name("-----BEGIN PRIVATE KEY-----")
	token := &hold.Token{Purpose: "deletions", Digest: "d"}
	reasons := hold.Reasons{
		{Rule: hold.DeletionLosses, Token: token, Facts: hold.Facts{Object: "Sync.poolwright.dev/poolwright-system/a", Detail: "the cluster stops following " + path + " of https://git.example/a, and deletionPolicy Orphan leaves what it applied (0 objects) as it is"}},
		{Rule: hold.UpdateLosses, Token: token, Facts: hold.Facts{Object: "Cluster.poolwright.dev/cluster", Detail: "the engine stops: 40 NodeClaims keep running unmanaged"}},
		{Rule: hold.DeletionLosses, Token: token, Facts: hold.Facts{Object: "VolumeSnapshotClass/z", Detail: "x"}},
	}
	for _, got := range []string{summary(reasons, confirm.Scope{}, false), limited(reasons.String(), reasonLimit)} {
		if !strings.Contains(got, "the engine stops") || !strings.Contains(got, "VolumeSnapshotClass/z") || strings.Contains(got, "PRIVATE KEY") {
			t.Errorf("got %s", got)
		}
	}
}
