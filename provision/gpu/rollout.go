package pluginrollout

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision/gpu"
)

// recordAnnotation records for any later process what this one does to a node.
const recordAnnotation = gpu.RolloutAnnotation

// stoppedToken is its fourth field.
const stoppedToken = "stopped"

// rolloutRecord is the value of recordAnnotation. The zero value is no record.
type rolloutRecord struct {
	// revision is what the plugin is replaced by.
	revision string
	// pod is the one that goes.
	pod types.UID
	at  time.Time
	// stopped reports that the new plugin did not come to agree in time, and that this has
	// been reported.
	stopped bool
}

func (m rolloutRecord) String() string {
	text := fmt.Sprintf("%s %s %s", m.revision, m.pod, m.at.UTC().Format(time.RFC3339))
	if m.stopped {
		text += " " + stoppedToken
	}
	return text
}

// parseRecord reads what String wrote. Anything else is no record: the worst that comes
// of it is one more restart of a plugin.
func parseRecord(text string) rolloutRecord {
	words := strings.Split(text, " ")
	stopped := len(words) == 4 && words[3] == stoppedToken
	if len(words) != 3 && !stopped {
		return rolloutRecord{}
	}
	at, err := time.Parse(time.RFC3339, words[2])
	if err != nil || words[0] == "" || words[1] == "" {
		return rolloutRecord{}
	}
	return rolloutRecord{revision: words[0], pod: types.UID(words[1]), at: at, stopped: stopped}
}
