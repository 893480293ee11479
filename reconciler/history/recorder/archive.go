package recorder

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/history"
)

const (
	// archiveAt is how many records a State keeps before they are archived, and maxRecords how many of applies and of
	// drift it has at most, whatever becomes of their archive. maxClosed and maxHours are how many of NodeClaims that were
	// terminated and of hours.
	archiveAt  = 200
	maxRecords = 1000
	maxClosed  = 10_000
	maxHours   = 20_000
	// maxArchived is how many records of a kind are archived at once, in maxArchiveBytes at most.
	maxArchived     = 1000
	maxArchiveBytes = 256 << 10
	// hoursAge is how old an hour is that nothing is added to any more, and recordAge how old another record.
	hoursAge  = 3 * time.Hour
	recordAge = 10 * time.Minute
)

// Archive is what is to be taken out of a State: records that do not change any more, as bytes.
type Archive struct {
	// Records are NodeClaims, applies and drift; Hours are PoolHours. Either is nil where there is none.
	Records, Hours []byte

	records history.History
	hours   []hourKey
}

// Archive returns what is to be taken out, or nil where the State has not yet enough of it. There may be more of it, after
// this was archived. Each part must be written, at the
// end of an archive of its kind, and then Archived be called; until then all of it stays in the State.
// The NodeClaims that are present are those with these UIDs: a record of one of them stays, so that it is not taken
// for a new one.
func (s *State) Archive(present func(uid string) bool) (*Archive, error) {
	old := s.now.Add(-recordAge)
	a := &Archive{}
	for _, n := range s.closed {
		if n.Terminated.Time.Before(old) && !present(n.UID) {
			a.records.NodeClaims = append(a.records.NodeClaims, n)
		}
	}
	a.records.Applies = unchanging(s.applies, func(one history.Apply) bool { return one.Time.Time.Before(old) })
	a.records.Drift = unchanging(s.drift, func(d history.Drift) bool { found := lastFound(d); return found.Time.Before(old) })
	for key := range s.hours {
		if time.Unix(key.hour, 0).Before(s.now.Add(-hoursAge)) {
			a.hours = append(a.hours, key)
		}
	}
	records := len(a.records.NodeClaims) + len(a.records.Applies) + len(a.records.Drift)
	var err error
	if records >= archiveAt {
		all := a.records
		a.Records, err = fit(func(n int) document {
			a.records = history.History{NodeClaims: first(all.NodeClaims, n), Applies: first(all.Applies, n), Drift: first(all.Drift, n)}
			return document{History: a.records}
		})
	}
	if err == nil && len(a.hours) >= archiveAt {
		slices.SortFunc(a.hours, func(a, b hourKey) int { return cmp.Or(cmp.Compare(a.hour, b.hour), strings.Compare(a.pool, b.pool)) })
		all := a.hours
		a.Hours, err = fit(func(n int) document {
			a.hours = first(all, n)
			of := history.History{}
			for _, key := range a.hours {
				of.PoolHours = append(of.PoolHours, *s.hours[key])
			}
			return document{History: of}
		})
	}
	if err != nil || a.Records == nil && a.Hours == nil {
		return nil, err
	}
	return a, nil
}

// fit encodes as many records of each kind as take maxArchiveBytes at most, and one at least.
func fit(of func(n int) document) ([]byte, error) {
	for n := maxArchived; ; n /= 2 {
		content, err := encode(of(n))
		if err != nil || len(content) <= maxArchiveBytes || n == 1 {
			return content, err
		}
	}
}

// first are the first n of a list, or all of it.
func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// unchanging are the records that are old, and those of which there are many newer ones.
func unchanging[T any](records []T, old func(T) bool) []T {
	var out []T
	for i, one := range records {
		if old(one) || i < len(records)-archiveAt {
			out = append(out, one)
		}
	}
	return out
}

// lastFound is when the drift was found for the last time.
func lastFound(d history.Drift) metav1.Time {
	if d.Last.IsZero() {
		return d.Time
	}
	return d.Last
}

// Archived takes out what is in an archive that was written.
func (s *State) Archived(a *Archive) {
	if a.Records != nil {
		s.closed = without(s.closed, a.records.NodeClaims, func(x, y history.NodeClaim) bool { return x.UID == y.UID })
		s.applies = without(s.applies, a.records.Applies, func(x, y history.Apply) bool {
			return x.Sync == y.Sync && x.Time.Equal(&y.Time) && x.Revision == y.Revision && x.TreeID == y.TreeID
		})
		s.drift = without(s.drift, a.records.Drift, func(x, y history.Drift) bool {
			return x.Sync == y.Sync && x.Object == y.Object && x.Time.Equal(&y.Time) && x.Last.Equal(&y.Last)
		})
	}
	if a.Hours != nil {
		maps.DeleteFunc(s.hours, func(key hourKey, _ *history.PoolHour) bool { return slices.Contains(a.hours, key) })
	}
	s.changed = true
}

// without is a list without the others.
func without[T any](list, others []T, same func(a, b T) bool) []T {
	return slices.DeleteFunc(list, func(a T) bool {
		return slices.ContainsFunc(others, func(b T) bool { return same(a, b) })
	})
}
