package gpu

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// formerUpdateStopped is the fourth field of the annotation as earlier releases wrote it, with blanks between fields.
const formerUpdateStopped = "stopped"

// PluginUpdate is the value of the annotation PluginUpdateAnnotation: for any later process, what is
// being done to a node's plugin. The zero value is no record.
type PluginUpdate struct {
	// Hash is the PluginHash of what the plugin is updated to.
	Hash string `json:"hash"`
	// Pod is the UID of the one that goes.
	Pod types.UID `json:"pod"`
	// Time is when that began, in whole seconds.
	Time time.Time `json:"time"`
	// Stopped reports that the new plugin did not come to agree in time, and that this has
	// been reported.
	Stopped bool `json:"stopped,omitempty"`
}

// String writes the record as the annotation has it, in JSON.
func (r PluginUpdate) String() string {
	r.Time = r.Time.UTC().Truncate(time.Second)
	text, err := json.Marshal(r)
	if err != nil { // Of texts and a time there is always a JSON.
		return ""
	}
	return string(text)
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

// ParsePluginUpdate reads what String wrote, or an earlier release. Anything else is no record: the worst that comes
// of it is one more restart of a plugin.
func ParsePluginUpdate(text string) PluginUpdate {
	var out PluginUpdate
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return parseFormer(text)
	}
	if out.Hash == "" || out.Pod == "" || out.Time.IsZero() {
		return PluginUpdate{}
	}
	out.Time = out.Time.UTC()
	return out
}

func parseFormer(text string) PluginUpdate {
	fields := strings.Split(text, " ")
	stopped := len(fields) == 4 && fields[3] == formerUpdateStopped
	if len(fields) != 3 && !stopped {
		return PluginUpdate{}
	}
	at, err := time.Parse(time.RFC3339, fields[2])
	if err != nil || fields[0] == "" || fields[1] == "" {
		return PluginUpdate{}
	}
	return PluginUpdate{Hash: fields[0], Pod: types.UID(fields[1]), Time: at, Stopped: stopped}
}
