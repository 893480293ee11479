package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awsoperator "github.com/aws/karpenter-provider-aws/pkg/operator"
	"github.com/aws/smithy-go/logging"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const endpointVariable = "AWS_ENDPOINT_URL"

// LoadAWS reads the SDK's default chain (environment, shared files, web identity,
// instance role) for a region. It refuses an endpoint
// override that is not loopback, and one that would reach only some services:
// the engine terminates instances by tag, so a half-redirected one is never what
// was meant. It makes no request.
func LoadAWS(ctx context.Context, region string) (aws.Config, error) {
	if err := checkEndpointVariables(os.Environ()); err != nil {
		return aws.Config{}, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithRegion(region),
		config.WithHTTPClient(awsoperator.NewAWSSDKHTTPClient()),
		// The SDK would write to the standard error as it is.
		config.WithLogger(logging.LoggerFunc(func(class logging.Classification, format string, v ...any) {
			log.Log.WithName("aws").Info(fmt.Sprintf(format, v...), "class", string(class))
		})),
	)
	if err != nil {
		return aws.Config{}, fmt.Errorf("loading the AWS configuration: %w: correct the AWS_* variables or the shared configuration file", err)
	}
	// The shared configuration file can redirect too.
	if cfg.BaseEndpoint != nil {
		if err := loopback("the endpoint_url of the AWS configuration", *cfg.BaseEndpoint); err != nil {
			return aws.Config{}, fmt.Errorf("loading the AWS configuration: %w", err)
		}
	} else if os.Getenv(endpointVariable) != "" {
		return aws.Config{}, errors.New("loading the AWS configuration: AWS_ENDPOINT_URL is set but the SDK ignores it, so requests would reach the real AWS: unset AWS_IGNORE_CONFIGURED_ENDPOINT_URLS, or unset AWS_ENDPOINT_URL")
	}
	return cfg, nil
}

// checkEndpointVariables checks AWS_ENDPOINT_URL and its per-service relatives in an
// environment of "name=value" lines.
func checkEndpointVariables(environ []string) error {
	var errs []error
	var general bool
	var specific []string
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if value == "" || !strings.HasPrefix(name, endpointVariable) {
			continue
		}
		if name == endpointVariable {
			general = true
		} else {
			specific = append(specific, name)
		}
		if err := loopback(name, value); err != nil {
			errs = append(errs, err)
		}
	}
	if len(specific) > 0 && !general {
		slices.Sort(specific)
		errs = append(errs, fmt.Errorf("%s is set without AWS_ENDPOINT_URL, so some services would be the sandbox's and some the real ones: set AWS_ENDPOINT_URL as well, or neither", strings.Join(specific, ", ")))
	}
	return errors.Join(errs...)
}

// loopback refuses any URL whose host is not this machine. The value is not
// repeated beyond its host: it may carry a password.
func loopback(what, raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("%s is not a URL with a host: give http://127.0.0.1:<port> for the sandbox, or unset it for the real AWS", what)
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%s points to %q, which is not loopback: an endpoint override is for the sandbox only; unset it for the real AWS", what, u.Hostname())
}
