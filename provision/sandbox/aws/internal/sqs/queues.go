package sqs

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// nameRest is how long SQS refuses the name of a deleted queue.
const nameRest = 60 * time.Second

var queueNameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// ValidName reports whether a queue may have that name.
func ValidName(name string) bool { return queueNameForm.MatchString(name) }

// span is a queue attribute that is a number: its bounds and its default.
type span struct{ least, most, otherwise int }

// queueNumbers are the numeric attributes that a queue can be given.
func queueNumbers() map[string]span {
	return map[string]span{
		"DelaySeconds":                  {0, 900, 0},
		"KmsDataKeyReusePeriodSeconds":  {60, 86400, 300},
		"MaximumMessageSize":            {1024, 1 << 20, 1 << 20},
		"MessageRetentionPeriod":        {60, 14 * 24 * 3600, 4 * 24 * 3600},
		"ReceiveMessageWaitTimeSeconds": {0, 20, 0},
		"VisibilityTimeout":             {0, 12 * 3600, 30},
	}
}

// newQueue has every default: encrypted by SQS's own keys, kept four days.
func newQueue(name string, now time.Time) *queue {
	q := &queue{name: name, created: now, modified: now, tags: map[string]string{}, arrived: make(chan struct{})}
	q.attributes = map[string]string{"Policy": "", "KmsMasterKeyId": "", "SqsManagedSseEnabled": "true"}
	for name, s := range queueNumbers() {
		q.attributes[name] = strconv.Itoa(s.otherwise)
	}
	return q
}

func (svc *Service) queue(name string) *queue {
	for _, q := range svc.queues {
		if q.name == name {
			return q
		}
	}
	return nil
}

// ARN names a queue.
func (svc *Service) ARN(name string) string { return svc.account.ARN("sqs", name) }

// seconds reads an attribute that has been checked.
func (q *queue) seconds(attribute string) time.Duration {
	n, _ := strconv.Atoi(q.attributes[attribute])
	return time.Duration(n) * time.Second
}

// set changes attributes, all or none. The two kinds of encryption exclude each
// other: a key switches SQS's own off.
func (q *queue) set(given map[string]string) error {
	const own, key = "SqsManagedSseEnabled", "KmsMasterKeyId"
	next, policy := maps.Clone(q.attributes), q.policy
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		if err := checkQueueAttribute(name, value); err != nil {
			return err
		}
		next[name] = value
	}
	switch {
	case given[own] == "true" && next[key] != "":
		return api.Refuse("InvalidAttributeValue", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
	case given[key] != "":
		next[own] = "false"
	}
	if text, ok := given["Policy"]; ok {
		policy = nil
		if text != "" {
			p, err := parseQueuePolicy(text)
			if err != nil {
				return api.Refuse("InvalidAttributeValue", "Invalid value for the parameter Policy: %s.", err)
			}
			policy = p
		}
	}
	q.attributes, q.policy = next, policy
	return nil
}

