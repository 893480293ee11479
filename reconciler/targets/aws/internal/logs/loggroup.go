// Package logs has the kind of CloudWatch's log groups, for the logs of the control plane. It never
// deletes one. Start reading at LogGroups.
package logs

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
)

// LogGroups are CloudWatch's groups of control-plane logs:
//
//	retentionDays  int64; absent where logs are kept for ever
//	tags
//
// EKS makes the group when logging begins. The group is nobody's part alone, so
// that without adopt it is neither made nor changed; with adopt Poolwright makes
// it where it is first. It has no deletion policy: logs are evidence, and are
// never deleted.
type LogGroups struct{ resource.NeverDeleted }

// Desired implements resource.Kind.
func (LogGroups) Desired(s resource.Declaration) []state.Item {
	l := s.Spec.Logging
	if l == nil || l.RetentionDays == 0 {
		return nil
	}
	k := s.Regional("logs", "LogGroup", "/aws/eks/"+s.Cluster+"/cluster")
	item := s.Owned(k, resource.WaveFirst, v1alpha1.ManagementPolicy{Adopt: true}, map[string]any{"retentionDays": int64(l.RetentionDays)})
	if !l.Adopt {
		delete(item.Object, "tags") // which are a sign of ours
		item.Adopt = false
		item.ReadOnly = "EKS makes the group when logging begins, and its retention is the account's affair: set adopt: true in spec.logging to let Poolwright make it and set its retention"
	}
	return []state.Item{item}
}

// Read implements resource.Kind.
func (LogGroups) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	out := make(map[state.Key]resource.Live, len(keys))
	for _, k := range keys {
		group, err := findLogGroup(ctx, c, k.Name)
		if err != nil {
			out[k] = resource.Live{Err: err}
			continue
		}
		if group == nil {
			continue
		}
		observed, err := readLogGroup(ctx, c, *group)
		switch {
		case err == nil:
			out[k] = observed
		case !awserr.IsNotFound(err):
			out[k] = resource.Live{Err: err}
		}
	}
	return out
}

// findLogGroup searches the groups whose names begin with name; nil where
// none has exactly that name.
func findLogGroup(ctx context.Context, c *resource.Clients, name string) (*logstypes.LogGroup, error) {
	in := &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &name}
	for {
		page, err := c.Logs.DescribeLogGroups(ctx, in)
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

func readLogGroup(ctx context.Context, c *resource.Clients, g logstypes.LogGroup) (resource.Live, error) {
	// The tags are read by the ARN without its last ":*".
	arn := strings.TrimSuffix(sdk.ToString(g.Arn), ":*")
	if arn == "" {
		arn = c.Scope.ARN("logs", "log-group:"+sdk.ToString(g.LogGroupName))
	}
	listed, err := c.Logs.ListTagsForResource(ctx, &cloudwatchlogs.ListTagsForResourceInput{ResourceArn: &arn})
	if err != nil {
		return resource.Live{}, err
	}
	object := map[string]any{"tags": tag.Object(listed.Tags)}
	if g.RetentionInDays != nil {
		object["retentionDays"] = int64(*g.RetentionInDays)
	}
	return resource.Live{
		Object: object, Tags: listed.Tags, Ours: c.Scope.Owns(listed.Tags),
		UID: fmt.Sprintf("%s#%d", arn, sdk.ToInt64(g.CreationTime)),
	}, nil
}

// Write makes the group with its tags first: should the process die before the
// retention is set, the group has our tags and is corrected.
func (LogGroups) Write(ctx context.Context, c *resource.Clients, desired state.Item, live resource.Live) error {
	name := desired.Key.Name
	days, ok := fields.Int64(desired.Object["retentionDays"])
	if !ok {
		return fmt.Errorf("setting the retention of log group %q: %v is no number of days", name, desired.Object["retentionDays"])
	}
	if live.Object == nil {
		_, err := c.Logs.CreateLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name, Tags: tag.Declared(desired)})
		if err != nil {
			return err
		}
	}
	if !state.Equal(live.Object["retentionDays"], desired.Object["retentionDays"]) {
		_, err := c.Logs.PutRetentionPolicy(ctx, &cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: &name, RetentionInDays: sdk.Int32(int32(days))})
		if live.Object == nil && awserr.IsNotFound(err) {
			return awserr.NotPropagated(err) // it was made a moment ago
		}
		if err != nil {
			return err
		}
	}
	set, _ := tag.Diff(desired, live.Tags)
	if live.Object == nil || len(set) == 0 {
		return nil
	}
	_, err := c.Logs.TagResource(ctx, &cloudwatchlogs.TagResourceInput{ResourceArn: sdk.String(c.Scope.ARN("logs", "log-group:"+name)), Tags: set})
	return err
}
