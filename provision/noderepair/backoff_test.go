package noderepair

import (
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func minute(n int) time.Time { return time.Date(2026, 12, 1, 12, n, 0, 0, time.UTC) }

// one is an unhealthy node. All numbers are minutes.
type one struct {
	name                            string
	created, initialized, unhealthy int
	uninitialized                   bool
}

func (o one) objects() (*karpv1.NodeClaim, *corev1.Node) {
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: o.name, CreationTimestamp: metav1.NewTime(minute(o.created))}}
	if !o.uninitialized {
		claim.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(minute(o.initialized))}}
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(minute(o.created))},
		{Type: conditions[0], Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(minute(o.unhealthy))},
	}}}
	return claim, node
}

// old is a node that was there for long, and became unhealthy then.
func old(name string, unhealthy int) one {
	return one{name: name, created: -1000, initialized: -990, unhealthy: unhealthy}
}

// replacement is a node that was created then, initialized after a minute, and unhealthy so long after that.
func replacement(name string, created, after int) one {
	return one{name: name, created: created, initialized: created + 1, unhealthy: created + 1 + after}
}

// turn is one decision about a node: repaired where no back-off keeps it.
type turn struct {
	at   int
	node one
	// until is the end of the back-off that keeps it, zero for none.
	until int
}

func TestThePoolIsBackedOffWhereReplacementsBecomeUnhealthySoon(t *testing.T) {
	for name, turns := range map[string][]turn{
		"nodes that ran for long are repaired without a bound": {
			{at: 10, node: old("a", 0)}, {at: 11, node: old("b", 1)}, {at: 12, node: old("c", 2)}, {at: 13, node: old("d", 3)},
		},
		"two go, and the next replacement waits": {
			{at: 10, node: old("a", 0)}, {at: 30, node: replacement("b", 10, 5)}, {at: 50, node: replacement("c", 30, 5), until: 55},
		},
		"the replacements of two that went at once": {
			{at: 10, node: old("a", 0)}, {at: 10, node: old("b", 0)}, {at: 30, node: replacement("c", 10, 5), until: 35}, {at: 31, node: replacement("d", 10, 5), until: 35},
		},
		"every node of the pool waits, others than replacements too": {
			{at: 10, node: old("a", 0)}, {at: 30, node: replacement("b", 10, 5)}, {at: 50, node: replacement("c", 30, 5), until: 55}, {at: 52, node: old("d", 40), until: 55}, {at: 55, node: old("d", 40)},
		},
		"after the back-off one more goes, and the back-off doubles": {
			{at: 10, node: old("a", 0)}, {at: 30, node: replacement("b", 10, 5)},
			{at: 50, node: replacement("c", 30, 5), until: 55}, {at: 55, node: replacement("c", 30, 5)},
			{at: 56, node: replacement("d", 30, 5), until: 66}, {at: 66, node: replacement("d", 30, 5)},
			{at: 80, node: replacement("e", 66, 3), until: 100}, {at: 100, node: replacement("e", 66, 3)},
			{at: 120, node: replacement("f", 101, 3), until: 160}, {at: 160, node: replacement("f", 101, 3)},
			{at: 180, node: replacement("g", 161, 3), until: 260}, {at: 260, node: replacement("g", 161, 3)},
			{at: 280, node: replacement("h", 261, 3), until: 400}, {at: 400, node: replacement("h", 261, 3)},
			{at: 420, node: replacement("i", 401, 3), until: 540},
		},
		"an hour after its initialization is soon": {
			{at: 10, node: old("a", 0)}, {at: 11, node: old("b", 1)}, {at: 82, node: replacement("c", 11, 60), until: 87},
		},
		"a minute later is not": {
			{at: 10, node: old("a", 0)}, {at: 11, node: old("b", 1)}, {at: 83, node: replacement("c", 11, 61)},
		},
		"a replacement that was never initialized": {
			{at: 10, node: old("a", 0)}, {at: 11, node: old("b", 1)}, {at: 41, node: one{name: "c", created: 11, unhealthy: 12, uninitialized: true}, until: 46},
		},
		"a node that was launched before the first became unhealthy is no replacement": {
			{at: 10, node: old("a", 0)}, {at: 11, node: old("b", 1)}, {at: 15, node: replacement("c", -1, 5)},
		},
		"one that is repaired again, because its replacement was not launched, is counted once": {
			{at: 10, node: old("a", 0)}, {at: 11, node: old("a", 0)}, {at: 12, node: old("a", 0)}, {at: 40, node: replacement("b", 12, 5)}, {at: 41, node: replacement("b", 12, 5)},
			{at: 60, node: replacement("c", 41, 5), until: 65},
		},
		"three hours without a repair end the row": {
			{at: 10, node: old("a", 0)}, {at: 11, node: old("b", 1)}, {at: 192, node: replacement("c", 170, 5)}, {at: 193, node: replacement("d", 170, 5)}, {at: 220, node: replacement("e", 195, 5), until: 225},
		},
		"three hours after a back-off the row is over, and so are its back-offs": {
			{at: 10, node: old("a", 0)}, {at: 11, node: old("b", 1)}, {at: 30, node: replacement("c", 11, 5), until: 35},
			{at: 216, node: old("d", 200)}, {at: 217, node: old("e", 200)}, {at: 240, node: replacement("f", 217, 5), until: 245},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &karpv1.NodePool{}
			for _, turn := range turns {
				// Each decision is that of another process, which has only the annotation.
				b, err := BackoffOf(pool, minute(turn.at))
				if err != nil {
					t.Fatal(err)
				}
				claim, node := turn.node.objects()
				b = b.Observe(claim, node, minute(turn.at))
				var until time.Time
				if b.Active(minute(turn.at)) {
					until = b.Until
				} else {
					b = b.Record(claim, node, minute(turn.at))
				}
				want := time.Time{}
				if turn.until != 0 {
					want = minute(turn.until)
				}
				if !until.Equal(want) {
					t.Errorf("minute %d: %s waits until %s, not %s, by %+v", turn.at, turn.node.name, until, want, b)
				}
				text, err := b.Annotation()
				if err != nil {
					t.Fatal(err)
				}
				pool.Annotations = map[string]string{BackoffAnnotation: text}
			}
		})
	}
}

