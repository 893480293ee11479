package fields

import (
	"math"
	"testing"
)

func TestAWholeNumberIsOneHoweverItWasDecoded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		value any
		want  int64
		whole bool
	}{
		{"an integer", int64(-3), -3, true},
		{"a float without a fraction", float64(3), 3, true},
		{"a fraction", 1.5, 0, false},
		{"what no integer holds", 1e19, 0, false},
		{"infinity", math.Inf(1), 0, false},
		{"no number", math.NaN(), 0, false},
		{"a text", "3", 0, false},
		{"nothing", nil, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, whole := Int64(tt.value)
			if whole != tt.whole || whole && got != tt.want {
				t.Errorf("%v is %d, %v, want %d, %v", tt.value, got, whole, tt.want, tt.whole)
			}
		})
	}
}
