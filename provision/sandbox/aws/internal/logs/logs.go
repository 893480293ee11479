// Package logs is CloudWatch Logs: log groups, their retention and tags. What is
// logged is not emulated.
package logs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Service is CloudWatch Logs in one account.
type Service struct {
	account *api.Account
	groups  []*logGroup // by name
}

// New has no log groups.
func New(account *api.Account) *Service { return &Service{account: account} }

// Clone copies deep enough that nothing later shows in it.
func (svc *Service) Clone() *Service {
	out := *svc
	out.groups = api.Clones(svc.groups)
	for _, g := range out.groups {
		g.tags = maps.Clone(g.tags)
	}
	return &out
}

// Table is what CloudWatch Logs can do here.
func (svc *Service) Table() api.Table {
	return api.Table{Operations: svc.operations(), Authorizations: svc.authorizations(), Required: map[string][]string{
		"CreateLogGroup": {"logGroupName"}, "DeleteLogGroup": {"logGroupName"},
		"PutRetentionPolicy": {"logGroupName", "retentionInDays"}, "DeleteRetentionPolicy": {"logGroupName"},
		"TagResource": {"resourceArn", "tags"}, "UntagResource": {"resourceArn", "tagKeys"}, "ListTagsForResource": {"resourceArn"},
	}}
}

// Ensure makes a group without tags and a retention, unless there is one of that
// name: as AWS's services do for what they log.
func (svc *Service) Ensure(name string, now time.Time) {
	if svc.logGroup(name) == nil {
		svc.addLogGroup(&logGroup{name: name, created: now, tags: map[string]string{}})
	}
}

// logGroup is a log group of CloudWatch Logs; what is logged is not emulated.
type logGroup struct {
	name    string
	created time.Time
	days    int // of retention, 0 for ever
	tags    map[string]string
}

var logGroupForm = regexp.MustCompile(`^[.\-_/#A-Za-z0-9]{1,512}$`)

func (svc *Service) operations() map[string]api.Operation {
	return map[string]api.Operation{
		"DescribeLogGroups":     {Read: true, Run: svc.describeLogGroups},
		"CreateLogGroup":        {Run: svc.createLogGroup},
		"DeleteLogGroup":        {Run: svc.deleteLogGroup},
		"PutRetentionPolicy":    {Run: svc.putRetention},
		"DeleteRetentionPolicy": {Run: svc.deleteRetention},
		"TagResource":           {Run: svc.tagLogGroup},
		"UntagResource":         {Run: svc.untagLogGroup},
		"ListTagsForResource":   {Read: true, Run: svc.listLogGroupTags},
	}
}

// retentions are the numbers of days for which logs can be kept.
func retentions() []int {
	return []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}
}

func (svc *Service) logGroupARN(name string) string {
	return svc.account.ARN("logs", "log-group:"+name)
}

func (svc *Service) logGroup(name string) *logGroup {
	for _, g := range svc.groups {
		if g.name == name {
			return g
		}
	}
	return nil
}

func (svc *Service) addLogGroup(g *logGroup) {
	svc.groups = append(svc.groups, g)
	slices.SortFunc(svc.groups, func(a, b *logGroup) int { return strings.Compare(a.name, b.name) })
}

func errNoLogGroup() error {
	return api.Refuse("ResourceNotFoundException", "The specified log group does not exist.")
}

func (svc *Service) findLogGroup(name string) (*logGroup, error) {
	if g := svc.logGroup(name); g != nil {
		return g, nil
	}
	return nil, errNoLogGroup()
}

