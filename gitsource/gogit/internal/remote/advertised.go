package remote

import (
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// Reference returns what a reference with a full name points at, the commit or the annotated
// tag that leads to it, and the commit; false where the server lists none of that name.
func (c *Connection) Reference(name string) (object, commit plumbing.Hash, ok bool) {
	object, ok = c.adv.References[name]
	if commit = object; !ok {
		return plumbing.ZeroHash, plumbing.ZeroHash, false
	}
	if peeled, ok := c.adv.Peeled[name]; ok {
		commit = peeled
	}
	return object, commit, true
}

// Advertises reports whether a reference points at an object.
func (c *Connection) Advertises(h plumbing.Hash) bool {
	for _, r := range c.adv.References {
		if r == h {
			return true
		}
	}
	return false
}

// Tips are what the branches and tags point at, each once, in no order.
func (c *Connection) Tips() []plumbing.Hash {
	var out []plumbing.Hash
	listed := map[plumbing.Hash]bool{}
	for name, h := range c.adv.References {
		if (strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")) && !listed[h] {
			listed[h] = true
			out = append(out, h)
		}
	}
	return out
}

// SupportsShallow reports whether the server can limit how much history it sends.
func (c *Connection) SupportsShallow() bool {
	return c.adv.Capabilities.Supports(capability.Shallow)
}

// SupportsFilter reports whether the server can send commits without their trees.
func (c *Connection) SupportsFilter() bool {
	return c.adv.Capabilities.Supports(capability.Filter)
}

// SupportsReachable reports whether the server sends commits that no reference points at, but
// leads to.
func (c *Connection) SupportsReachable() bool {
	return c.adv.Capabilities.Supports(capability.AllowReachableSHA1InWant)
}
