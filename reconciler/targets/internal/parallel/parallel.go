// Package parallel does several things at a time, and no more than so many.
//
// It does not handle errors and contexts: what is done collects its own. errgroup.Group and
// workqueue.ParallelizeUntil end at the first error or with the context, so that some items would have no
// result, which must not be taken for an absent object. It is one function, Each.
package parallel

import "sync"

// Each calls do for every item, at most n at a time, and returns when all calls
// have.
func Each[T any](n int, items []T, do func(T)) {
	slots := make(chan struct{}, n)
	var all sync.WaitGroup
	for _, item := range items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(item)
		})
	}
	all.Wait()
}
