package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/connection"
)

// PublicParameters begin the names of the SSM parameters that are read: AWS's own.
const PublicParameters = "/aws/service/"

// Parameter is an SSM parameter as AWS has it now.
type Parameter struct {
	Value string
	// Version grows by one with each value.
	Version int64
}

// ReadParameters reads public SSM parameters, those below PublicParameters, in a
// region; load is as in Config. What could be read is returned beside an error, which
// has a class and the reason of each other parameter.
func ReadParameters(ctx context.Context, load func(ctx context.Context, region string) (sdk.Config, error), region string, names []string) (map[string]Parameter, error) {
	all := connection.NewClientCache(connection.Config{AWS: load, Clock: clock.RealClock{}})
	cfg, err := load(ctx, region)
	if err != nil {
		return nil, fmt.Errorf("reading SSM parameters: %w", awserr.Fail("", fmt.Errorf("%w: %w", awserr.ErrConfig, err)))
	}
	client := ssm.NewFromConfig(all.Prepare(cfg))
	ctx, cancel := connection.WithDeadline(ctx)
	defer cancel()
	out := map[string]Parameter{}
	var errs []error
	for _, name := range names {
		found, err := readParameter(ctx, client, name)
		if err != nil {
			errs = append(errs, parameterFailure(name, cfg.Region, err))
			continue
		}
		out[name] = found
	}
	return out, worst(errs)
}

// errForeign marks a parameter that is none of AWS's own.
var errForeign = errors.New("only AWS's public parameters are read, and their names start with " + PublicParameters)

// readParameter requests one at a time: a request for several is another permission.
func readParameter(ctx context.Context, client *ssm.Client, name string) (Parameter, error) {
	if !strings.HasPrefix(name, PublicParameters) {
		return Parameter{}, errForeign
	}
	out, err := client.GetParameter(ctx, &ssm.GetParameterInput{Name: sdk.String(name)})
	switch {
	case err != nil:
		return Parameter{}, err
	case out.Parameter == nil || sdk.ToString(out.Parameter.Value) == "":
		return Parameter{}, errors.New("AWS responded without a value")
	}
	return Parameter{Value: sdk.ToString(out.Parameter.Value), Version: out.Parameter.Version}, nil
}

// parameterFailure gives the error of one parameter its class and its text.
func parameterFailure(name, region string, err error) error {
	doing := "reading SSM parameter " + name
	switch code := awserr.Code(err); {
	case errors.Is(err, errForeign):
		return state.Fail(state.Stalled, "InvalidParameter", fmt.Errorf("%s: %w", doing, err))
	case code == "ParameterNotFound", code == "ParameterVersionNotFound", code == "ValidationException":
		return state.Failf(state.Stalled, "ParameterNotFound",
			"SSM parameter %s does not exist in %s: correct its name in spec.substituteFrom; aws ssm get-parameters-by-path --region %s --path lists those that exist", name, region, region)
	}
	return fmt.Errorf("%s: %w", doing, awserr.Fail("", err))
}

// worst is the error that decides what to do next, with the texts of all.
func worst(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	for _, err := range errs {
		if class, reason, _ := state.Classify(err); class == state.Stalled {
			return state.Fail(state.Stalled, reason, errors.Join(errs...))
		}
	}
	return errors.Join(errs...)
}
