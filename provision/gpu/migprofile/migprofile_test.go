package migprofile_test

import (
	"testing"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu/migprofile"
)

func TestAGPUHoldsWhatNVIDIAListsForIt(t *testing.T) {
	for name, c := range map[string]struct {
		model   string
		devices map[string]int
		holds   bool
	}{
		"seven of the smallest":           {"H100", map[string]int{"1g.10gb": 7}, true},
		"eight of the smallest":           {"H100", map[string]int{"1g.10gb": 8}, false},
		"four with twice the memory":      {"H100", map[string]int{"1g.20gb": 4}, true},
		"five with twice the memory":      {"H100", map[string]int{"1g.20gb": 5}, false},
		"a profile of another GPU":        {"H100", map[string]int{"1g.18gb": 1}, false},
		"a GPU that must be reset for it": {"A100", map[string]int{"1g.10gb": 7}, false},
		"balanced":                        {"H100", map[string]int{"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}, true},
		"three, and one more":             {"H100", map[string]int{"2g.20gb": 3, "1g.10gb": 1}, true},
		"three, and two more":             {"H100", map[string]int{"2g.20gb": 3, "1g.10gb": 2}, false},
		"two halves":                      {"H200", map[string]int{"3g.71gb": 2}, true},
		"two halves, and no memory left":  {"H200", map[string]int{"3g.71gb": 2, "1g.18gb": 1}, false},
		"four and three":                  {"B200", map[string]int{"4g.90gb": 1, "3g.90gb": 1}, true},
		"four twice":                      {"B200", map[string]int{"4g.90gb": 2}, false},
		"the whole":                       {"B300", map[string]int{"7g.269gb": 1}, true},
		"four quarters":                   {"RTX PRO Server 6000", map[string]int{"1g.24gb": 4}, true},
		"a half and two quarters":         {"RTX PRO Server 6000", map[string]int{"1g.24gb": 2, "2g.48gb": 1}, true},
		"five quarters":                   {"RTX PRO Server 6000", map[string]int{"1g.24gb": 5}, false},
		"a GPU without MIG":               {"L4", map[string]int{"1g.5gb": 1}, false},
		"a GPU that is not known here":    {"Z9", map[string]int{"1g.1gb": 9}, true},
		"far too many":                    {"H100", map[string]int{"1g.10gb": 1 << 40}, false},
	} {
		if got := migprofile.Check(c.model, c.devices); (got.Reason == "") != c.holds {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A model that the catalog has is either without MIG, or its profiles are known; what is neither is listed here.
func TestEveryModelOfTheCatalogIsKnown(t *testing.T) {
	unknown := map[string]bool{"RTX PRO 4500": true}
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range types.Types() {
		if i.GPU.Manufacturer != "NVIDIA" || i.GPU.Count == 0 {
			continue
		}
		got := migprofile.Check(i.GPU.Name, map[string]int{"1g.0gb": 1})
		if (got.Reason == "") != unknown[i.GPU.Name] {
			t.Errorf("%s has %s: %+v", i.Name, i.GPU.Name, got)
		}
		if got.Reason != "" && got.GPU == "" {
			t.Errorf("%s: no model is named", i.Name)
		}
	}
}
