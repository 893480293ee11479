package limits

import "sync"

// MaxRunsPerRepository is how many passes over one repository run at a time: where
// several Syncs follow it, those of others have their turn all the same.
const MaxRunsPerRepository = 2

// RepositoryLimiter counts the passes under way, by repository, and bounds them. The zero
// value is ready; it is safe for concurrent use.
type RepositoryLimiter struct {
	mu   sync.Mutex
	runs map[string]int
}

// TryAcquire reports whether another pass over a repository may begin; [RepositoryLimiter.Release]
// ends it.
func (l *RepositoryLimiter) TryAcquire(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[address] >= MaxRunsPerRepository {
		return false
	}
	if l.runs == nil {
		l.runs = map[string]int{}
	}
	l.runs[address]++
	return true
}

// Release ends a pass.
func (l *RepositoryLimiter) Release(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[address]--; l.runs[address] <= 0 {
		delete(l.runs, address)
	}
}
