package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// fenceAWS returns a configuration whose requests that change anything are sent
// only while begin allows it. It checks last of all, for every attempt: whoever was
// frozen between a decision and its request, or between two attempts, must not carry
// out what a successor has decided otherwise.
func fenceAWS(config aws.Config, begin func() (end func(), err error)) aws.Config {
	config = config.Copy()
	config.APIOptions = append(slices.Clone(config.APIOptions), func(stack *middleware.Stack) error {
		return stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("poolwrightFence",
			func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
				if operation := awsmiddleware.GetOperationName(ctx); !onlyReads(operation) {
					end, err := begin()
					if err != nil {
						return middleware.FinalizeOutput{}, middleware.Metadata{}, fmt.Errorf("sending %s to AWS: %w", operation, err)
					}
					defer end()
				}
				return next.HandleFinalize(ctx, in)
			}), middleware.After)
	})
	return config
}

// onlyReads classifies AWS operations by their names. Taking credentials is reading,
// too: without them not even a read is possible.
func onlyReads(operation string) bool {
	return slices.ContainsFunc([]string{"Describe", "Get", "List", "Assume"}, func(verb string) bool {
		return strings.HasPrefix(operation, verb)
	})
}
