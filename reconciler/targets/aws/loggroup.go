package aws

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
)

// logGroups are CloudWatch's groups of control-plane logs:
//
//	retentionDays  int64; absent where logs are kept for ever
//	tags
//
// EKS makes the group when logging begins. The group is nobody's part alone, so
// that without adopt it is neither made nor changed; with adopt Poolwright makes
// it where it is first. It has no deletion policy: logs are evidence, and are
// never deleted.
type logGroups struct{ neverDeleted }

// neverDeleted is for what Poolwright never deletes.
type neverDeleted struct{}

func (neverDeleted) remove(_ context.Context, _ *clients, k state.Key, _ liveResource) error {
	return state.Failf(state.Fix, "NeverDeleted", "%s is never deleted by Poolwright", k)
}

func (logGroups) want(s scope) []state.Item {
	l := s.spec.Logging
	if l == nil || l.RetentionDays == 0 {
		return nil
	}
	k := s.regional("logs", "LogGroup", "/aws/eks/"+s.Cluster+"/cluster")
	item := s.made(k, waveFirst, v1alpha1.Part{Adopt: true}, map[string]any{"retentionDays": int64(l.RetentionDays)})
	if !l.Adopt {
		delete(item.Object, "tags") // which are a sign of ours
		item.Adopt = false
		item.CompareOnly = "EKS makes the group when logging begins, and its retention is the account's affair: set adopt: true in spec.logging to let Poolwright make it and set its retention"
	}
	return []state.Item{item}
}

func (logGroups) read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource {
	out := make(map[state.Key]liveResource, len(keys))
	for _, k := range keys {
		group, err := findLogGroup(ctx, c, k.Name)
		if err != nil {
			out[k] = liveResource{err: err}
			continue
		}
		if group == nil {
			continue
		}
		seen, err := readLogGroup(ctx, c, *group)
		switch {
		case err == nil:
			out[k] = seen
		case !gone(err):
			out[k] = liveResource{err: err}
		}
	}
	return out
}

// findLogGroup looks through the groups whose names begin with name; nil where
// none has exactly that name.
func findLogGroup(ctx context.Context, c *clients, name string) (*logstypes.LogGroup, error) {
	in := &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &name}
	for {
		page, err := c.logs.DescribeLogGroups(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, g := range page.LogGroups {
			if sdk.ToString(g.LogGroupName) == name {
				return &g, nil
			}
		}
		if sdk.ToString(page.NextToken) == "" {
			return nil, nil
		}
		in.NextToken = page.NextToken
	}
}

func readLogGroup(ctx context.Context, c *clients, g logstypes.LogGroup) (liveResource, error) {
	// The tags are asked for by the ARN without its last ":*".
	arn := strings.TrimSuffix(sdk.ToString(g.Arn), ":*")
	if arn == "" {
		arn = c.place.arn("logs", "log-group:"+sdk.ToString(g.LogGroupName))
	}
	listed, err := c.logs.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: &arn})
	if err != nil {
		return liveResource{}, err
	}
	object := map[string]any{"tags": tagObject(listed.Tags)}
	if g.RetentionInDays != nil {
		object["retentionDays"] = int64(*g.RetentionInDays)
	}
	return liveResource{
		object: object, tags: listed.Tags, ours: c.place.owned(listed.Tags),
		uid: fmt.Sprintf("%s#%d", arn, sdk.ToInt64(g.CreationTime)),
	}, nil
}

// write makes the group with its tags first: should the process die before the
// retention is set, the group is known as ours and is put right.
func (logGroups) write(ctx context.Context, c *clients, wanted state.Item, live liveResource) error {
	name := wanted.Key.Name
	days, ok := fields.Int64(wanted.Object["retentionDays"])
	if !ok {
		return fmt.Errorf("setting the retention of log group %q: %v is no number of days", name, wanted.Object["retentionDays"])
	}
	if live.object == nil {
		_, err := c.logs.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name, Tags: tagsOf(wanted)})
		if err != nil {
			return err
		}
	}
	if !state.Equal(live.object["retentionDays"], wanted.Object["retentionDays"]) {
		_, err := c.logs.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: &name, RetentionInDays: sdk.Int32(int32(days))})
		if live.object == nil && gone(err) {
			return notYet(err) // it was made a moment ago
		}
		if err != nil {
			return err
		}
	}
	set, _ := retagged(wanted, live)
	if live.object == nil || len(set) == 0 {
		return nil
	}
	_, err := c.logs.TagResource(ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: sdk.String(c.place.arn("logs", "log-group:"+name)), Tags: set})
	return err
}
