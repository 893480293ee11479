package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

// emptyFirst answers each list with a page without anything and a token for the next,
// as AWS may where it filters, and everything on that. The services whose SDK goes
// through the pages by itself are left out.
type emptyFirst struct {
	next sdk.HTTPClient
	mu   *sync.Mutex
	// cut are the lists that were cut, continued those of which the next page was read.
	cut, continued *[]string
}

const nextPage = "the-next-page"

// paged is the operation of a request for a list, and how it spells the token.
func paged(r *http.Request) (operation, token string) {
	_, operation, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch operation {
	case "ListRules", "ListTargetsByRule", "ListRuleNamesByTarget", "ListServiceQuotas", "ListAWSDefaultServiceQuotas":
		return operation, "NextToken"
	case "DescribeLogGroups":
		return operation, "nextToken"
	}
	if list := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; r.Method == http.MethodGet && slices.Contains([]string{"access-entries", "pod-identity-associations"}, list) {
		return list, "nextToken"
	}
	return "", ""
}

func (e emptyFirst) Do(r *http.Request) (*http.Response, error) {
	operation, token := paged(r)
	if operation == "" {
		return e.next.Do(r)
	}
	var body []byte
	requested := map[string]any{}
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		if len(body) > 0 && json.Unmarshal(body, &requested) != nil {
			requested = map[string]any{}
		}
	}
	query := r.URL.Query()
	e.mu.Lock()
	defer e.mu.Unlock()
	if requested[token] != nextPage && query.Get(token) != nextPage {
		*e.cut = append(*e.cut, operation)
		response, err := json.Marshal(map[string]string{token: nextPage})
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}}, Body: io.NopCloser(bytes.NewReader(response)), Request: r}, err
	}
	*e.continued = append(*e.continued, operation)
	delete(requested, token)
	query.Del(token)
	again := r.Clone(r.Context())
	again.URL.RawQuery = query.Encode()
	if len(body) > 0 {
		var err error
		if body, err = json.Marshal(requested); err != nil {
			return nil, err
		}
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return e.next.Do(again)
}

// TestEveryPageIsRead: what AWS shows on a later page is there.
func TestEveryPageIsRead(t *testing.T) {
	var cut, continued []string
	var mu sync.Mutex
	b := newBench(t, kindtest.AtOnce(nil), bootstrapping, func(c *Config) {
		inner := c.AWS
		c.AWS = func(ctx context.Context, region string) (sdk.Config, error) {
			cfg, err := inner(ctx, region)
			cfg.HTTPClient = emptyFirst{cfg.HTTPClient, &mu, &cut, &continued}
			return cfg, err
		}
	})
	declared := b.declare(func(s *v1alpha1.ClusterSpec) {
		everything(false)(s)
		s.Logging = &v1alpha1.Logging{Adopt: true, RetentionDays: 30}
	})
	b.converge(declared)
	b.converged(declared)
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(cut)
	cut = slices.Compact(cut)
	for _, operation := range cut {
		if !slices.Contains(continued, operation) {
			t.Errorf("only the first page of %s is read", operation)
		}
	}
	for _, operation := range []string{"DescribeLogGroups", "ListRuleNamesByTarget", "ListRules", "ListTargetsByRule", "access-entries", "pod-identity-associations"} {
		if !slices.Contains(cut, operation) {
			t.Errorf("%s was never asked for: %v", operation, cut)
		}
	}
}

// TestAllRulesOfOthersAreCounted has more rules lead to the queue than one page names.
func TestAllRulesOfOthersAreCounted(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(queued(v1alpha1.ManagementPolicy{}))
	b.converge(declared)
	const others = 120
	queue := b.hand.Scope.ARN("sqs", b.hand.Scope.Cluster)
	for n := range others {
		name := sdk.String("other-" + string(rune('a'+n/26)) + string(rune('a'+n%26)))
		if _, err := b.hand.Events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: name, EventPattern: sdk.String(`{"source":["aws.ec2"]}`)}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.hand.Events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: name, Targets: []eventstypes.Target{{Id: sdk.String("1"), Arn: &queue}}}); err != nil {
			t.Fatal(err)
		}
	}
	p := b.plan(declared)
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0].Text, " and 112 more") {
		t.Errorf("notes are %+v", p.Notes)
	}
}
