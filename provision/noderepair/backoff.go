package noderepair

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/backoff"
)

// BackoffAnnotation has the Backoff of a NodePool, as JSON. The engine writes it, and without it there is none.
const BackoffAnnotation = "poolwright.dev/node-repair-backoff"

const (
	// mostRepaired is how many nodes are repaired in a row before a replacement that becomes unhealthy backs the pool
	// off. Between two back-offs it is one.
	mostRepaired = 2
	// early is how soon after its initialization a replacement has to become unhealthy to be no remedy.
	early = time.Hour
	// rowEnds is after how long without a repair or a back-off the next repair begins a new row. It is longer than early
	// with the longest toleration of Karpenter's, and the launch of a node.
	rowEnds = 3 * time.Hour
	// clocks is how far those of two leaders may differ.
	clocks = time.Minute
)

// Backoff is what is known of the repairs of a NodePool in a row. The zero value is that of none. It is a value: methods
// return the changed one.
type Backoff struct {
	// UnhealthySince is since when the node that was repaired first in the row had been unhealthy: a NodeClaim that was
	// created later is a replacement.
	UnhealthySince time.Time `json:"unhealthySince"`
	// Repaired names the first NodeClaims that were repaired in the row since its last back-off.
	Repaired []string `json:"repaired,omitempty"`
	// LastRepair is when the last one of the row was.
	LastRepair time.Time `json:"lastRepair"`
	// Backoffs counts those of the row, and Until is the end of the last one, zero without one.
	Backoffs int       `json:"backoffs,omitempty"`
	Until    time.Time `json:"until,omitzero"`
}

// BackoffOf reads the annotation of a NodePool. Without one, and with an error where it cannot be read, it is the zero
// value. An end that no back-off can have counts as unreadable: cut at each read, it would never come. What else a Backoff
// cannot have is cut, so that it is bounded in size and by time whatever is in the annotation.
func BackoffOf(pool *karpv1.NodePool, now time.Time) (Backoff, error) {
	text, ok := pool.Annotations[BackoffAnnotation]
	if !ok {
		return Backoff{}, nil
	}
	var b Backoff
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return Backoff{}, fmt.Errorf("reading the annotation %s of NodePool %q: %w", BackoffAnnotation, pool.Name, err)
	}
	if b.Until.After(now.Add(backoff.Max + clocks)) {
		return Backoff{}, fmt.Errorf("reading the annotation %s of NodePool %q: no back-off lasts until %s", BackoffAnnotation, pool.Name, b.Until.UTC().Format(time.RFC3339))
	}
	b.UnhealthySince, b.LastRepair = earlier(b.UnhealthySince, now), earlier(b.LastRepair, now)
	b.Repaired = slices.DeleteFunc(b.Repaired, func(name string) bool { return len(name) > validation.DNS1123SubdomainMaxLength })
	b.Repaired = b.Repaired[:min(len(b.Repaired), b.most())]
	return b, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Annotation is the value of BackoffAnnotation.
func (b Backoff) Annotation() (string, error) {
	text, err := json.Marshal(b)
	return string(text), err
}

// Active reports whether no node of the pool is repaired now.
func (b Backoff) Active(now time.Time) bool { return now.Before(b.Until) }

// Counted reports whether the repair of a NodeClaim is counted in the row. Where Karpenter would repair that now, its repair
// was decided before and not done.
func (b Backoff) Counted(claim *karpv1.NodeClaim, now time.Time) bool {
	return slices.Contains(b.at(now).Repaired, claim.Name)
}

// Observe returns the Backoff after a node was found that Karpenter would repair now. Outside of a back-off it begins one
// where the node is a replacement that became unhealthy within an hour of its initialization, after two of the pool were
// repaired in a row, or one since the last back-off.
func (b Backoff) Observe(claim *karpv1.NodeClaim, node *corev1.Node, now time.Time) Backoff {
	b = b.at(now)
	if b.Active(now) || len(b.Repaired) < b.most() || slices.Contains(b.Repaired, claim.Name) || !b.failedEarly(claim, node) {
		return b
	}
	b.Until = now.UTC().Truncate(time.Second).Add(backoff.After(b.Backoffs))
	b.Backoffs++
	b.Repaired = nil
	return b
}

// Record returns the Backoff after Karpenter has decided to repair a node. One that is recorded again, because its
// replacement could not be launched, is not counted again.
func (b Backoff) Record(claim *karpv1.NodeClaim, node *corev1.Node, now time.Time) Backoff {
	b = b.at(now)
	b.LastRepair = now.UTC().Truncate(time.Second)
	if b.UnhealthySince.IsZero() {
		b.UnhealthySince = earlier(UnhealthySince(node).UTC(), b.LastRepair)
	}
	if len(b.Repaired) < b.most() && !slices.Contains(b.Repaired, claim.Name) {
		b.Repaired = append(slices.Clone(b.Repaired), claim.Name)
	}
	return b
}

// at is the Backoff of the row that lasts now.
func (b Backoff) at(now time.Time) Backoff {
	last := b.LastRepair
	if b.Until.After(last) {
		last = b.Until
	}
	if now.Sub(last) > rowEnds {
		return Backoff{}
	}
	return b
}

func (b Backoff) most() int {
	if b.Backoffs > 0 {
		return 1
	}
	return mostRepaired
}

// failedEarly reports whether a node was launched after the first one of the row had become unhealthy, and became so itself
// within an hour of its initialization, or before.
func (b Backoff) failedEarly(claim *karpv1.NodeClaim, node *corev1.Node) bool {
	if claim.CreationTimestamp.Time.Before(b.UnhealthySince) {
		return false
	}
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeInitialized && c.Status == "True" {
			return !UnhealthySince(node).After(c.LastTransitionTime.Add(early))
		}
	}
	return true
}
