package reconciliation

import (
	"fmt"
	"strings"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
)

// Result reports whether a Sync is ready, and its message: that of the condition Ready, and each on a line of its own those on a
// confirmation that matches no pending change, and on a rollback.
func Result(sync *v1alpha1.Sync) (message string, ready bool) {
	var out strings.Builder
	switch c := conditions.Get(sync, fluxmeta.ReadyCondition); {
	case c == nil:
		out.WriteString("no Ready condition yet")
	case c.Status != metav1.ConditionTrue:
		out.WriteString(c.Reason + ": " + c.Message)
	default:
		out.WriteString(c.Message)
		ready = true
	}
	for _, kind := range []string{"ConfirmationMismatch", rollback.Condition} {
		if c := conditions.Get(sync, kind); c != nil && c.Status == metav1.ConditionTrue {
			fmt.Fprintf(&out, "\n%s: %s", c.Type, c.Message)
		}
	}
	return out.String(), ready
}
