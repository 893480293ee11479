package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/middleware"
	"k8s.io/utils/clock"
)

const (
	// callTimeout bounds one call with its retries.
	callTimeout = 10 * time.Second
	// attempts is how often one call is tried. What fails then is unknown
	// until the next look, and costs nobody more patience.
	attempts = 3
	// identityFor is how long an account that was once the right one is
	// trusted to be it.
	identityFor = 5 * time.Minute
)

// lines are the ways to AWS, one for each place.
type lines struct {
	cfg Config
	// limit bounds one call with its retries.
	limit time.Duration

	mu   sync.Mutex
	open map[place]*line
}

func newLines(cfg Config) *lines {
	return &lines{cfg: cfg, limit: callTimeout, open: map[place]*line{}}
}

// line is the way to one place: its clients, and who they are.
type line struct {
	*clients
	sts   *sts.Client
	clock clock.Clock

	mu    sync.Mutex
	who   string
	until time.Time
}

// to returns the line to a place whose account has been checked, and who the
// caller is there. The error is a sentence for a person, without class.
func (l *lines) to(ctx context.Context, p place) (*line, string, error) {
	one, err := l.dial(ctx, p)
	if err != nil {
		return nil, "", err
	}
	who, err := one.identify(ctx)
	return one, who, err
}

func (l *lines) dial(ctx context.Context, p place) (*line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.open[p]; one != nil {
		return one, nil
	}
	cfg, err := l.cfg.AWS(ctx, p.Region)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSetup, err)
	}
	cfg = l.prepared(cfg)
	one := &line{clients: newClients(cfg, p, l.cfg.Clock), sts: sts.NewFromConfig(cfg), clock: l.cfg.Clock}
	l.open[p] = one
	return one, nil
}

// prepared adds to an SDK configuration what all our calls have in common.
func (l *lines) prepared(cfg sdk.Config) sdk.Config {
	cfg = cfg.Copy()
	if cfg.RetryMode == "" {
		cfg.RetryMode = sdk.RetryModeAdaptive
	}
	if cfg.RetryMaxAttempts == 0 {
		cfg.RetryMaxAttempts = attempts
	}
	if cfg.Credentials != nil {
		cfg.Credentials = marked{cfg.Credentials}
	}
	cfg.APIOptions = append(cfg.APIOptions, l.guard)
	return cfg
}

// marked lets a failure to find credentials be told from the refusal of a
// request.
type marked struct{ sdk.CredentialsProvider }

// Retrieve implements sdk.CredentialsProvider.
func (m marked) Retrieve(ctx context.Context) (sdk.Credentials, error) {
	found, err := m.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		return found, fmt.Errorf("%w: %w", errCredentials, err)
	}
	return found, err
}

// errNotFresh marks a write that was not sent because this process may not
// write any more.
var errNotFresh = errors.New("nothing may be written at this moment")

// guard stands around every call and bounds its time, and in every attempt lets
// no write pass that this process may not make any more: it may have been
// frozen between two attempts.
func (l *lines) guard(stack *middleware.Stack) error {
	err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("PoolwrightPatience",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			call, done, err := begin(ctx, l.limit)
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
			if !reads(awsmiddleware.GetOperationName(ctx)) {
				end, err := l.begin()
				if err != nil {
					return middleware.FinalizeOutput{}, middleware.Metadata{}, err
				}
				defer end()
			}
			return next.HandleFinalize(ctx, in)
		}), middleware.After)
}

func (l *lines) begin() (end func(), err error) {
	if l.cfg.Begin == nil {
		return func() {}, nil
	}
	if end, err = l.cfg.Begin(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotFresh, err)
	}
	return end, nil
}

// reads reports whether an operation changes nothing, by the names that AWS
// gives to such. Any other name is taken for a write.
func reads(operation string) bool {
	for _, verb := range []string{"Get", "List", "Describe"} {
		if strings.HasPrefix(operation, verb) {
			return true
		}
	}
	return false
}

// identify is who the caller is, as a person knows it, and refuses when the
// account is not the place's. An answer that fits is believed for a while.
func (l *line) identify(ctx context.Context) (string, error) {
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
	if account := sdk.ToString(me.Account); account != l.place.Account {
		return who, &accountError{have: account, want: l.place.Account}
	}
	l.who, l.until = who, l.clock.Now().Add(identityFor)
	return who, nil
}

// forgetCaller makes the next call ask again who the caller is.
func (l *line) forgetCaller() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.who = ""
}

// accountError reports that the credentials belong to another account.
type accountError struct{ have, want string }

// Error names both accounts.
func (e *accountError) Error() string {
	return fmt.Sprintf("the AWS credentials are of account %s, and the Cluster is in account %s: use credentials of %s, or correct spec.account", e.have, e.want, e.want)
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
