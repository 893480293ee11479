package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// column is one field of the table: how it is called, read and written.
type column struct {
	name string
	get  func(*InstanceType) string
	set  func(*InstanceType, string) error
}

// Upper bounds keep a damaged table from passing as a giant machine, and keep
// sums of any row within an int.
const (
	mostFigure = 1 << 30
	mostCards  = 64
	mostUSD    = 100_000
)

func columns() []column {
	return []column{
		nameColumn("type"),
		intColumn("vcpus", 1, func(t *InstanceType) *int { return &t.VCPUs }),
		intColumn("memory_mib", 1, func(t *InstanceType) *int { return &t.MemoryMiB }),
		listColumn("architectures", []string{"arm64", "i386", "x86_64"}, func(t *InstanceType) *[]string { return &t.Processor.Architectures }),
		textColumn("cpu_manufacturer", []string{"AMD", "AWS", "Intel"}, func(t *InstanceType) *string { return &t.Processor.Manufacturer }),
		intColumn("clock_mhz", 0, func(t *InstanceType) *int { return &t.Processor.ClockMHz }),
		setColumn("cpu_features", []string{"amd-sev-snp", "nested-virtualization"}, func(t *InstanceType) *[]string { return &t.Processor.Features }),
		textColumn("hypervisor", []string{"", "nitro", "xen"}, func(t *InstanceType) *string { return &t.Hypervisor }),
		modelColumn("gpu", func(t *InstanceType) *string { return &t.GPU.Name }),
		textColumn("gpu_manufacturer", []string{"", "AMD", "NVIDIA"}, func(t *InstanceType) *string { return &t.GPU.Manufacturer }),
		intColumn("gpu_count", 0, func(t *InstanceType) *int { return &t.GPU.Count }),
		intColumn("gpu_memory_mib", 0, func(t *InstanceType) *int { return &t.GPU.MemoryMiB }),
		modelColumn("accelerator", func(t *InstanceType) *string { return &t.Accelerator.Name }),
		textColumn("accelerator_manufacturer", []string{"", "AWS", "Qualcomm"}, func(t *InstanceType) *string { return &t.Accelerator.Manufacturer }),
		intColumn("accelerator_count", 0, func(t *InstanceType) *int { return &t.Accelerator.Count }),
		intColumn("accelerator_memory_mib", 0, func(t *InstanceType) *int { return &t.Accelerator.MemoryMiB }),
		intColumn("neuron_cores", 0, func(t *InstanceType) *int { return &t.Accelerator.NeuronCores }),
		cardsColumn("network_cards"),
		intColumn("default_card", 0, func(t *InstanceType) *int { return &t.Network.DefaultCard }),
		intColumn("ipv4_per_interface", 1, func(t *InstanceType) *int { return &t.Network.IPv4PerInterface }),
		intColumn("efa_interfaces", 0, func(t *InstanceType) *int { return &t.Network.EFAInterfaces }),
		textColumn("ena", []string{"required", "supported", "unsupported"}, func(t *InstanceType) *string { return &t.Network.ENA }),
		boolColumn("encryption_in_transit", func(t *InstanceType) *bool { return &t.Network.EncryptionInTransit }),
		boolColumn("cluster_placement", func(t *InstanceType) *bool { return &t.Network.ClusterPlacement }),
		intColumn("network_mbps", 0, func(t *InstanceType) *int { return &t.Network.BandwidthMbps }),
		intColumn("local_gb", 0, func(t *InstanceType) *int { return &t.Storage.LocalGB }),
		boolColumn("local_nvme", func(t *InstanceType) *bool { return &t.Storage.NVMe }),
		textColumn("ebs_optimized", []string{"default", "supported", "unsupported"}, func(t *InstanceType) *string { return &t.Storage.EBSOptimized }),
		intColumn("ebs_mbps", 0, func(t *InstanceType) *int { return &t.Storage.EBSMbps }),
		listColumn("usage_classes", []string{"capacity-block", "on-demand", "spot"}, func(t *InstanceType) *[]string { return &t.UsageClasses }),
		boolColumn("current_generation", func(t *InstanceType) *bool { return &t.CurrentGeneration }),
		priceColumn("on_demand_usd"),
	}
}

// checkFields holds a type that was not read from a table to the same rules as one
// that was: every field must survive being written and read.
func (t InstanceType) checkFields(cols []column) error {
	var again InstanceType
	for _, col := range cols {
		if err := col.set(&again, col.get(&t)); err != nil {
			return fmt.Errorf("field %q: %w", col.name, err)
		}
	}
	return nil
}

func nameColumn(name string) column {
	allowed := func(r rune) bool { return r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' }
	return column{
		name: name,
		get:  func(t *InstanceType) string { return t.Name },
		set: func(t *InstanceType, s string) error {
			if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !allowed(r) }) {
				return fmt.Errorf("%q is not an instance type name", s)
			}
			t.Name = s
			return nil
		},
	}
}

