// Package table has what follows from the old APIs of Karpenter without a decision: fields
// that moved, values that changed, and defaults that are other ones in v1.
package table

import (
	_ "embed"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed table.yaml
var tableText []byte

// Table is the content of table.yaml.
type Table struct {
	Kinds           []KindRules       `yaml:"kinds"`
	Made            []string          `yaml:"made"`
	KeptAnnotations []string          `yaml:"leftAnnotations"`
	Keys            []Renamed         `yaml:"keys"`
	RemovedLabels   []string          `yaml:"goneLabels"`
	ChangedValues   []string          `yaml:"revalued"`
	Aliases         map[string]string `yaml:"aliases"`
	OwnTags         []string          `yaml:"ownTags"`
	Requirements    []Requirement     `yaml:"requirements"`
}

// KindRules are those of one kind of an old API.
type KindRules struct {
	Old      string         `yaml:"old"` // group/version Kind
	New      string         `yaml:"new"`
	Moves    []Move         `yaml:"moves"`
	Values   []NewValue     `yaml:"values"`
	Drops    []Drop         `yaml:"drops"`
	Defaults []DefaultValue `yaml:"defaults"`
}

// Move is a field that has another path in v1.
type Move struct {
	From       string `yaml:"from"`
	To         string `yaml:"to"`
	Seconds    bool   `yaml:"seconds"`    // the old value is a number of them, the new a duration
	Unreported bool   `yaml:"unreported"` // it moves on, and is reported then
}

// NewValue is a value that has another name in v1.
type NewValue struct {
	At  string `yaml:"at"`
	Old string `yaml:"old"`
	New string `yaml:"new"`
}

// Drop is a field that v1 does not have.
type Drop struct {
	At     string `yaml:"at"`
	Reason string `yaml:"reason"`
}

// DefaultValue is what the old API took for a field that was left out, and v1 does not.
type DefaultValue struct {
	At         string    `yaml:"at"`
	Value      yaml.Node `yaml:"value"`
	Reason     string    `yaml:"reason"`
	WithParent bool      `yaml:"whole"` // only where the mapping around it is missing, too
}

// Renamed is a label or annotation with another key in v1.
type Renamed struct {
	Old string `yaml:"old"`
	New string `yaml:"new"`
}

// Requirement is what v1alpha5 added by itself, unless the Provisioner had one of
// certain keys.
type Requirement struct {
	Unless   []string `yaml:"unless"`
	Key      string   `yaml:"key"`
	Operator string   `yaml:"operator"`
	Values   []string `yaml:"values"`
}

// Read reads the embedded table; an error is a bug of ours.
func Read() (*Table, error) {
	var t Table
	dec := yaml.NewDecoder(strings.NewReader(string(tableText)))
	dec.KnownFields(true)
	if err := dec.Decode(&t); err != nil {
		return nil, fmt.Errorf("reading the table of old APIs: %w", err)
	}
	return &t, nil
}

// Rules are those for objects of an old kind, nil for others.
func (t *Table) Rules(apiVersion, kind string) *KindRules {
	for i := range t.Kinds {
		if t.Kinds[i].Old == apiVersion+" "+kind {
			return &t.Kinds[i]
		}
	}
	return nil
}
