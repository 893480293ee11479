package connection

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"

	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
)

// observeTimeout bounds one observation of AWS: whoever waits for it has other targets to
// observe.
const observeTimeout = 30 * time.Second

// circuitBreaker is that of one observation: a service that let one request run out of time
// gets no other in it.
type circuitBreaker struct {
	mu   sync.Mutex
	open map[string]bool
}

type circuitBreakerKey struct{}

// WithDeadline bounds one observation to half a minute, in which a service that let one call run
// out of time is not called again.
func WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(ctx, circuitBreakerKey{}, &circuitBreaker{open: map[string]bool{}})
	return context.WithTimeout(ctx, observeTimeout)
}

// begin bounds one call; done, which must be called, makes its error known.
func begin(ctx context.Context, limit time.Duration) (call context.Context, done func(error) error, err error) {
	service, region := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetRegion(ctx)
	p, _ := ctx.Value(circuitBreakerKey{}).(*circuitBreaker)
	if p.isOpen(service) {
		return nil, nil, &awserr.CallError{Service: service, Region: region, Cause: awserr.ErrNoResponse}
	}
	call, cancel := context.WithTimeout(ctx, limit)
	return call, func(err error) error {
		defer cancel()
		if err == nil {
			return nil
		}
		if errors.Is(call.Err(), context.DeadlineExceeded) {
			p.trip(service)
			err = fmt.Errorf("%w: %w", awserr.ErrNoResponse, err)
		}
		return &awserr.CallError{Service: service, Region: region, Cause: err}
	}, nil
}

func (p *circuitBreaker) isOpen(service string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[service]
}

func (p *circuitBreaker) trip(service string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[service] = true
}
