package trace

// The kinds of events. The comment of each names the fields that it has.
const (
	// SecretAdded: Secret, Wires. From then on the secret is in use.
	SecretAdded = "secret-added"
	// Started: Client. A process of the product begins.
	Started = "started"
	// Ended: Client, Reason. It ended, without a reason where it was killed on purpose.
	Ended = "ended"
	// Committed: Revision, Declared. From then on the branch declares these objects.
	Committed = "committed"
	// PruneDisabled: Object, UID. A person marked a live object to be kept.
	PruneDisabled = "prune-disabled"
	// ForeignCreated: Object, UID. A person made an object that is not Poolwright's.
	ForeignCreated = "foreign-created"
	// AppliedBefore: UID. An earlier release of the product made an object before the trace began.
	AppliedBefore = "applied-before"
	// Edited: Object. A person is about to change or delete a live object, which is the
	// product's to correct where it is declared.
	Edited = "edited"
	// LossAdded: Object, UID. From then on something that nobody gave up goes with the object.
	LossAdded = "loss-added"
	// Converged: Revision. The product reported that all is as declared, and finished a run
	// that began after that.
	Converged = "converged"
	// Stuck: Reason. It did not converge within its time.
	Stuck = "stuck"
	// Proposed: a person is about to push to the branch of a pull request.
	Proposed = "proposed"
	// SyncDeleted: Declared. A person deletes the Sync: what is to be there afterwards is
	// Declared, and nothing is the product's any more.
	SyncDeleted = "sync-deleted"
	// LeaseDeleted: a person deletes the lease, so that two replicas may lead until the one that
	// held it learns of that.
	LeaseDeleted = "lease-deleted"
	// DisruptionAllowed: Object. From then on, machines of the NodePool may be ended that are
	// empty, or the NodeClaim whatever runs there, or the pods of a namespace may be deleted.
	DisruptionAllowed = "disruption-allowed"
	// PodBound: Object. From then on a pod uses the node of the NodeClaim.
	PodBound = "pod-bound"
	// PodDeleted: Object. No pod uses the node of the NodeClaim any more.
	PodDeleted = "pod-deleted"
	// Observed: Live, Inventory, Comments, Machines, Unowned. What is there in the end.
	Observed = "observed"
)

// Event is something that happened beside the wires.
type Event struct {
	Kind     string `json:"kind"`
	Client   string `json:"client,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Secret   string `json:"secret,omitempty"`
	Wires    []Wire `json:"wires,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Declared is what a commit declares, without UIDs.
	Declared []State `json:"declared,omitempty"`
	Object   Object  `json:"object,omitzero"`
	UID      string  `json:"uid,omitempty"`
	// Live is what was found of the kinds that the scenario declares.
	Live []State `json:"live,omitempty"`
	// Inventory is what the product has recorded as its own, without values.
	Inventory []State `json:"inventory,omitempty"`
	// Comments is how many comments of the product a pull request has, OWNER/NAME#7.
	Comments map[string]int `json:"comments,omitempty"`
	// Unowned are things in AWS that have no tag of an owner, and were not there at first.
	Unowned []Object `json:"unowned,omitempty"`
	// Machines are those of the pools.
	Machines []Machine `json:"machines,omitempty"`
}

// Machine is what there is of one machine; what there is not is empty.
type Machine struct {
	NodeClaim string `json:"nodeClaim,omitempty"`
	Instance  string `json:"instance,omitempty"`
	Node      string `json:"node,omitempty"`
}

// State is an object, or a thing in AWS, as it is declared, found or recorded. Value is what distinguishes one
// version of its content from another.
type State struct {
	Object Object `json:"object"`
	Value  string `json:"value,omitempty"`
	UID    string `json:"uid,omitempty"`
}
