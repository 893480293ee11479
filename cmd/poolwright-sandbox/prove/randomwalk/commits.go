package randomwalk

import "maps"

// commits are what the branch has declared.
type commits struct {
	// newest is what the newest commit declares, before what the one before it does.
	newest, before map[string]string
	// declared are the objects of all commits since the last check, that one included.
	declared map[string]bool
	count    int
}

// maxDeletions is how many objects commits between two checks remove at most: more would be
// held until they are confirmed (spec.guard).
const maxDeletions = 9

// accept adds a commit, unless it is the same as the newest or too much would be deleted.
func (c *commits) accept(model map[string]string) bool {
	deleted := 0
	for key := range c.declared {
		if _, found := model[key]; !found {
			deleted++
		}
	}
	if maps.Equal(model, c.newest) || deleted > maxDeletions {
		return false
	}
	if c.before = c.newest; c.before == nil {
		c.before = model
	}
	c.newest = maps.Clone(model)
	c.count++
	c.addNewest()
	return true
}

// checked begins anew: the cluster is as the newest commit declares.
func (c *commits) checked() {
	c.declared = nil
	c.addNewest()
}

func (c *commits) addNewest() {
	if c.declared == nil {
		c.declared = map[string]bool{}
	}
	for key := range c.newest {
		c.declared[key] = true
	}
}

// changed is what a commit with these values would declare.
func (c *commits) changed(values map[string]string) map[string]string {
	out := maps.Clone(c.newest)
	for key, value := range values {
		if value == "" {
			delete(out, key)
		} else {
			out[key] = value
		}
	}
	return out
}
