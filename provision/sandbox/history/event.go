package history

// EventKind is what an event is.
type EventKind string

// The events. The comment of each names the fields that it has.
const (
	// Planted: Secret, Wires. From then on the secret is in use.
	Planted EventKind = "planted"
	// Started: Client. A process of the product begins.
	Started EventKind = "started"
	// Killed: Client. It was killed, or stopped on request.
	Killed EventKind = "killed"
	// Exited: Client, Reason. It ended by itself.
	Exited EventKind = "exited"
	// Committed: Revision, Declared. From then on the branch declares these objects.
	Committed EventKind = "committed"
	// Kept: Object, UID. A person marked a live object to be kept.
	Kept EventKind = "kept"
	// Made: Object, UID. A person made an object that is not Poolwright's.
	Made EventKind = "made"
	// Converged: Revision. The product reported that all is as declared, and finished a run
	// that began after that.
	Converged EventKind = "converged"
	// Stuck: Reason. It did not converge within its time.
	Stuck EventKind = "stuck"
	// Observed: Live, Inventory. What is there in the end.
	Observed EventKind = "observed"
)

// Event is something that happened beside the wires.
type Event struct {
	Kind     EventKind `json:"kind"`
	Client   string    `json:"client,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Secret   string    `json:"secret,omitempty"`
	Wires    []Wire    `json:"wires,omitempty"`
	Revision string    `json:"revision,omitempty"`
	// Declared is what a commit declares.
	Declared []Declared `json:"declared,omitempty"`
	Object   Object     `json:"object,omitzero"`
	UID      string     `json:"uid,omitempty"`
	// Live is what was found of the kinds that the scenario declares.
	Live []Live `json:"live,omitempty"`
	// Inventory is what the product has recorded as its own.
	Inventory []Recorded `json:"inventory,omitempty"`
}

// Declared is an object of a commit. Value is what tells one version of it from another.
type Declared struct {
	Object Object `json:"object"`
	Value  string `json:"value"`
}

// Live is an object that was found in the cluster.
type Live struct {
	Object Object `json:"object"`
	Value  string `json:"value"`
	UID    string `json:"uid"`
}

// Recorded is an object that is in the inventory.
type Recorded struct {
	Object Object `json:"object"`
	UID    string `json:"uid"`
}

// processes are the clients that are processes of the product.
func processes(records []Record) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if r.Event != nil && r.Event.Kind == Started {
			out[r.Event.Client] = true
		}
	}
	return out
}

// finalCommit is what the newest commit declares, false where there is none.
func finalCommit(records []Record) (declared map[Object]string, found bool) {
	for _, r := range records {
		if r.Event != nil && r.Event.Kind == Committed {
			declared, found = r.Event.declared(), true
		}
	}
	return declared, found
}

func (e *Event) declared() map[Object]string {
	out := map[Object]string{}
	for _, d := range e.Declared {
		out[d.Object] = d.Value
	}
	return out
}
