package aws

import (
	"context"
)

// Calls returns the requests so far in the order of their arrival, at least the
// last 20000.
func (c *Cloud) Calls() []Call {
	c.account.Lock()
	defer c.account.Unlock()
	out := make([]Call, 0, len(c.journal.calls))
	for _, r := range c.journal.calls {
		out = append(out, *r)
	}
	return out
}

// Watch returns the events from now on, in order, until ctx ends; then the
// channel is closed.
func (c *Cloud) Watch(ctx context.Context) <-chan Event {
	w := &watcher{changed: make(chan struct{}, 1)}
	c.account.Lock()
	c.journal.watchers = append(c.journal.watchers, w)
	c.account.Unlock()
	out := make(chan Event)
	go func() {
		defer close(out)
		defer c.unwatch(w)
		for {
			c.account.Lock()
			batch := w.queue
			w.queue = nil
			c.account.Unlock()
			for _, e := range batch {
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
			if len(batch) > 0 {
				continue
			}
			select {
			case <-w.changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (c *Cloud) unwatch(w *watcher) {
	c.account.Lock()
	defer c.account.Unlock()
	for n, o := range c.journal.watchers {
		if o == w {
			c.journal.watchers = append(c.journal.watchers[:n:n], c.journal.watchers[n+1:]...)
			return
		}
	}
}
