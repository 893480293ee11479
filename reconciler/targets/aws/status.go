package aws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Status is what a Cluster's status shows of AWS.
type Status struct {
	// Cluster is the Cluster object's name.
	Cluster string
	// AWS is what was last found; its zero value where nothing is declared of AWS. With a
	// problem in the declaration it reports that the Cluster itself is unknown, and
	// ObservedAt may then be zero.
	AWS v1alpha1.AWSStatus
}

// statusReporter is what there is to report of AWS. It records since when a thing is
// unknown, over any number of reads.
type statusReporter struct {
	clock clock.Clock

	mu          sync.Mutex
	cluster     string
	at          time.Time
	differences map[state.Key]string
	unknown     map[state.Key]unknownResource
	quotas      []v1alpha1.Quota
	// since is when an earlier process found unknown what nobody has observed
	// known since, by what reports call it.
	since map[string]time.Time
	// changed is true when something has changed since the last report.
	changed bool
}

// unknownResource is a thing of which nothing is known.
type unknownResource struct {
	reason string
	since  time.Time
}

func newStatusReporter(c clock.Clock) *statusReporter {
	return &statusReporter{clock: c, differences: map[state.Key]string{}, unknown: map[state.Key]unknownResource{}}
}

// observed takes over a complete read, or with all false one at the desired
// things alone.
func (t *statusReporter) observed(m desiredState, p plan.Plan, live map[state.Key]resource.Live, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	t.changed = true
	t.cluster = cmp.Or(m.object, t.cluster)
	switch {
	case m.items.Len() > 0 || len(live) > 0:
		t.at = now
	case m.problem == "":
		t.at = time.Time{} // No request is sent to AWS.
	}
	old, differences := t.unknown, t.differences
	t.unknown, t.differences = map[state.Key]unknownResource{}, map[state.Key]string{}
	if !all {
		// What was not read is as it was reported last.
		for k, v := range old {
			if _, desired := m.items.Get(k); !desired {
				t.unknown[k] = v
			}
		}
		for k, v := range differences {
			if _, desired := m.items.Get(k); !desired {
				t.differences[k] = v
			}
		}
	}
	for _, u := range p.Unknown {
		since := now
		if before, known := old[u.Key]; known {
			since = before.since
		} else if before, known := t.since[u.Key.String()]; known {
			since = before
		}
		t.unknown[u.Key] = unknownResource{reason: u.Reason, since: since}
	}
	for _, c := range p.Changes {
		t.differences[c.Key] = message(c)
	}
	t.quotas = quotasIn(live)
	if all {
		t.since = nil
	}
}

// missing reports that the Cluster of which the status is, is not declared any
// more, as far as can be read; nothing where there is no story.
func (t *statusReporter) missing() []plan.Unknown {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cluster == "" {
		return nil
	}
	return []plan.Unknown{{Key: clusterKey(t.cluster), Code: codeClusterUndeclared, Reason: "not compared: no Cluster is declared any more, or its file cannot be read"}}
}

// restore takes up the status where an earlier process left it.
func (t *statusReporter) restore(s Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cluster, t.at = s.Cluster, s.AWS.ObservedAt.Time
	t.since = map[string]time.Time{}
	for _, u := range s.AWS.Unknown {
		t.since[u.Resource] = u.Since.Time
	}
}

// message is in one line what differs.
func message(c plan.Change) string {
	text := ""
	switch c.Action {
	case plan.Create:
		text = "does not exist"
	case plan.Delete:
		text = "is not declared any more, and its deletion policy is Delete"
	case plan.Update:
		var fields []string
		for n, f := range c.Fields {
			if n == maxFields {
				fields = append(fields, fmt.Sprintf("and %d more", len(c.Fields)-n))
				break
			}
			fields = append(fields, field(f))
		}
		text = strings.Join(fields, ", ")
	}
	if !c.Admitted() {
		text += " (" + c.Hold.String() + ")"
	}
	return text
}

// maxFields is how many fields one difference names, maxResources how many
// things the status holds of each kind.
const (
	maxFields    = 3
	maxResources = 50
)

// field names what differs, with the values where they are short.
func field(f plan.FieldChange) string {
	value := func(v any) string {
		switch v := v.(type) {
		case nil:
			return "absent"
		case map[string]any, []any:
			return ""
		default:
			if text := fmt.Sprint(v); len(text) <= 40 {
				return text
			}
		}
		return ""
	}
	is, want := value(f.Before), value(f.After)
	if is == "" || want == "" {
		return f.Path + " differs"
	}
	return fmt.Sprintf("%s is %s, declared is %s", f.Path, is, want)
}

// corrected takes a thing out of the differences.
func (t *statusReporter) corrected(k state.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, was := t.differences[k]; was {
		delete(t.differences, k)
		t.changed = true
	}
}

// next returns what there is to report; false where nothing has changed.
func (t *statusReporter) next() (Status, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed || t.cluster == "" {
		return Status{}, false
	}
	t.changed = false
	s := Status{Cluster: t.cluster}
	if t.at.IsZero() && len(t.unknown) == 0 {
		return s, true
	}
	s.AWS.ObservedAt = metav1.Time{Time: t.at}
	for _, k := range first(t.differences) {
		s.AWS.Differences = append(s.AWS.Differences, v1alpha1.Difference{Resource: k.String(), Message: sanitize.Text(t.differences[k])})
	}
	for _, k := range first(t.unknown) {
		u := t.unknown[k]
		s.AWS.Unknown = append(s.AWS.Unknown, v1alpha1.UnknownResource{Resource: k.String(), Reason: sanitize.Text(u.reason), Since: metav1.NewTime(u.since)})
	}
	s.AWS.Quotas = slices.Clone(t.quotas)
	return s, true
}

// first are the first keys, as many as a status holds.
func first[V any](m map[state.Key]V) []state.Key {
	keys := slices.SortedFunc(maps.Keys(m), state.Key.Compare)
	return keys[:min(len(keys), maxResources)]
}

// quotasIn finds the quotas among what was observed.
func quotasIn(observed map[state.Key]resource.Live) []v1alpha1.Quota {
	var out []v1alpha1.Quota
	for k, s := range observed {
		if k.Group != "servicequotas" || s.Object == nil {
			continue
		}
		limit, okLimit := s.Object["limitVCPUs"].(int64)
		used, okUsed := s.Object["usedVCPUs"].(int64)
		if okLimit && okUsed {
			out = append(out, v1alpha1.Quota{Name: k.Name, LimitVCPUs: limit, UsedVCPUs: used})
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.Quota) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// clusterKey stands for a Cluster object as a whole among the things of AWS.
func clusterKey(object string) state.Key {
	return state.Key{Target: resource.TargetName, Group: v1alpha1.GroupVersion.Group, Kind: "Cluster", Name: object}
}
