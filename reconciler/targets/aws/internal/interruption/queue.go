// Package interruption has the kinds of AWS resources that carry interruption events to Karpenter:
// an SQS queue, and the EventBridge rules that fill it. It reads no event. Start reading at Queues
// and at Rules.
package interruption

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/policydoc"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// Queues are SQS queues: the one that carries interruption events.
//
//	retentionSeconds  int64
//	encryption        "SSE-SQS", "none", or {kmsKey}
//	policy            the canonical document
//	tags
type Queues struct{}

// managedKeys is the encryption with keys that SQS manages.
const managedKeys = "SSE-SQS"

// Desired implements resource.Kind.
func (Queues) Desired(s resource.Declaration) []state.Item {
	q := s.Spec.InterruptionQueue
	if q == nil {
		return nil
	}
	encryption := any(managedKeys)
	if q.KMSKey != "" {
		encryption = map[string]any{"kmsKey": shortKey(s.Scope, q.KMSKey)}
	}
	return []state.Item{s.Owned(s.Regional("sqs", "Queue", q.Name), resource.WaveFirst, q.ManagementPolicy, map[string]any{
		"retentionSeconds": int64(q.Retention.Duration / time.Second),
		"encryption":       encryption,
		"policy":           queuePolicy(s.Scope, q.Name),
	})}
}

// queuePolicy lets the account's own EventBridge rules fill the queue, and
// nobody use it without TLS. The rules are not named one by one: rules
// that somebody else aims at a queue that is adopted go on to deliver.
//
// EventBridge reports SQS its rule and SQS's own principal the account, so each
// has the condition that is documented for it; neither lets another account's
// resources in.
func queuePolicy(p resource.Scope, name string) map[string]any {
	queue := p.ARN("sqs", name)
	statement := func(sid, effect, action string, principal, condition map[string]any) any {
		return map[string]any{
			"Sid": sid, "Effect": effect, "Action": []any{action}, "Resource": []any{queue}, "Principal": principal, "Condition": condition,
		}
	}
	only := func(operator, key, value string) map[string]any {
		return map[string]any{operator: map[string]any{key: []any{value}}}
	}
	return map[string]any{"Version": "2012-10-17", "Statement": []any{
		statement("EventsOfThisAccount", "Allow", "sqs:SendMessage",
			map[string]any{"Service": []any{"events.amazonaws.com"}}, only("ArnLike", "aws:SourceArn", p.ARN("events", "rule/*"))),
		statement("OnlyWithTLS", "Deny", "sqs:*",
			map[string]any{"AWS": []any{"*"}}, only("Bool", "aws:SecureTransport", "false")),
		statement("QueuesOfThisAccount", "Allow", "sqs:SendMessage",
			map[string]any{"Service": []any{"sqs.amazonaws.com"}}, only("StringEquals", "aws:SourceAccount", p.Account)),
	}}
}

// shortKey writes a KMS key as shortly as SQS takes it: SQS repeats what it was
// given, so that a key's ARN and its id would be two keys.
func shortKey(p resource.Scope, key string) string {
	own := p.ARN("kms", "")
	if rest, ok := strings.CutPrefix(key, own); ok {
		return strings.TrimPrefix(rest, "key/")
	}
	return key
}

// Read implements resource.Kind.
func (Queues) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	out := make(map[state.Key]resource.Live, len(keys))
	for _, k := range keys {
		observed, err := readQueue(ctx, c, k.Name)
		switch {
		case err == nil:
			out[k] = observed
		case !awserr.IsNotFound(err):
			out[k] = resource.Live{Err: err}
		}
	}
	return out
}

func readQueue(ctx context.Context, c *resource.Clients, name string) (resource.Live, error) {
	found, err := c.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return resource.Live{}, err
	}
	attributes, err := c.SQS.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: found.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	if err != nil {
		return resource.Live{}, err
	}
	tags, err := c.SQS.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: found.QueueUrl})
	if err != nil {
		return resource.Live{}, err
	}
	a := attributes.Attributes
	object, err := queueObject(c.Scope, a)
	if err != nil {
		return resource.Live{}, fmt.Errorf("reading queue %q: %w", name, err)
	}
	object["tags"] = tag.Object(tags.Tags)
	return resource.Live{
		Object: object, Tags: tags.Tags, Ours: c.Scope.Owns(tags.Tags),
		UID: c.Scope.ARN("sqs", name) + "#" + a[string(sqstypes.QueueAttributeNameCreatedTimestamp)],
	}, nil
}

