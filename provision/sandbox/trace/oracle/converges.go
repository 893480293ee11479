package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

func lives(records []trace.Record) []Violation {
	var out []Violation
	for _, r := range records {
		if r.Event != nil && r.Event.Kind == trace.Ended && r.Event.Reason != "" {
			out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s ended: %s", r.Event.Client, r.Event.Reason)})
		}
	}
	return out
}

// converges compares what was found in the end with the newest commit and with the
// inventory.
func converges(records []trace.Record) []Violation {
	var out []Violation
	var last *trace.Record
	deleted := false
	for i, r := range records {
		switch {
		case r.Event == nil:
		case r.Event.Kind == trace.SyncDeleted:
			deleted = true
		case r.Event.Kind == trace.Stuck:
			out = append(out, Violation{N: []int{r.N}, Detail: r.Event.Reason})
		case r.Event.Kind == trace.Observed:
			last = &records[i]
		}
	}
	declared, committed := finalCommit(records)
	if !committed {
		return out
	}
	if last == nil {
		return append(out, Violation{Detail: "the trace ends before the cluster was as declared"})
	}
	return append(out, compare(*last, declared, ofPersons(records), deleted)...)
}

// compare compares what was found in the end with what is declared and with the inventory, of
// which a deleted Sync has none.
func compare(last trace.Record, declared map[trace.Object]string, foreign map[string]bool, deleted bool) []Violation {
	var out []Violation
	live, uids, recorded := map[trace.Object]string{}, map[trace.Object]string{}, map[trace.Object]string{}
	for _, l := range last.Event.Live {
		_, desired := declared[l.Object]
		if desired || !foreign[l.UID] {
			live[l.Object] = l.Value
		}
		// What is not declared is reported as that; what is in AWS has no UID.
		if desired && l.UID != "" && !deleted {
			uids[l.Object] = l.UID
		}
	}
	for _, r := range last.Event.Inventory {
		recorded[r.Object] = r.UID
	}
	for _, d := range differences(declared, live) {
		out = append(out, Violation{N: []int{last.N}, Detail: fmt.Sprintf("%s: declared %s, live %s", d.object, d.first, d.second)})
	}
	for _, d := range differences(uids, recorded) {
		out = append(out, Violation{N: []int{last.N}, Detail: fmt.Sprintf("%s: live with UID %s, in the inventory %s", d.object, d.first, d.second)})
	}
	return out
}

// ofPersons are the UIDs of what persons made, or marked to be kept: not declared, it stays.
func ofPersons(records []trace.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if r.Event != nil && (r.Event.Kind == trace.ForeignCreated || r.Event.Kind == trace.PruneDisabled) {
			out[r.Event.UID] = true
		}
	}
	return out
}

// difference is an object of which two sides have different values.
type difference struct {
	object        trace.Object
	first, second string
}

func differences(first, second map[trace.Object]string) []difference {
	objects := maps.Clone(first)
	maps.Copy(objects, second)
	var out []difference
	for _, o := range slices.SortedFunc(maps.Keys(objects), func(a, b trace.Object) int { return cmp.Compare(a.String(), b.String()) }) {
		a, inFirst := first[o]
		b, inSecond := second[o]
		if inFirst != inSecond || a != b {
			out = append(out, difference{o, quoted(a, inFirst), quoted(b, inSecond)})
		}
	}
	return out
}

func quoted(value string, found bool) string {
	if !found {
		return "not at all"
	}
	return fmt.Sprintf("%q", value)
}
