// Package ec2test lets tests of EC2's parts send their requests with the SDK's own
// client. Start with Client.
package ec2test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// NewAccount is an account in us-east-1 with a clock that stands.
func NewAccount() (*api.Account, *Clock) {
	clock := &Clock{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	return &api.Account{ID: "123456789012", Region: "us-east-1", Cluster: "sandbox", Clock: clock}, clock
}

// Clock stands until it is advanced.
type Clock struct {
	now    time.Time
	timers []*timer
}

type timer struct {
	at time.Time
	f  func()
}

// Now is the time at which the clock stands.
func (c *Clock) Now() time.Time { return c.now }

// AfterFunc has f run by the Advance that reaches its time.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	next := &timer{c.now.Add(d), f}
	c.timers = append(c.timers, next)
	return func() bool {
		n := len(c.timers)
		c.timers = slices.DeleteFunc(c.timers, func(t *timer) bool { return t == next })
		return len(c.timers) < n
	}
}

// Advance moves the time on and runs what has come due, in the order of its times.
func (c *Clock) Advance(d time.Duration) {
	end := c.now.Add(d)
	for {
		slices.SortStableFunc(c.timers, func(a, b *timer) int { return a.at.Compare(b.at) })
		if len(c.timers) == 0 || c.timers[0].at.After(end) {
			c.now = end
			return
		}
		next := c.timers[0]
		c.timers = c.timers[1:]
		c.now = next.at
		next.f()
	}
}

// Client is the SDK's client of an account whose EC2 has these operations.
func Client(account *api.Account, operations map[string]api.Operation) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: account.Region, BaseEndpoint: aws.String("http://127.0.0.1"), RetryMaxAttempts: 1, HTTPClient: endpoint{account, operations},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "EMULATED", SecretAccessKey: "EMULATED"}, nil
		}),
	})
}

// endpoint serves the operations without a network.
type endpoint struct {
	account    *api.Account
	operations map[string]api.Operation
}

// Do serves a request as the front of the emulated AWS does.
func (e endpoint) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := query.Parse(string(body))
	if err != nil {
		return nil, err
	}
	elements, err := e.run(form)
	status, root := http.StatusOK, query.Group("Response", elements...)
	if refused, ok := errors.AsType[*api.Error](err); ok {
		status, root = refused.Status, query.Group("Response", query.Group("Errors", query.Group("Error", query.Text("Code", refused.Code), query.Text("Message", refused.Message))))
	} else if err != nil {
		return nil, err
	}
	content := io.NopCloser(bytes.NewReader(query.Document(root, "")))
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: content, Request: r}, nil
}

func (e endpoint) run(form query.Form) ([]query.Element, error) {
	name := form.Get("Action")
	op, known := e.operations[name]
	if !known {
		return nil, api.Refuse("InvalidAction", "There is no %s.", name)
	}
	if param := form.Unknown(append([]string{"Action", "Version", "DryRun"}, op.Params...)); param != "" {
		return nil, api.Refuse("UnknownParameter", "%s has no %s.", name, param)
	}
	dry, err := form.Bool("DryRun")
	if err != nil {
		return nil, err
	}
	if dry && op.Read {
		return nil, api.ErrDryRun()
	}
	e.account.Lock()
	defer e.account.Unlock()
	var params []string
	for _, param := range form.Names() {
		params = append(params, param+"="+form.Get(param))
	}
	result, err := op.Run(&api.Call{Op: name, Form: form, Key: "EMULATED", Dry: dry, Now: e.account.Clock.Now(), Params: strings.Join(params, " ")})
	elements, _ := result.([]query.Element)
	return elements, err
}

// Code is the error code of what an operation returned, "" without an error.
func Code[T any](_ T, err error) string {
	if err == nil {
		return ""
	}
	if refused, ok := errors.AsType[smithy.APIError](err); ok {
		return refused.ErrorCode()
	}
	return err.Error()
}

// Filters are of names and their values, which commas separate.
func Filters(pairs ...string) (out []types.Filter) {
	for n := 0; n < len(pairs); n += 2 {
		out = append(out, types.Filter{Name: aws.String(pairs[n]), Values: strings.Split(pairs[n+1], ",")})
	}
	return out
}

// Tags are of keys and values.
func Tags(pairs ...string) (out []types.Tag) {
	for n := 0; n < len(pairs); n += 2 {
		out = append(out, types.Tag{Key: aws.String(pairs[n]), Value: aws.String(pairs[n+1])})
	}
	return out
}

// Tagged is the specification of tags for a type of resource.
func Tagged(kind types.ResourceType, pairs ...string) []types.TagSpecification {
	return []types.TagSpecification{{ResourceType: kind, Tags: Tags(pairs...)}}
}

// TagMap are tags by their keys.
func TagMap(tags []types.Tag) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		out[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}
