package oracle

import "github.com/poolwright/poolwright/provision/sandbox/history"

// processes are the clients that are processes of the product.
func processes(records []history.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if r.Event != nil && r.Event.Kind == history.Started {
			out[r.Event.Client] = true
		}
	}
	return out
}

// finalCommit is what the newest commit declares, or what is to be left of a Sync that was
// deleted after it; false where there is neither.
func finalCommit(records []history.Record) (declared map[history.Object]string, found bool) {
	for _, r := range records {
		if r.Event != nil && (r.Event.Kind == history.Committed || r.Event.Kind == history.SyncDeleted) {
			declared, found = byObject(r.Event.Declared), true
		}
	}
	return declared, found
}

// byObject are the values of states.
func byObject(states []history.State) map[history.Object]string {
	out := map[history.Object]string{}
	for _, d := range states {
		out[d.Object] = d.Value
	}
	return out
}