func (svc *Service) describeLogGroups(in *api.Call) (any, error) {
	var input struct {
		LogGroupNamePrefix, NextToken string
		Limit                         *int
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	n := 50
	if input.Limit != nil {
		n = *input.Limit
	}
	if n < 1 || n > 50 {
		return nil, api.Refuse("InvalidParameterException", "Value '%d' at 'limit' failed to satisfy constraint: Member must be between 1 and 50", n)
	}
	var names []string
	for _, g := range svc.groups {
		if strings.HasPrefix(g.name, input.LogGroupNamePrefix) {
			names = append(names, g.name)
		}
	}
	rows, next, err := in.Window(names, input.NextToken, n)
	if err != nil {
		return nil, api.Refuse("InvalidParameterException", "%s", err)
	}
	groups := []map[string]any{}
	for _, name := range rows {
		g, arn := svc.logGroup(name), svc.logGroupARN(name)
		row := map[string]any{"logGroupName": name, "arn": arn + ":*", "logGroupArn": arn, "creationTime": g.created.UnixMilli(),
			"metricFilterCount": 0, "storedBytes": 0, "logGroupClass": "STANDARD"}
		if g.days > 0 {
			row["retentionInDays"] = g.days
		}
		groups = append(groups, row)
	}
	out := map[string]any{"logGroups": groups}
	if next != "" {
		out["nextToken"] = next
	}
	return out, nil
}

func (svc *Service) createLogGroup(in *api.Call) (any, error) {
	var input struct {
		LogGroupName string
		Tags         map[string]string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if !logGroupForm.MatchString(input.LogGroupName) {
		return nil, api.Refuse("InvalidParameterException", "Value '%s' at 'logGroupName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\.\\-_/#A-Za-z0-9]+", input.LogGroupName)
	}
	if strings.HasPrefix(input.LogGroupName, "aws/") {
		return nil, api.Refuse("InvalidParameterException", "Log group names can't start with the string aws/.")
	}
	if svc.logGroup(input.LogGroupName) != nil {
		return nil, api.Refuse("ResourceAlreadyExistsException", "The specified log group already exists")
	}
	tags, err := addTags(nil, input.Tags)
	if err != nil {
		return nil, err
	}
	svc.addLogGroup(&logGroup{name: input.LogGroupName, created: in.Now, tags: tags})
	return map[string]any{}, nil
}

// tagForm are the characters of keys and values of tags.
var tagForm = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

// addTags is tags with more put over them, or what CloudWatch Logs refuses of more.
func addTags(tags, more map[string]string) (map[string]string, error) {
	for k, v := range more {
		if !tagForm.MatchString(k) || !tagForm.MatchString(v) {
			return nil, api.Refuse("InvalidParameterException", "The tag '%s' or its value has other characters than letters, digits, blanks and _.:/=+-@.", k)
		}
	}
	if _, problem := api.AddTags(nil, more); problem != "" {
		return nil, api.Refuse("InvalidParameterException", "%s", problem)
	}
	out, problem := api.AddTags(tags, more)
	if problem != "" {
		return nil, api.Refuse("TooManyTagsException", "%s", problem)
	}
	return out, nil
}

// onLogGroup reads a request whose only parameter is the group's name.
func (svc *Service) onLogGroup(in *api.Call) (*logGroup, error) {
	var input struct{ LogGroupName string }
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	return svc.findLogGroup(input.LogGroupName)
}

func (svc *Service) deleteLogGroup(in *api.Call) (any, error) {
	gone, err := svc.onLogGroup(in)
	if err != nil {
		return nil, err
	}
	svc.groups = slices.DeleteFunc(svc.groups, func(g *logGroup) bool { return g == gone })
	return map[string]any{}, nil
}

func (svc *Service) putRetention(in *api.Call) (any, error) {
	var input struct {
		LogGroupName    string
		RetentionInDays int
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	g, err := svc.findLogGroup(input.LogGroupName)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(retentions(), input.RetentionInDays) {
		return nil, api.Refuse("InvalidParameterException", "Value '%d' at 'retentionInDays' is not one of %v", input.RetentionInDays, retentions())
	}
	g.days = input.RetentionInDays
	return map[string]any{}, nil
}

func (svc *Service) deleteRetention(in *api.Call) (any, error) {
	g, err := svc.onLogGroup(in)
	if err != nil {
		return nil, err
	}
	g.days = 0
	return map[string]any{}, nil
}

// logGroupAt finds a group by its ARN, the one without :* at its end, as CloudWatch
// Logs requires it for tags.
func (svc *Service) logGroupAt(arn string) (*logGroup, error) {
	name, ok := strings.CutPrefix(arn, svc.logGroupARN(""))
	if !ok || strings.HasSuffix(name, ":*") {
		return nil, api.Refuse("InvalidParameterException", "The ARN %s is not that of a log group here, which ends with its name.", arn)
	}
	return svc.findLogGroup(name)
}

func (svc *Service) tagLogGroup(in *api.Call) (any, error) {
	var input struct {
		ResourceArn string
		Tags        map[string]string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	g, err := svc.logGroupAt(input.ResourceArn)
	if err != nil {
		return nil, err
	}
	tags, err := addTags(g.tags, input.Tags)
	if err != nil {
		return nil, err
	}
	g.tags = tags
	return map[string]any{}, nil
}

func (svc *Service) untagLogGroup(in *api.Call) (any, error) {
	var input struct {
		ResourceArn string
		TagKeys     []string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	g, err := svc.logGroupAt(input.ResourceArn)
	if err != nil {
		return nil, err
	}
	for _, k := range input.TagKeys {
		delete(g.tags, k)
	}
	return map[string]any{}, nil
}

func (svc *Service) listLogGroupTags(in *api.Call) (any, error) {
	var input struct{ ResourceArn string }
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	g, err := svc.logGroupAt(input.ResourceArn)
	if err != nil {
		return nil, err
	}
	return map[string]any{"tags": maps.Clone(g.tags)}, nil
}
