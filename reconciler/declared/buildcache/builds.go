package buildcache

// Builds are those of one folder while it is loaded. A nil one has none and keeps none. It is
// used by one goroutine at a time.
type Builds struct {
	kept map[string]Build
	used []string
	made []Build
}

// NewBuilds begins with builds that count for the revision that is loaded.
func NewBuilds(kept ...Build) *Builds {
	p := &Builds{kept: make(map[string]Build, len(kept))}
	for _, k := range kept {
		p.kept[k.Name] = k
	}
	return p
}

// Find is the content of a build that was kept.
func (p *Builds) Find(name string) ([]byte, bool) {
	if p == nil {
		return nil, false
	}
	found, ok := p.kept[name]
	if ok {
		p.used = append(p.used, name)
	}
	return found.Content, ok
}

// Make adds a build that was made anew.
func (p *Builds) Make(made Build) {
	if p != nil {
		p.made = append(p.made, made)
	}
}

// Used are the names of the builds that were found, Made those that were made.
func (p *Builds) Used() []string { return p.used }

// Made are the builds that were made.
func (p *Builds) Made() []Build { return p.made }
