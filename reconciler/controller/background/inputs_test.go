package background

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/state"
)

func TestOnlyAChangeWithoutKeysIsOneOfAnInput(t *testing.T) {
	var i Inputs
	before := i.Fingerprint()
	i.Record([]state.Key{{Name: "a"}})
	if i.Fingerprint() != before {
		t.Error("drift makes a fetch outdated")
	}
	i.Record(nil)
	if i.Fingerprint() == before {
		t.Error("a change of an input makes no fetch outdated")
	}
}
