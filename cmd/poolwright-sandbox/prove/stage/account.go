package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// CreatePolicy makes a customer managed policy of that name in the account, as a person does.
func (s *Stage) CreatePolicy(ctx context.Context, name string) (err error) {
	form := url.Values{"Action": {"CreatePolicy"}, "Version": {"2010-05-08"}, "PolicyName": {name},
		"PolicyDocument": {`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.AWS.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// The account reads the scope of a signature and checks no more.
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=PERSON/%s/%s/iam/aws4_request, SignedHeaders=host, Signature=00",
		time.Now().UTC().Format("20060102"), s.AWS.Config.Region))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("creating the policy %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return errors.Join(fmt.Errorf("creating the policy %s: %s: %s", name, response.Status, text), err)
	}
	return nil
}
