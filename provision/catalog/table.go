package catalog

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// The table is lines of comma-separated fields. Lines before the column names
// start with "#"; "# prices: DATE" is required, "# source: WORDS" may repeat. Rows
// are sorted by name without duplicates, so that a change of one figure is a
// change of one line. No field holds a comma or quote.
const (
	title        = "# EC2 instance types. Made by internal/generate; do not edit by hand."
	pricePrefix  = "# prices: "
	sourcePrefix = "# source: "
)

// Parse reads a table as [Catalog.WriteTo] writes it. An error names the line and
// the field.
func Parse(r io.Reader) (*Catalog, error) {
	cols := columns()
	p := tableParser{cols: cols, header: strings.Join(names(cols), ",")}
	scanner := bufio.NewScanner(r)
	for line := 1; scanner.Scan(); line++ {
		if err := p.line(scanner.Text()); err != nil {
			return nil, fmt.Errorf("parsing the instance type table: line %d: %w", line, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading the instance type table: %w", err)
	}
	if !p.inRows {
		return nil, fmt.Errorf("parsing the instance type table: the line of column names %q is missing", p.header)
	}
	return New(p.priceDate, p.sources, p.types)
}

type tableParser struct {
	cols      []column
	header    string
	inRows    bool
	priceDate string
	sources   []string
	types     []InstanceType
}

func (p *tableParser) line(text string) error {
	if p.inRows {
		return p.row(text)
	}
	switch {
	case text == p.header:
		p.inRows = true
	case strings.HasPrefix(text, pricePrefix):
		p.priceDate = strings.TrimPrefix(text, pricePrefix)
	case strings.HasPrefix(text, sourcePrefix):
		p.sources = append(p.sources, strings.TrimPrefix(text, sourcePrefix))
	case !strings.HasPrefix(text, "#"):
		return fmt.Errorf("the column names must be %q", p.header)
	}
	return nil
}

func (p *tableParser) row(text string) error {
	fields := strings.Split(text, ",")
	if len(fields) != len(p.cols) {
		return fmt.Errorf("%d fields instead of %d", len(fields), len(p.cols))
	}
	var t InstanceType
	for i, col := range p.cols {
		if err := col.set(&t, fields[i]); err != nil {
			return fmt.Errorf("field %q: %w", col.name, err)
		}
	}
	if err := t.check(); err != nil {
		return fmt.Errorf("instance type %q: %w", t.Name, err)
	}
	if n := len(p.types); n > 0 && p.types[n-1].Name >= t.Name {
		return fmt.Errorf("field %q: %q does not sort after %q of the line before", p.cols[0].name, t.Name, p.types[n-1].Name)
	}
	p.types = append(p.types, t)
	return nil
}

// WriteTo writes the table so that [Parse] reads the same catalog back.
func (c *Catalog) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	cols := columns()
	fmt.Fprintln(&b, title)
	fmt.Fprintln(&b, pricePrefix+c.priceDate)
	for _, source := range c.sources {
		fmt.Fprintln(&b, sourcePrefix+source)
	}
	fmt.Fprintln(&b, strings.Join(names(cols), ","))
	for i := range c.types {
		fields := make([]string, len(cols))
		for j, col := range cols {
			fields[j] = col.get(&c.types[i])
		}
		fmt.Fprintln(&b, strings.Join(fields, ","))
	}
	n, err := io.WriteString(w, b.String())
	if err != nil {
		return int64(n), fmt.Errorf("writing the instance type table: %w", err)
	}
	return int64(n), nil
}

func names(cols []column) []string {
	out := make([]string, len(cols))
	for i, col := range cols {
		out[i] = col.name
	}
	return out
}
