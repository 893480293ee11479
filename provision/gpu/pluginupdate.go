package gpu

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// updateStopped is the fourth field of a PluginUpdateAnnotation.
const updateStopped = "stopped"

// PluginUpdate is the value of the annotation PluginUpdateAnnotation: for any later process, what is
// being done to a node's plugin. The zero value is no record.
type PluginUpdate struct {
	// Hash is the PluginHash of what the plugin is updated to.
	Hash string
	// Pod is the UID of the one that goes.
	Pod types.UID
	// Time is when that began, in whole seconds.
	Time time.Time
	// Stopped reports that the new plugin did not come to agree in time, and that this has
	// been reported.
	Stopped bool
}

// String writes the record as the annotation has it.
func (r PluginUpdate) String() string {
	text := fmt.Sprintf("%s %s %s", r.Hash, r.Pod, r.Time.UTC().Format(time.RFC3339))
	if r.Stopped {
		text += " " + updateStopped
	}
	return text
}

// ReadPluginUpdate is the record on a Node with these annotations.
func ReadPluginUpdate(annotations map[string]string) PluginUpdate {
	return ParsePluginUpdate(cmp.Or(annotations[PluginUpdateAnnotation], annotations[formerUpdateAnnotation]))
}

// DeletePluginUpdate deletes the record on a Node with these annotations.
func DeletePluginUpdate(annotations map[string]string) {
	delete(annotations, PluginUpdateAnnotation)
	delete(annotations, formerUpdateAnnotation)
}

// ParsePluginUpdate reads what String wrote. Anything else is no record: the worst that comes
// of it is one more restart of a plugin.
func ParsePluginUpdate(text string) PluginUpdate {
	fields := strings.Split(text, " ")
	stopped := len(fields) == 4 && fields[3] == updateStopped
	if len(fields) != 3 && !stopped {
		return PluginUpdate{}
	}
	at, err := time.Parse(time.RFC3339, fields[2])
	if err != nil || fields[0] == "" || fields[1] == "" {
		return PluginUpdate{}
	}
	return PluginUpdate{Hash: fields[0], Pod: types.UID(fields[1]), Time: at, Stopped: stopped}
}
