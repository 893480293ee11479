package upgrade

import (
	_ "embed"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed table.yaml
var tableText []byte

// table is what can be said of the old APIs without a decision.
type table struct {
	Kinds           []kindRules       `yaml:"kinds"`
	Made            []string          `yaml:"made"`
	LeftAnnotations []string          `yaml:"leftAnnotations"`
	Keys            []renamed         `yaml:"keys"`
	GoneLabels      []string          `yaml:"goneLabels"`
	Revalued        []string          `yaml:"revalued"`
	Aliases         map[string]string `yaml:"aliases"`
	OwnTags         []string          `yaml:"ownTags"`
	Requirements    []requirement     `yaml:"requirements"`
}

type kindRules struct {
	Old      string         `yaml:"old"` // group/version Kind
	New      string         `yaml:"new"`
	Moves    []move         `yaml:"moves"`
	Values   []newValue     `yaml:"values"`
	Drops    []drop         `yaml:"drops"`
	Defaults []defaultValue `yaml:"defaults"`
}

type move struct {
	From       string `yaml:"from"`
	To         string `yaml:"to"`
	Seconds    bool   `yaml:"seconds"`    // the old value is a number of them, the new a duration
	Unreported bool   `yaml:"unreported"` // it moves on, and is reported then
}

type newValue struct {
	At  string `yaml:"at"`
	Old string `yaml:"old"`
	New string `yaml:"new"`
}

type drop struct {
	At      string `yaml:"at"`
	Because string `yaml:"because"`
}

type defaultValue struct {
	At      string    `yaml:"at"`
	Value   yaml.Node `yaml:"value"`
	Because string    `yaml:"because"`
	Whole   bool      `yaml:"whole"` // only where the mapping around it is missing, too
}

type renamed struct {
	Old string `yaml:"old"`
	New string `yaml:"new"`
}

type requirement struct {
	Unless   []string `yaml:"unless"`
	Key      string   `yaml:"key"`
	Operator string   `yaml:"operator"`
	Values   []string `yaml:"values"`
}

// readTable reads the embedded table; an error is a mistake of ours.
func readTable() (*table, error) {
	var t table
	dec := yaml.NewDecoder(strings.NewReader(string(tableText)))
	dec.KnownFields(true)
	if err := dec.Decode(&t); err != nil {
		return nil, fmt.Errorf("reading the table of old APIs: %w", err)
	}
	return &t, nil
}

// rules are those for objects of an old kind, nil for others.
func (t *table) rules(apiVersion, kind string) *kindRules {
	for i := range t.Kinds {
		if t.Kinds[i].Old == apiVersion+" "+kind {
			return &t.Kinds[i]
		}
	}
	return nil
}
