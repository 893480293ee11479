package aws

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
)

// queues are SQS queues: the one that carries interruption events.
//
//	retentionSeconds  int64
//	encryption        "SSE-SQS", "none", or {kmsKey}
//	policy            the canonical document
//	tags
type queues struct{}

// managedKeys is the encryption with keys that SQS manages.
const managedKeys = "SSE-SQS"

func (queues) want(s scope) []state.Item {
	q := s.spec.InterruptionQueue
	if q == nil {
		return nil
	}
	encryption := any(managedKeys)
	if q.KMSKey != "" {
		encryption = map[string]any{"kmsKey": s.shortKey(q.KMSKey)}
	}
	return []state.Item{s.made(s.regional("sqs", "Queue", q.Name), waveFirst, q.Part, map[string]any{
		"retentionSeconds": int64(q.Retention.Duration / time.Second),
		"encryption":       encryption,
		"policy":           queuePolicy(s.place, q.Name),
	})}
}

// queuePolicy lets the account's own EventBridge rules fill the queue, and
// nobody speak to it without TLS. The rules are not named one by one: rules
// that somebody else aims at a queue that is adopted go on to deliver.
//
// EventBridge reports SQS its rule and SQS's own principal the account, so each
// has the condition that is documented for it; neither lets another account's
// resources in.
func queuePolicy(p place, name string) map[string]any {
	queue := p.arn("sqs", name)
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
			map[string]any{"Service": []any{"events.amazonaws.com"}}, only("ArnLike", "aws:SourceArn", p.arn("events", "rule/*"))),
		statement("OnlyWithTLS", "Deny", "sqs:*",
			map[string]any{"AWS": []any{"*"}}, only("Bool", "aws:SecureTransport", "false")),
		statement("QueuesOfThisAccount", "Allow", "sqs:SendMessage",
			map[string]any{"Service": []any{"sqs.amazonaws.com"}}, only("StringEquals", "aws:SourceAccount", p.Account)),
	}}
}

// shortKey writes a KMS key as shortly as SQS takes it: SQS repeats what it was
// given, so that a key's ARN and its id would look like two keys.
func (p place) shortKey(key string) string {
	own := p.arn("kms", "")
	if rest, ok := strings.CutPrefix(key, own); ok {
		return strings.TrimPrefix(rest, "key/")
	}
	return key
}

func (queues) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	out := make(map[state.Key]liveResource, len(keys))
	for _, k := range keys {
		seen, err := readQueue(ctx, c, k.Name)
		switch {
		case err == nil:
			out[k] = seen
		case !gone(err):
			out[k] = liveResource{err: err}
		}
	}
	return out
}

func readQueue(ctx context.Context, c *clients, name string) (liveResource, error) {
	found, err := c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return liveResource{}, err
	}
	attributes, err := c.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: found.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	if err != nil {
		return liveResource{}, err
	}
	tags, err := c.sqs.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: found.QueueUrl})
	if err != nil {
		return liveResource{}, err
	}
	a := attributes.Attributes
	object, err := queueObject(c.place, a)
	if err != nil {
		return liveResource{}, fmt.Errorf("reading queue %q: %w", name, err)
	}
	object["tags"] = tagObject(tags.Tags)
	return liveResource{
		object: object, tags: tags.Tags, ours: c.place.owned(tags.Tags),
		uid: c.place.arn("sqs", name) + "#" + a[string(sqstypes.QueueAttributeNameCreatedTimestamp)],
	}, nil
}

// queueObject writes a queue's attributes in the form of want.
func queueObject(p place, a map[string]string) (map[string]any, error) {
	seconds, err := strconv.ParseInt(a[string(sqstypes.QueueAttributeNameMessageRetentionPeriod)], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("MessageRetentionPeriod is no number of seconds: %w", err)
	}
	object := map[string]any{"retentionSeconds": seconds, "encryption": "none"}
	switch key := a[string(sqstypes.QueueAttributeNameKmsMasterKeyId)]; {
	case key != "":
		object["encryption"] = map[string]any{"kmsKey": p.shortKey(key)}
	case a[string(sqstypes.QueueAttributeNameSqsManagedSseEnabled)] == "true":
		object["encryption"] = managedKeys
	}
	if policy := a[string(sqstypes.QueueAttributeNamePolicy)]; policy != "" {
		object["policy"] = policy // as it is, and so unequal to any that is wanted
		if doc, err := document(policy); err == nil {
			object["policy"] = doc
		}
	}
	return object, nil
}

func (queues) write(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	name, have, attributes := wanted.Key.Name, live.object, map[string]string{}
	if !state.Equal(have["retentionSeconds"], wanted.Object["retentionSeconds"]) {
		attributes[string(sqstypes.QueueAttributeNameMessageRetentionPeriod)] = fmt.Sprint(wanted.Object["retentionSeconds"])
	}
	if !state.Equal(have["encryption"], wanted.Object["encryption"]) {
		maps.Copy(attributes, encryptionAttributes(wanted.Object["encryption"], have["encryption"]))
	}
	if !state.Equal(have["policy"], wanted.Object["policy"]) {
		text, err := documentText(wanted.Object["policy"])
		if err != nil {
			return fmt.Errorf("writing the policy of queue %q: %w", name, err)
		}
		attributes[string(sqstypes.QueueAttributeNamePolicy)] = text
	}
	if have == nil {
		// Attributes and tags come with the queue, so that there is never one
		// that is half ours.
		_, err := c.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes, Tags: tagsOf(wanted)})
		return err
	}
	found, err := c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return err
	}
	if len(attributes) > 0 {
		if _, err := c.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: found.QueueUrl, Attributes: attributes}); err != nil {
			return err
		}
	}
	set, drop := retagged(wanted, live)
	if len(set) > 0 {
		if _, err := c.sqs.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: found.QueueUrl, Tags: set}); err != nil {
			return err
		}
	}
	if len(drop) > 0 {
		_, err = c.sqs.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: found.QueueUrl, TagKeys: drop})
	}
	return err
}

// encryptionAttributes turn the one encryption into the other. A KMS key turns
// the managed keys off by itself; the other way, both must be said.
func encryptionAttributes(wanted, have any) map[string]string {
	const key, managed = string(sqstypes.QueueAttributeNameKmsMasterKeyId), string(sqstypes.QueueAttributeNameSqsManagedSseEnabled)
	if kms, ok := wanted.(map[string]any); ok {
		return map[string]string{key: fmt.Sprint(kms["kmsKey"])}
	}
	out := map[string]string{managed: "true"}
	if _, hadKey := have.(map[string]any); hadKey {
		out[key] = ""
	}
	return out
}

func (queues) remove(ctx context.Context, c *clients, k state.Key, _ liveResource) error {
	found, err := c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: sdk.String(k.Name)})
	if err == nil {
		_, err = c.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: found.QueueUrl})
	}
	if gone(err) {
		return nil
	}
	return err
}
