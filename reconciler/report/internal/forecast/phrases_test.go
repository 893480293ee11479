package forecast

import (
	"testing"
)

func TestRangesOfTimeGrowWiderWhenRounded(t *testing.T) {
	for want, in := range map[string][2]int{
		"20–60 min": {20, 60}, "7 min": {7, 7}, "20–180 min": {20, 180}, "1.6–3.1 h": {100, 181}, "0–4 h": {5, 240}, "1.9–3.1 days": {2800, 4321},
	} {
		if got := span(in[0], in[1]); got != want {
			t.Errorf("%v: got %q, want %q", in, got, want)
		}
	}
}