// modelColumn holds the name of a GPU or an accelerator, "" for none.
func modelColumn(name string, field func(*InstanceType) *string) column {
	return column{
		name: name,
		get:  func(t *InstanceType) string { return *field(t) },
		set: func(t *InstanceType, s string) error {
			if strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
				return fmt.Errorf("%q is not the name of a model", s)
			}
			*field(t) = s
			return nil
		},
	}
}

func intColumn(name string, least int, field func(*InstanceType) *int) column {
	return column{
		name: name,
		get:  func(t *InstanceType) string { return strconv.Itoa(*field(t)) },
		set: func(t *InstanceType, s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < least || n > mostFigure {
				return fmt.Errorf("%q is not a whole number of at least %d", s, least)
			}
			*field(t) = n
			return nil
		},
	}
}

func boolColumn(name string, field func(*InstanceType) *bool) column {
	return column{
		name: name,
		get:  func(t *InstanceType) string { return strconv.FormatBool(*field(t)) },
		set: func(t *InstanceType, s string) error {
			if s != "true" && s != "false" {
				return fmt.Errorf("%q is neither true nor false", s)
			}
			*field(t) = s == "true"
			return nil
		},
	}
}

func textColumn(name string, allowed []string, field func(*InstanceType) *string) column {
	return column{
		name: name,
		get:  func(t *InstanceType) string { return *field(t) },
		set: func(t *InstanceType, s string) error {
			if !slices.Contains(allowed, s) {
				return fmt.Errorf("%q is not one of %q", s, allowed)
			}
			*field(t) = s
			return nil
		},
	}
}

// listColumn holds words that are separated by blanks, without repetition.
func listColumn(name string, allowed []string, field func(*InstanceType) *[]string) column {
	return column{
		name: name,
		get:  func(t *InstanceType) string { return strings.Join(*field(t), " ") },
		set: func(t *InstanceType, s string) error {
			parts := strings.Split(s, " ")
			for i, part := range parts {
				if !slices.Contains(allowed, part) || slices.Contains(parts[:i], part) {
					return fmt.Errorf("%q is not a list of different values of %q", s, allowed)
				}
			}
			*field(t) = parts
			return nil
		},
	}
}

// setColumn is a listColumn that may be empty.
func setColumn(name string, allowed []string, field func(*InstanceType) *[]string) column {
	col := listColumn(name, allowed, field)
	set := col.set
	col.set = func(t *InstanceType, s string) error {
		if s == "" {
			*field(t) = nil
			return nil
		}
		return set(t, s)
	}
	return col
}

// cardsColumn writes cards with equal limits together: "1x15+31x2" is one card of
// 15 interfaces and 31 of two.
func cardsColumn(name string) column {
	return column{
		name: name,
		get:  func(t *InstanceType) string { return formatCards(t.Network.Cards) },
		set: func(t *InstanceType, s string) error {
			cards, ok := parseCards(s)
			if !ok || formatCards(cards) != s {
				return fmt.Errorf("%q is not a list of CARDSxINTERFACES joined by +", s)
			}
			t.Network.Cards = cards
			return nil
		},
	}
}

func parseCards(s string) ([]int, bool) {
	var cards []int
	for part := range strings.SplitSeq(s, "+") {
		before, after, _ := strings.Cut(part, "x")
		count, err1 := strconv.Atoi(before)
		most, err2 := strconv.Atoi(after)
		if err1 != nil || err2 != nil || count < 1 || count > mostCards-len(cards) || most < 1 || most > mostFigure/mostCards {
			return nil, false
		}
		cards = append(cards, slices.Repeat([]int{most}, count)...)
	}
	return cards, true
}

func formatCards(cards []int) string {
	var parts []string
	for start := 0; start < len(cards); {
		end := start
		for end < len(cards) && cards[end] == cards[start] {
			end++
		}
		parts = append(parts, fmt.Sprintf("%dx%d", end-start, cards[start]))
		start = end
	}
	return strings.Join(parts, "+")
}

// priceColumn is empty where there is no price.
func priceColumn(name string) column {
	return column{
		name: name,
		get: func(t *InstanceType) string {
			if t.OnDemandUSD == 0 {
				return ""
			}
			return strconv.FormatFloat(t.OnDemandUSD, 'f', -1, 64)
		},
		set: func(t *InstanceType, s string) error {
			if s == "" {
				t.OnDemandUSD = 0
				return nil
			}
			usd, err := strconv.ParseFloat(s, 64)
			if err != nil || !(usd > 0) || usd > mostUSD {
				return fmt.Errorf("%q is not a price in US dollars", s)
			}
			t.OnDemandUSD = usd
			return nil
		},
	}
}