func TestAnAnnotationHoldsAPoolForNoLongerThanABackOffMay(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want Backoff
		err  string
	}{
		"none":            {},
		"no JSON":         {text: "x", err: "poolwright.dev/node-repair-backoff"},
		"of another form": {text: `{"until":5}`, err: "poolwright.dev/node-repair-backoff"},
		"a far future":    {text: `{"lastRepair":"2099-01-01T00:00:00Z","backoffs":1000000000,"until":"2099-01-01T00:00:00Z"}`, err: "until 2099-01-01T00:00:00Z"},
		"a minute after the longest back-off, by another clock": {text: `{"lastRepair":"2026-12-01T12:00:00Z","backoffs":6,"until":"2026-12-01T14:01:00Z"}`, want: Backoff{LastRepair: minute(0), Backoffs: 6, Until: minute(121)}},
		"two minutes after it":           {text: `{"lastRepair":"2026-12-01T12:00:00Z","backoffs":6,"until":"2026-12-01T14:02:00Z"}`, err: "until 2026-12-01T14:02:00Z"},
		"repairs in the future":          {text: `{"unhealthySince":"2099-01-01T00:00:00Z","lastRepair":"2099-01-01T00:00:00Z"}`, want: Backoff{UnhealthySince: minute(0), LastRepair: minute(0)}},
		"more repairs than a row counts": {text: `{"unhealthySince":"2026-12-01T11:30:00Z","repaired":["` + strings.Repeat("x", 254) + `","a","b","c"],"lastRepair":"2026-12-01T11:45:00Z"}`, want: Backoff{UnhealthySince: minute(-30), Repaired: []string{"a", "b"}, LastRepair: minute(-15)}},
		"what was recorded":              {text: `{"unhealthySince":"2026-12-01T11:30:00Z","repaired":["a"],"lastRepair":"2026-12-01T11:45:00Z"}`, want: Backoff{UnhealthySince: minute(-30), Repaired: []string{"a"}, LastRepair: minute(-15)}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &karpv1.NodePool{}
			if tt.text != "" {
				pool.Annotations = map[string]string{BackoffAnnotation: tt.text}
			}
			got, err := BackoffOf(pool, minute(0))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestAnEndThatNoBackOffHasDoesNotKeepThePoolForEver(t *testing.T) {
	pool := &karpv1.NodePool{}
	pool.Annotations = map[string]string{BackoffAnnotation: `{"lastRepair":"2026-12-01T12:00:00Z","backoffs":1,"until":"2099-01-01T00:00:00Z"}`}
	for _, now := range []time.Time{minute(0), minute(120)} {
		if b, err := BackoffOf(pool, now); b.Active(now) || err == nil {
			t.Errorf("at %s it is %+v, %v", now, b, err)
		}
	}
}

func TestAClockThatIsAheadMakesNoReplacementAnOldNode(t *testing.T) {
	claim, node := old("a", 90).objects()
	if b := (Backoff{}).Record(claim, node, minute(10)); !b.UnhealthySince.Equal(minute(10)) {
		t.Errorf("the row begins at %s", b.UnhealthySince)
	}
}
