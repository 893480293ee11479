package forecast

import (
	"testing"

	"github.com/poolwright/poolwright/provision"
)

func TestOnlyNodesWithoutRoomCountAsFull(t *testing.T) {
	f := &provision.Forecast{
		Pools:    []provision.Pool{{Name: "tight", Nodes: 2, Replaced: 2, Disruption: provision.PoolDisruption{AllowedDisruptions: 1}}},
		Replaced: []provision.Node{{Pool: "tight", Blockers: []provision.Blocker{{Kind: "limit"}}}, {Pool: "tight"}},
	}
	if got := outcomesOf(f); got.full["tight"] != 1 || got.in("tight") != 1 {
		t.Errorf("%+v", got)
	}
}
