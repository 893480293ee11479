package variables

import (
	"context"
	"sync"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

// Current are the values of one Sync's variables over the life of its reconciler: the
// newest, and those of the revision that was loaded last, which alone may be unmasked.
// The zero value has none. It is safe for concurrent use.
type Current struct {
	// Read reads the values anew; nil where the Sync has no variables.
	Read func(ctx context.Context) (substitute.Values, error)
	// Loaded, where it is not nil, is called when values become those that are loaded.
	Loaded func()

	mu             sync.Mutex
	newest, loaded substitute.Values
}

// Refresh reads the values, and returns their digest, which is empty without variables.
func (c *Current) Refresh(ctx context.Context) (string, error) {
	if c.Read == nil {
		return "", nil
	}
	values, err := c.Read(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = values
	return values.Digest(), nil
}

// Inputs refreshes the values for a Loop, and has load make the Loader that loads with just
// them; without load the Loop's own takes the newest.
func (c *Current) Inputs(load func() reconciler.Loader) reconciler.Inputs {
	return func(ctx context.Context) (string, reconciler.Loader, error) {
		digest, err := c.Refresh(ctx)
		if load == nil || err != nil {
			return digest, nil, err
		}
		return digest, load(), nil
	}
}

// Newest are the values to load a revision with.
func (c *Current) Newest() substitute.Values {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// SetLoaded makes values those of the revision that is loaded.
func (c *Current) SetLoaded(values substitute.Values) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = values
	if c.Loaded != nil {
		c.Loaded()
	}
}

// Unmask puts the values of Secrets that the loaded revision takes into a declared Secret.
func (c *Current) Unmask(object map[string]any) (map[string]any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return substitute.Reveal(object, c.loaded)
}
