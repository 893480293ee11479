package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// spotRule is the EventBridge rule that tells of spot interruptions.
const spotRule = "poolwright-altanova-dev-euw1-eks-SpotInterruption"

// injectAWSDrift disables the rule, as somebody does in the console, and asks
// the Sync to look: by itself it asks AWS every five minutes.
func (s *story) injectAWSDrift(ctx context.Context) error {
	at := time.Now()
	if err := s.events(ctx, "DisableRule", nil); err != nil {
		return err
	}
	s.marks.mark(awsDriftInjected, "rule/"+spotRule, "by hand: disabled; spot nodes would end without warning", at)
	ask := fmt.Sprintf(`{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, at.Format(time.RFC3339Nano))
	_, err := s.dyn.Resource(syncs()).Namespace(systemNamespace).Patch(ctx, syncName, types.MergePatchType, []byte(ask), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("asking the Sync to look: %w", err)
	}
	return s.retry(ctx, "waiting for the rule", func() error {
		var rule struct{ State string }
		if err := s.events(ctx, "DescribeRule", &rule); err != nil {
			return err
		}
		if rule.State != "ENABLED" {
			return fmt.Errorf("rule %s is %s", spotRule, rule.State)
		}
		s.marks.mark(awsDriftCorrected, "rule/"+spotRule, "enabled again, as declared in the Cluster", time.Now())
		return nil
	})
}

// events sends one request about the rule to EventBridge, as the AWS CLI does.
func (s *story) events(ctx context.Context, operation string, answer any) error {
	body, err := json.Marshal(map[string]string{"Name": spotRule})
	if err != nil {
		return fmt.Errorf("writing the request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.world.Endpoint(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("writing the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "AWSEvents."+operation)
	// The sandbox reads the scope of a signature and checks no more.
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=BYHAND/%s/%s/events/aws4_request, SignedHeaders=host, Signature=00",
		time.Now().UTC().Format("20060102"), s.world.Env()["AWS_REGION"]))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("calling EventBridge: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		var said struct{ Message string }
		_ = json.NewDecoder(resp.Body).Decode(&said) // the status says enough
		return fmt.Errorf("EventBridge answers %s with %s: %s", operation, resp.Status, said.Message)
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("reading EventBridge's answer: %w", err)
	}
	return nil
}
