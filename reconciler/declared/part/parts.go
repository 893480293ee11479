package part

// Parts are those of one folder while it is loaded. A nil one has none and keeps none. It is
// used by one goroutine at a time.
type Parts struct {
	kept map[string]Part
	used []string
	made []Part
}

// NewParts begins with parts that count for the revision that is loaded.
func NewParts(kept ...Part) *Parts {
	p := &Parts{kept: make(map[string]Part, len(kept))}
	for _, k := range kept {
		p.kept[k.Name] = k
	}
	return p
}

// Find is the content of a part that was kept.
func (p *Parts) Find(name string) ([]byte, bool) {
	if p == nil {
		return nil, false
	}
	found, ok := p.kept[name]
	if ok {
		p.used = append(p.used, name)
	}
	return found.Content, ok
}

// Make adds a part that was made anew.
func (p *Parts) Make(made Part) {
	if p != nil {
		p.made = append(p.made, made)
	}
}

// Used are the names of the parts that were found, Made those that were made.
func (p *Parts) Used() []string { return p.used }

// Made are the parts that were made.
func (p *Parts) Made() []Part { return p.made }
