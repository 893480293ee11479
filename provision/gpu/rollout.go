package gpu

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// rolloutStopped is the fourth field of a RolloutAnnotation.
const rolloutStopped = "stopped"

// RolloutRecord is the value of the annotation RolloutAnnotation: for any later process, what is
// being done to a node's plugin. The zero value is no record.
type RolloutRecord struct {
	// Revision is the one that the plugin is replaced by.
	Revision string
	// Pod is the UID of the one that goes.
	Pod types.UID
	// Time is when that began, in whole seconds.
	Time time.Time
	// Stopped reports that the new plugin did not come to agree in time, and that this has
	// been reported.
	Stopped bool
}

// String writes the record as the annotation has it.
func (r RolloutRecord) String() string {
	text := fmt.Sprintf("%s %s %s", r.Revision, r.Pod, r.Time.UTC().Format(time.RFC3339))
	if r.Stopped {
		text += " " + rolloutStopped
	}
	return text
}

// ReadRollout is the record on a Node with these annotations.
func ReadRollout(annotations map[string]string) RolloutRecord {
	return ParseRolloutRecord(cmp.Or(annotations[RolloutAnnotation], annotations[formerUpdateAnnotation]))
}

// DeleteRollout deletes the record on a Node with these annotations.
func DeleteRollout(annotations map[string]string) {
	delete(annotations, RolloutAnnotation)
	delete(annotations, formerUpdateAnnotation)
}

// ParseRolloutRecord reads what String wrote. Anything else is no record: the worst that comes
// of it is one more restart of a plugin.
func ParseRolloutRecord(text string) RolloutRecord {
	fields := strings.Split(text, " ")
	stopped := len(fields) == 4 && fields[3] == rolloutStopped
	if len(fields) != 3 && !stopped {
		return RolloutRecord{}
	}
	at, err := time.Parse(time.RFC3339, fields[2])
	if err != nil || fields[0] == "" || fields[1] == "" {
		return RolloutRecord{}
	}
	return RolloutRecord{Revision: fields[0], Pod: types.UID(fields[1]), Time: at, Stopped: stopped}
}
