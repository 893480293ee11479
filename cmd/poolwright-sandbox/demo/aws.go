package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// eventBridge sends one request about a rule, as the AWS CLI does.
func (s *Run) eventBridge(ctx context.Context, operation, rule string, response any) error {
	body, err := json.Marshal(map[string]string{"Name": rule})
	if err != nil {
		return fmt.Errorf("writing the request: %w", err)
	}
	r, err := s.request(ctx, "events", http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AWSEvents."+operation)
	return send(r, response)
}

// ssm reads a public parameter.
func (s *Run) ssm(ctx context.Context, name string) (string, error) {
	body, err := json.Marshal(map[string]string{"Name": name})
	if err != nil {
		return "", fmt.Errorf("writing the request: %w", err)
	}
	r, err := s.request(ctx, "ssm", http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AmazonSSM.GetParameter")
	var response struct{ Parameter struct{ Value string } }
	err = send(r, &response)
	return response.Parameter.Value, err
}

// ec2 sends EC2 a request.
func (s *Run) ec2(ctx context.Context, operation string, params map[string]string) error {
	form := url.Values{"Action": {operation}, "Version": {"2016-11-15"}}
	for name, value := range params {
		form.Set(name, value)
	}
	r, err := s.request(ctx, "ec2", http.MethodPost, "", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if err := send(r, nil); err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return nil
}

// eks reads something below the cluster.
func (s *Run) eks(ctx context.Context, path string, response any) error {
	r, err := s.request(ctx, "eks", http.MethodGet, "/clusters/"+s.Setup.Cluster+path, http.NoBody)
	if err != nil {
		return err
	}
	return send(r, response)
}

// request is one to a service of AWS.
func (s *Run) request(ctx context.Context, service, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.environment.Endpoint()+path, body)
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	// The sandbox reads the scope of a signature and checks no more.
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s/%s/%s/aws4_request, SignedHeaders=host, Signature=00",
		personKey, time.Now().UTC().Format("20060102"), s.environment.Env()["AWS_REGION"], service))
	return r, nil
}

// personKey is the access key of whoever acts by hand.
const personKey = "BYHAND"

// send sends a request and decodes its response, unless that is nil.
func send(r *http.Request, response any) error {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("calling AWS: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		var failure struct{ Message string }
		_ = json.NewDecoder(resp.Body).Decode(&failure) // the status is enough
		return fmt.Errorf("AWS responds to %s %s%s with %s: %s", r.Method, r.URL.Path, r.Header.Get("X-Amz-Target"), resp.Status, failure.Message)
	}
	if response == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(response); err != nil {
		return fmt.Errorf("reading AWS's response: %w", err)
	}
	return nil
}
