package limits

import "sync"

// MaxPassesPerRepository is how many passes over one repository run at a time: where
// several Syncs follow it, those of others have their turn all the same.
const MaxPassesPerRepository = 2

// RepositoryLimiter counts the passes under way, by repository, and bounds them. The zero
// value is ready; it is safe for concurrent use.
type RepositoryLimiter struct {
	mu     sync.Mutex
	passes map[string]int
}

// TryAcquire reports whether another pass over a repository may begin; [RepositoryLimiter.Release]
// ends it.
func (l *RepositoryLimiter) TryAcquire(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passes[address] >= MaxPassesPerRepository {
		return false
	}
	if l.passes == nil {
		l.passes = map[string]int{}
	}
	l.passes[address]++
	return true
}

// Release ends a pass.
func (l *RepositoryLimiter) Release(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.passes[address]--; l.passes[address] <= 0 {
		delete(l.passes, address)
	}
}
