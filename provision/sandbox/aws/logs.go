package aws

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// logGroup is a log group of CloudWatch Logs; what is logged is not played.
type logGroup struct {
	name    string
	created time.Time
	days    int // of retention, 0 for ever
	tags    map[string]string
}

var logGroupForm = regexp.MustCompile(`^[.\-_/#A-Za-z0-9]{1,512}$`)

func logsOperations() map[string]operation {
	return map[string]operation{
		"DescribeLogGroups":     {read: true, run: describeLogGroups},
		"CreateLogGroup":        {run: createLogGroup},
		"DeleteLogGroup":        {run: deleteLogGroup},
		"PutRetentionPolicy":    {run: putRetention},
		"DeleteRetentionPolicy": {run: deleteRetention},
		"TagResource":           {run: tagLogGroup},
		"UntagResource":         {run: untagLogGroup},
		"ListTagsForResource":   {read: true, run: listLogGroupTags},
	}
}

// retentions are the numbers of days for which logs can be kept.
func retentions() []int {
	return []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
}

func (c *Cloud) logGroupARN(name string) string { return c.localARN("logs", "log-group:"+name) }

func (st *state) logGroup(name string) *logGroup {
	for _, g := range st.logs {
		if g.name == name {
			return g
		}
	}
	return nil
}

func (st *state) addLogGroup(g *logGroup) {
	st.logs = append(st.logs, g)
	slices.SortFunc(st.logs, func(a, b *logGroup) int { return strings.Compare(a.name, b.name) })
}

func errNoLogGroup() error {
	return refuse("ResourceNotFoundException", "The specified log group does not exist.")
}

func (in *call) findLogGroup(name string) (*logGroup, error) {
	if g := in.st.logGroup(name); g != nil {
		return g, nil
	}
	return nil, errNoLogGroup()
}

func describeLogGroups(in *call) (any, error) {
	var ask struct {
		LogGroupNamePrefix, NextToken string
		Limit                         *int
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	n := 50
	if ask.Limit != nil {
		n = *ask.Limit
	}
	if n < 1 || n > 50 {
		return nil, refuse("InvalidParameterException", "Value '%d' at 'limit' failed to satisfy constraint: Member must be between 1 and 50", n)
	}
	var names []string
	for _, g := range in.st.logs {
		if strings.HasPrefix(g.name, ask.LogGroupNamePrefix) {
			names = append(names, g.name)
		}
	}
	rows, next, err := in.window(names, ask.NextToken, n)
	if err != nil {
		return nil, refuse("InvalidParameterException", "%s", err)
	}
	groups := []map[string]any{}
	for _, name := range rows {
		g, arn := in.st.logGroup(name), in.cloud.logGroupARN(name)
		shown := map[string]any{"logGroupName": name, "arn": arn + ":*", "logGroupArn": arn, "creationTime": g.created.UnixMilli(),
			"metricFilterCount": 0, "storedBytes": 0, "logGroupClass": "STANDARD"}
		if g.days > 0 {
			shown["retentionInDays"] = g.days
		}
		groups = append(groups, shown)
	}
	out := map[string]any{"logGroups": groups}
	if next != "" {
		out["nextToken"] = next
	}
	return out, nil
}

func createLogGroup(in *call) (any, error) {
	var ask struct {
		LogGroupName string
		Tags         map[string]string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	if !logGroupForm.MatchString(ask.LogGroupName) {
		return nil, refuse("InvalidParameterException", "Value '%s' at 'logGroupName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\.\\-_/#A-Za-z0-9]+", ask.LogGroupName)
	}
	if in.st.logGroup(ask.LogGroupName) != nil {
		return nil, refuse("ResourceAlreadyExistsException", "The specified log group already exists")
	}
	tags, problem := tagged(nil, ask.Tags)
	if problem != "" {
		return nil, refuse("InvalidParameterException", "%s", problem)
	}
	in.st.addLogGroup(&logGroup{name: ask.LogGroupName, created: in.now, tags: tags})
	return map[string]any{}, nil
}

// onLogGroup reads a request whose only parameter is the group's name.
func (in *call) onLogGroup() (*logGroup, error) {
	var ask struct{ LogGroupName string }
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	return in.findLogGroup(ask.LogGroupName)
}

func deleteLogGroup(in *call) (any, error) {
	gone, err := in.onLogGroup()
	if err != nil {
		return nil, err
	}
	in.st.logs = slices.DeleteFunc(in.st.logs, func(g *logGroup) bool { return g == gone })
	return map[string]any{}, nil
}

func putRetention(in *call) (any, error) {
	var ask struct {
		LogGroupName    string
		RetentionInDays int
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	g, err := in.findLogGroup(ask.LogGroupName)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(retentions(), ask.RetentionInDays) {
		return nil, refuse("InvalidParameterException", "Value '%d' at 'retentionInDays' is not one of %v", ask.RetentionInDays, retentions())
	}
	g.days = ask.RetentionInDays
	return map[string]any{}, nil
}

func deleteRetention(in *call) (any, error) {
	g, err := in.onLogGroup()
	if err != nil {
		return nil, err
	}
	g.days = 0
	return map[string]any{}, nil
}

// logGroupAt finds a group by its ARN, the one without :* at its end, as
// CloudWatch Logs wants it for tags.
func (in *call) logGroupAt(arn string) (*logGroup, error) {
	name, ok := strings.CutPrefix(arn, in.cloud.logGroupARN(""))
	if !ok || strings.HasSuffix(name, ":*") {
		return nil, refuse("InvalidParameterException", "The ARN %s is not that of a log group here, which ends with its name.", arn)
	}
	return in.findLogGroup(name)
}

func tagLogGroup(in *call) (any, error) {
	var ask struct {
		ResourceArn string
		Tags        map[string]string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	g, err := in.logGroupAt(ask.ResourceArn)
	if err != nil {
		return nil, err
	}
	tags, problem := tagged(g.tags, ask.Tags)
	if problem != "" {
		return nil, refuse("InvalidParameterException", "%s", problem)
	}
	g.tags = tags
	return map[string]any{}, nil
}

func untagLogGroup(in *call) (any, error) {
	var ask struct {
		ResourceArn string
		TagKeys     []string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	g, err := in.logGroupAt(ask.ResourceArn)
	if err != nil {
		return nil, err
	}
	for _, k := range ask.TagKeys {
		delete(g.tags, k)
	}
	return map[string]any{}, nil
}

func listLogGroupTags(in *call) (any, error) {
	var ask struct{ ResourceArn string }
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	g, err := in.logGroupAt(ask.ResourceArn)
	if err != nil {
		return nil, err
	}
	return map[string]any{"tags": maps.Clone(g.tags)}, nil
}
