package preflight_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/poolwright/poolwright/provision/engine/preflight"
)

// iamResponse emulates IAM.
type iamResponse struct {
	status int
	body   string
}

func (a iamResponse) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

func config(provide aws.CredentialsProviderFunc, http aws.HTTPClient) aws.Config {
	return aws.Config{Region: "eu-west-1", Credentials: provide, HTTPClient: http, Retryer: func() aws.Retryer { return aws.NopRetryer{} }}
}

func someone(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, nil
}

func TestMissingCredentialsAreReportedInOneSentence(t *testing.T) {
	if err := preflight.Credentials(t.Context(), config(someone, nil)); err != nil {
		t.Error(err)
	}
	nobody := func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no EC2 IMDS role found, operation error ec2imds: GetMetadata")
	}
	for name, cfg := range map[string]aws.Config{"none are configured": {}, "none are found": config(nobody, nil)} {
		err := preflight.Credentials(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), "AWS_PROFILE") || strings.Contains(err.Error(), "IMDS") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASpotRoleIsMissingOnlyWhenIAMHasNone(t *testing.T) {
	problem := func(code string) string {
		return `<ErrorResponse><Error><Type>Sender</Type><Code>` + code + `</Code><Message>m</Message></Error></ErrorResponse>`
	}
	for name, c := range map[string]struct {
		responses iamResponse
		missing   bool
		fails     bool
	}{
		"it is there": {iamResponse{200, `<GetRoleResponse><GetRoleResult><Role><RoleName>AWSServiceRoleForEC2Spot</RoleName></Role></GetRoleResult></GetRoleResponse>`}, false, false},
		"it is not":   {iamResponse{404, problem("NoSuchEntity")}, true, false},
		"no result":   {iamResponse{403, problem("AccessDenied")}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			missing, err := preflight.SpotServiceLinkedRoleMissing(t.Context(), config(someone, c.responses))
			if missing != c.missing || (err != nil) != c.fails {
				t.Errorf("missing %t, %v", missing, err)
			}
		})
	}
}