// queueObject writes a queue's attributes in the form of what is desired.
func queueObject(p resource.Scope, a map[string]string) (map[string]any, error) {
	seconds, err := strconv.ParseInt(a[string(sqstypes.QueueAttributeNameMessageRetentionPeriod)], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("MessageRetentionPeriod is no number of seconds: %w", err)
	}
	object := map[string]any{"retentionSeconds": seconds, "encryption": "none"}
	switch key := a[string(sqstypes.QueueAttributeNameKmsMasterKeyId)]; {
	case key != "":
		object["encryption"] = map[string]any{"kmsKey": shortKey(p, key)}
	case a[string(sqstypes.QueueAttributeNameSqsManagedSseEnabled)] == "true":
		object["encryption"] = managedKeys
	}
	if policy := a[string(sqstypes.QueueAttributeNamePolicy)]; policy != "" {
		object["policy"] = policy // as it is, and so unequal to any that is desired
		if doc, err := policydoc.Parse(policy); err == nil {
			object["policy"] = doc
		}
	}
	return object, nil
}

// Write implements resource.Kind.
func (Queues) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	name, have, attributes := desired.Key.Name, live.Object, map[string]string{}
	if !state.Equal(have["retentionSeconds"], desired.Object["retentionSeconds"]) {
		attributes[string(sqstypes.QueueAttributeNameMessageRetentionPeriod)] = fmt.Sprint(desired.Object["retentionSeconds"])
	}
	if !state.Equal(have["encryption"], desired.Object["encryption"]) {
		maps.Copy(attributes, encryptionAttributes(desired.Object["encryption"], have["encryption"]))
	}
	if !state.Equal(have["policy"], desired.Object["policy"]) {
		text, err := policydoc.Text(desired.Object["policy"])
		if err != nil {
			return fmt.Errorf("writing the policy of queue %q: %w", name, err)
		}
		attributes[string(sqstypes.QueueAttributeNamePolicy)] = text
	}
	if have == nil {
		// Attributes and tags come with the queue, so that there is never one
		// that is half ours.
		_, err := c.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes, Tags: tag.Declared(desired)})
		return err
	}
	found, err := c.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return err
	}
	if len(attributes) > 0 {
		if _, err := c.SQS.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: found.QueueUrl, Attributes: attributes}); err != nil {
			return err
		}
	}
	set, drop := tag.Diff(desired, live.Tags)
	if len(set) > 0 {
		if _, err := c.SQS.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: found.QueueUrl, Tags: set}); err != nil {
			return err
		}
	}
	if len(drop) > 0 {
		_, err = c.SQS.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: found.QueueUrl, TagKeys: drop})
	}
	return err
}

// encryptionAttributes turn the one encryption into the other. A KMS key turns
// the managed keys off by itself; the other way, both must be set.
func encryptionAttributes(desired, have any) map[string]string {
	const key, managed = string(sqstypes.QueueAttributeNameKmsMasterKeyId), string(sqstypes.QueueAttributeNameSqsManagedSseEnabled)
	if kms, ok := desired.(map[string]any); ok {
		return map[string]string{key: fmt.Sprint(kms["kmsKey"])}
	}
	out := map[string]string{managed: "true"}
	if _, hadKey := have.(map[string]any); hadKey {
		out[key] = ""
	}
	return out
}

// Remove implements resource.Kind.
func (Queues) Remove(ctx context.Context, c *resource.Clients, k state.Key, _ resource.Live) error {
	found, err := c.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: sdk.String(k.Name)})
	if err == nil {
		_, err = c.SQS.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: found.QueueUrl})
	}
	if awserr.IsNotFound(err) {
		return nil
	}
	return err
}
