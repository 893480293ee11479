package aws

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
)

// lookTimeout bounds one look at AWS: whoever waits for it has other worlds to
// see to.
const lookTimeout = 30 * time.Second

// patience is that of one look: a service that let one request run out of time
// is not asked again in it.
type patience struct {
	mu     sync.Mutex
	silent map[string]bool
}

type patienceKey struct{}

// patiently bounds one look.
func patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(ctx, patienceKey{}, &patience{silent: map[string]bool{}})
	return context.WithTimeout(ctx, lookTimeout)
}

// errSilent marks a request that was not sent, or not waited for to its end,
// because its service does not answer.
var errSilent = errors.New("no answer in time")

// calledError is the error of a call, with where it went.
type calledError struct {
	service, region string
	cause           error
}

// Error names the service.
func (e *calledError) Error() string {
	return fmt.Sprintf("%s in %s: %s", e.service, e.region, e.cause)
}

// Unwrap lets the answer be found.
func (e *calledError) Unwrap() error { return e.cause }

// begin bounds one call; done, which must be called, makes its error known.
func begin(ctx context.Context, limit time.Duration) (call context.Context, done func(error) error, err error) {
	service, region := awsmiddleware.GetServiceID(ctx), awsmiddleware.GetRegion(ctx)
	p, _ := ctx.Value(patienceKey{}).(*patience)
	if p.lost(service) {
		return nil, nil, &calledError{service: service, region: region, cause: errSilent}
	}
	call, cancel := context.WithTimeout(ctx, limit)
	return call, func(err error) error {
		defer cancel()
		if err == nil {
			return nil
		}
		if errors.Is(call.Err(), context.DeadlineExceeded) {
			p.lose(service)
			err = fmt.Errorf("%w: %w", errSilent, err)
		}
		return &calledError{service: service, region: region, cause: err}
	}, nil
}

func (p *patience) lost(service string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent[service]
}

func (p *patience) lose(service string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent[service] = true
}
