package oracle

import "github.com/poolwright/poolwright/provision/sandbox/trace"

// processes are the clients that are processes of the product.
func processes(records []trace.Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if r.Event != nil && r.Event.Kind == trace.Started {
			out[r.Event.Client] = true
		}
	}
	return out
}

// finalCommit is what the newest commit declares, or what is to be left of a Sync that was
// deleted after it; false where there is neither.
func finalCommit(records []trace.Record) (declared map[trace.Object]string, found bool) {
	for _, r := range records {
		if r.Event != nil && (r.Event.Kind == trace.Committed || r.Event.Kind == trace.SyncDeleted) {
			declared, found = byObject(r.Event.Declared), true
		}
	}
	return declared, found
}

// byObject are the values of states.
func byObject(states []trace.State) map[trace.Object]string {
	out := map[trace.Object]string{}
	for _, d := range states {
		out[d.Object] = d.Value
	}
	return out
}
