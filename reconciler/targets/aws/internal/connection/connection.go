// Package connection connects to AWS, once for each region and account: it bounds the time of each
// call, checks that the credentials belong to the account before anything is read there, sends no
// write that this process may not make any more, and stops calling a service that does not
// respond. It decides nothing by a response. Start reading at Pool.
package connection

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

const (
	// callTimeout bounds one call with its retries.
	callTimeout = 10 * time.Second
	// Attempts is how often one call is tried. What fails then is unknown
	// until the next observation.
	Attempts = 3
	// identityFor is how long an account that was once the right one is
	// trusted to be it.
	identityFor = 5 * time.Minute
)

// Config is how AWS is reached; all fields but Begin must be set.
type Config struct {
	// AWS makes the SDK's configuration for a region: credentials, endpoint.
	// Retries and time limits are the Pool's where it sets none.
	AWS func(ctx context.Context, region string) (sdk.Config, error)
	// Begin is called before each writing request. An error, such as a lost lease,
	// keeps it from being sent; end is called with the response. Nil allows all.
	Begin func() (end func(), err error)
	// Clock is the time.
	Clock clock.Clock
}

// ClientCache has the connections to AWS, one for each scope. It is safe for concurrent use.
type ClientCache struct {
	cfg Config
	// Timeout bounds one call with its retries; ten seconds unless set before the
	// first call.
	Timeout time.Duration

	mu   sync.Mutex
	open map[resource.Scope]*Connection
}

// NewClientCache makes a Pool without connections; it sends no request.
func NewClientCache(cfg Config) *ClientCache {
	return &ClientCache{cfg: cfg, Timeout: callTimeout, open: map[resource.Scope]*Connection{}}
}

// Connection is the connection to one scope: its clients, and who their caller is.
type Connection struct {
	*resource.Clients
	sts   *sts.Client
	clock clock.Clock

	mu    sync.Mutex
	who   string
	until time.Time
}

// Connect returns the connection to a scope whose account has been checked, and who the
// caller is there, such as "role NAME". The error has no class; awserr gives it one.
func (l *ClientCache) Connect(ctx context.Context, p resource.Scope) (*Connection, string, error) {
	one, err := l.dial(ctx, p)
	if err != nil {
		return nil, "", err
	}
	who, err := one.identify(ctx)
	return one, who, err
}

func (l *ClientCache) dial(ctx context.Context, p resource.Scope) (*Connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.open[p]; one != nil {
		return one, nil
	}
	cfg, err := l.cfg.AWS(ctx, p.Region)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", awserr.ErrConfig, err)
	}
	cfg = l.Prepare(cfg)
	one := &Connection{Clients: resource.NewClients(cfg, p), sts: sts.NewFromConfig(cfg), clock: l.cfg.Clock}
	l.open[p] = one
	return one, nil
}

// Prepare adds to an SDK configuration what all calls have in common: retries, the
// time limit and the check before each write.
func (l *ClientCache) Prepare(cfg sdk.Config) sdk.Config {
	cfg = cfg.Copy()
	if cfg.RetryMode == "" {
		cfg.RetryMode = sdk.RetryModeAdaptive
	}
	if cfg.RetryMaxAttempts == 0 {
		cfg.RetryMaxAttempts = Attempts
	}
	if cfg.Credentials != nil {
		cfg.Credentials = credentialsProvider{cfg.Credentials}
	}
	cfg.APIOptions = append(cfg.APIOptions, l.guard)
	return cfg
}

// credentialsProvider lets a failure to find credentials be distinguished from the refusal of a
// request.
type credentialsProvider struct{ sdk.CredentialsProvider }

// Retrieve implements sdk.CredentialsProvider.
func (m credentialsProvider) Retrieve(ctx context.Context) (sdk.Credentials, error) {
	found, err := m.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		return found, fmt.Errorf("%w: %w", awserr.ErrCredentials, err)
	}
	return found, err
}

// guard stands around every call and bounds its time, and in every attempt lets
// no write pass that this process may not make any more: it may have been
// frozen between two attempts.
func (l *ClientCache) guard(stack *middleware.Stack) error {
	err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("PoolwrightTimeout",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			call, done, err := begin(ctx, l.Timeout)
			if err != nil {
				return middleware.InitializeOutput{}, middleware.Metadata{}, err
			}
			out, data, err := next.HandleInitialize(call, in)
			return out, data, done(err)
		}), middleware.After)
	if err != nil {
		return err
	}
	return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("PoolwrightFence",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if !IsRead(awsmiddleware.GetOperationName(ctx)) {
				end, err := l.Begin()
				if err != nil {
					return middleware.FinalizeOutput{}, middleware.Metadata{}, err
				}
				defer end()
			}
			return next.HandleFinalize(ctx, in)
		}), middleware.After)
}

// Begin is that of the Config; an error has awserr.ErrWritesDisabled.
func (l *ClientCache) Begin() (end func(), err error) {
	if l.cfg.Begin == nil {
		return func() {}, nil
	}
	if end, err = l.cfg.Begin(); err != nil {
		return nil, fmt.Errorf("%w: %w", awserr.ErrWritesDisabled, err)
	}
	return end, nil
}

// IsRead reports whether an operation changes nothing, by the names that AWS
// gives to such. Any other name is taken for a write.
func IsRead(operation string) bool {
	for _, verb := range []string{"Get", "List", "Describe"} {
		if strings.HasPrefix(operation, verb) {
			return true
		}
	}
	return false
}

// identify is who the caller is, by the name that a person gave it, and refuses when the
// account is not the scope's. A response that fits is valid for a while.
func (l *Connection) identify(ctx context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.who != "" && l.clock.Now().Before(l.until) {
		return l.who, nil
	}
	l.who = ""
	me, err := l.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	who := callerOf(sdk.ToString(me.Arn))
	if account := sdk.ToString(me.Account); account != l.Scope.Account {
		return who, &awserr.AccountError{Have: account, Expected: l.Scope.Account}
	}
	l.who, l.until = who, l.clock.Now().Add(identityFor)
	return who, nil
}

// DropIdentity makes the next Connect identify the caller anew.
func (l *Connection) DropIdentity() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.who = ""
}

// callerOf names the caller without the session that it is in.
func callerOf(arn string) string {
	_, resource, _ := strings.Cut(arn, "::")
	_, resource, _ = strings.Cut(resource, ":")
	parts := strings.Split(resource, "/")
	switch {
	case parts[0] == "assumed-role" && len(parts) > 1:
		return "role " + parts[1]
	case parts[0] == "user" && len(parts) > 1:
		return "user " + parts[len(parts)-1]
	}
	return "the caller"
}
