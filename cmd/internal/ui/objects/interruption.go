package objects

import (
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/poolwright/poolwright/cmd/internal/ui/page"
)

// interruptionEnd is how long after the last error the API server is taken to be readable again: a watch that cannot be opened is tried
// again within half of it.
const interruptionEnd = time.Minute

// interruption are the errors of watches that were not opened again.
type interruption struct {
	mu          sync.Mutex
	first, last time.Time
	message     string
}

// record takes the error of a watch. It returns whether an interruption has begun. The end of a watch by the API server is none.
func (i *interruption) record(now time.Time, err error) bool {
	if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	begun := now.Sub(i.last) >= interruptionEnd
	if begun {
		i.first = now
	}
	i.last, i.message = now, err.Error()
	return begun
}

// since is the interruption at a time; nil where there is none.
func (i *interruption) since(now time.Time) *page.Interruption {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.message == "" || now.Sub(i.last) >= interruptionEnd {
		return nil
	}
	return &page.Interruption{Since: i.first, Message: i.message}
}