func checkQueueAttribute(name, value string) error {
	if s, ok := queueNumbers()[name]; ok {
		n, err := strconv.Atoi(value)
		if err != nil || n < s.least || n > s.most {
			return api.Refuse("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
		}
		return nil
	}
	switch name {
	case "Policy", "KmsMasterKeyId":
	case "SqsManagedSseEnabled":
		if value != "true" && value != "false" {
			return api.Refuse("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
		}
	default:
		return api.Refuse("InvalidAttributeName", "Unknown Attribute %s.", name)
	}
	return nil
}

// createQueue makes a queue, or finds the one that has that name and all the
// attributes that were given.
func (svc *Service) createQueue(in *api.Call) (any, error) {
	var input struct {
		QueueName        string
		Attributes, Tags map[string]string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if !queueNameForm.MatchString(input.QueueName) {
		return nil, api.Refuse("InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	made := newQueue(input.QueueName, in.Now)
	if err := made.set(input.Attributes); err != nil {
		return nil, err
	}
	if have := svc.queue(input.QueueName); have != nil {
		for _, name := range slices.Sorted(maps.Keys(input.Attributes)) {
			if have.attributes[name] != input.Attributes[name] {
				return nil, api.Refuse("QueueNameExists", "A queue already exists with the same name and a different value for attribute %s", name)
			}
		}
		return map[string]string{"QueueUrl": svc.queueURL(have.name)}, nil
	}
	if at, gone := svc.deleted[input.QueueName]; gone && in.Now.Before(at.Add(nameRest)) {
		return nil, api.Refuse("QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	tags, problem := api.AddTags(nil, input.Tags)
	if problem != "" {
		return nil, api.Refuse("InvalidParameterValue", "%s", problem)
	}
	made.tags = tags
	svc.queues = append(svc.queues, made)
	delete(svc.deleted, made.name)
	return map[string]string{"QueueUrl": svc.queueURL(made.name)}, nil
}

// onQueue reads a request whose only parameter is the queue.
func (svc *Service) onQueue(in *api.Call) (*queue, error) {
	var input struct{ QueueUrl string }
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	return svc.queueAt(input.QueueUrl)
}

// deleteQueue takes the queue away with its messages; who waits for one is notified
// that it is gone.
func (svc *Service) deleteQueue(in *api.Call) (any, error) {
	q, err := svc.onQueue(in)
	if err != nil {
		return nil, err
	}
	svc.queues = slices.DeleteFunc(svc.queues, func(o *queue) bool { return o == q })
	svc.deleted[q.name] = in.Now
	q.changed()
	return map[string]any{}, nil
}

func (svc *Service) listQueues(in *api.Call) (any, error) {
	var input struct {
		QueueNamePrefix, NextToken string
		MaxResults                 *int
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	n, err := in.Bound("MaxResults", input.MaxResults, 1, 1000, 1000)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, q := range svc.queues {
		if strings.HasPrefix(q.name, input.QueueNamePrefix) {
			names = append(names, q.name)
		}
	}
	slices.Sort(names)
	rows, next, err := in.Window(names, input.NextToken, n)
	if err != nil {
		return nil, api.Refuse("InvalidParameterValue", "%s", err)
	}
	response := map[string]any{}
	var urls []string
	for _, name := range rows {
		urls = append(urls, svc.queueURL(name))
	}
	if len(urls) > 0 {
		response["QueueUrls"] = urls
	}
	if next != "" && input.MaxResults != nil { // SQS gives none to a request without a number
		response["NextToken"] = next
	}
	return response, nil
}

// facts are all attributes of a queue: those that can be set and have a value,
// and what SQS counts.
func (svc *Service) facts(in *api.Call, q *queue) map[string]string {
	out := maps.Clone(q.attributes)
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	if out["KmsMasterKeyId"] == "" {
		delete(out, "KmsDataKeyReusePeriodSeconds")
	}
	visible, hidden, delayed := 0, 0, 0
	for _, m := range q.messages {
		switch {
		case in.Now.Sub(m.sent) > q.seconds("MessageRetentionPeriod"):
		case !in.Now.Before(m.hidden):
			visible++
		case m.receives == 0:
			delayed++
		default:
			hidden++
		}
	}
	for name, n := range map[string]int64{
		"ApproximateNumberOfMessages": int64(visible), "ApproximateNumberOfMessagesNotVisible": int64(hidden),
		"ApproximateNumberOfMessagesDelayed": int64(delayed), "CreatedTimestamp": q.created.Unix(), "LastModifiedTimestamp": q.modified.Unix(),
	} {
		out[name] = strconv.FormatInt(n, 10)
	}
	out["QueueArn"] = svc.ARN(q.name)
	return out
}

func (svc *Service) getQueueAttributes(in *api.Call) (any, error) {
	var input struct {
		QueueUrl       string
		AttributeNames []string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	q, err := svc.queueAt(input.QueueUrl)
	if err != nil {
		return nil, err
	}
	facts, out := svc.facts(in, q), map[string]string{}
	for _, name := range input.AttributeNames {
		_, settable := q.attributes[name]
		value, has := facts[name]
		switch {
		case name == "All":
			maps.Copy(out, facts)
		case has:
			out[name] = value
		case !settable:
			return nil, api.Refuse("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	if len(out) == 0 {
		return map[string]any{}, nil
	}
	return map[string]any{"Attributes": out}, nil
}

func (svc *Service) setQueueAttributes(in *api.Call) (any, error) {
	var input struct {
		QueueUrl   string
		Attributes map[string]string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	q, err := svc.queueAt(input.QueueUrl)
	if err != nil {
		return nil, err
	}
	if len(input.Attributes) == 0 {
		return nil, api.Refuse("MissingParameter", "The request must contain the parameter Attributes.")
	}
	if err := q.set(input.Attributes); err != nil {
		return nil, err
	}
	q.modified = in.Now
	return map[string]any{}, nil
}

func (svc *Service) tagQueue(in *api.Call) (any, error) {
	var input struct {
		QueueUrl string
		Tags     map[string]string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	q, err := svc.queueAt(input.QueueUrl)
	if err != nil {
		return nil, err
	}
	tags, problem := api.AddTags(q.tags, input.Tags)
	if problem != "" {
		return nil, api.Refuse("InvalidParameterValue", "%s", problem)
	}
	q.tags = tags
	return map[string]any{}, nil
}

func (svc *Service) untagQueue(in *api.Call) (any, error) {
	var input struct {
		QueueUrl string
		TagKeys  []string
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	q, err := svc.queueAt(input.QueueUrl)
	if err != nil {
		return nil, err
	}
	for _, k := range input.TagKeys {
		delete(q.tags, k)
	}
	return map[string]any{}, nil
}

func (svc *Service) listQueueTags(in *api.Call) (any, error) {
	q, err := svc.onQueue(in)
	if err != nil {
		return nil, err
	}
	if len(q.tags) == 0 {
		return map[string]any{}, nil
	}
	return map[string]any{"Tags": maps.Clone(q.tags)}, nil
}
