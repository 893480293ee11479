// Package catalog has EC2's instance types: what each has (CPUs, memory, GPUs, network,
// storage) and what an hour of it costs. The figures are an embedded table with a date,
// so simulations, cost reports and the sandbox work offline and give the same result
// every time; live data may only improve on them.
//
// It holds every type on Karpenter's reference page, which are those of EC2 that a
// NodePool can require. It refuses to estimate: a type outside the table is unknown,
// never zero, a type without a published us-east-1 price has none, and a price taken
// over from another region or from the spot model is marked in [Price.Basis].
//
// Start reading at [Load] and [InstanceType]; table.go is the file format, and
// internal/generate makes types.csv from its sources.
package catalog

//go:generate go run ./internal/generate -docs $CATALOG_DOCS -api $CATALOG_API -prices $CATALOG_PRICES -out types.csv

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"
)

//go:embed types.csv
var embedded string

// Catalog is one immutable table of instance types, safe for concurrent use.
type Catalog struct {
	types     []InstanceType
	index     map[string]int
	priceDate string
	sources   []string
}

// Load reads the table that is built into the program. It takes a few
// milliseconds: call it once and hand the result on. An error means that the
// program was built with a broken table.
func Load() (*Catalog, error) {
	return Parse(strings.NewReader(embedded))
}

// New makes a catalog of the given types, in any order. The price date is the day
// the prices were read, as YYYY-MM-DD; sources describe where the figures come from,
// one line each. It returns an error that names the first type which is incomplete,
// contradicts itself or is there twice.
func New(priceDate string, sources []string, types []InstanceType) (*Catalog, error) {
	if _, err := time.Parse(time.DateOnly, priceDate); err != nil {
		return nil, fmt.Errorf("building the catalog: price date %q is not a date, write it as YYYY-MM-DD", priceDate)
	}
	for _, source := range sources {
		if strings.TrimSpace(source) != source || source == "" || strings.ContainsAny(source, "\r\n") {
			return nil, fmt.Errorf("building the catalog: source %q is not one trimmed line", source)
		}
	}
	c := &Catalog{
		types:     slices.Clone(types),
		index:     make(map[string]int, len(types)),
		priceDate: priceDate,
		sources:   slices.Clone(sources),
	}
	slices.SortFunc(c.types, func(a, b InstanceType) int { return strings.Compare(a.Name, b.Name) })
	cols := columns()
	for i, t := range c.types {
		if err := t.checkFields(cols); err != nil {
			return nil, fmt.Errorf("building the catalog: instance type %q: %w", t.Name, err)
		}
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("building the catalog: instance type %q: %w", t.Name, err)
		}
		if _, twice := c.index[t.Name]; twice {
			return nil, fmt.Errorf("building the catalog: instance type %q is there twice", t.Name)
		}
		c.index[t.Name] = i
	}
	return c, nil
}

// Lookup returns the type of that exact name, such as "g4dn.xlarge". Slices inside
// the result belong to the catalog: read them only.
func (c *Catalog) Lookup(name string) (InstanceType, bool) {
	i, ok := c.index[name]
	if !ok {
		return InstanceType{}, false
	}
	return c.types[i], true
}

// Types returns every type, sorted by name. The slice is the caller's; slices
// inside its elements are read only.
func (c *Catalog) Types() []InstanceType {
	return slices.Clone(c.types)
}

// Families returns the families in the catalog, such as "g4dn", sorted.
func (c *Catalog) Families() []string {
	var families []string
	for _, t := range c.types {
		families = append(families, t.Family())
	}
	slices.Sort(families)
	return slices.Compact(families)
}

// Subset returns a catalog with all sizes of the named families and nothing else,
// for sandboxes that need not carry every type EC2 sells. A family that is not in
// this catalog is an error that names it.
func (c *Catalog) Subset(families ...string) (*Catalog, error) {
	known := c.Families()
	for _, family := range families {
		if _, ok := slices.BinarySearch(known, family); !ok {
			return nil, fmt.Errorf("selecting instance families: family %q is not in the catalog, which has %s",
				family, strings.Join(known, " "))
		}
	}
	kept := slices.DeleteFunc(c.Types(), func(t InstanceType) bool { return !slices.Contains(families, t.Family()) })
	return New(c.priceDate, c.sources, kept)
}

// PriceDate is the day the on-demand prices were read, as YYYY-MM-DD.
func (c *Catalog) PriceDate() string { return c.priceDate }

// Sources describes where the figures come from, one line per source.
func (c *Catalog) Sources() []string { return slices.Clone(c.sources) }
