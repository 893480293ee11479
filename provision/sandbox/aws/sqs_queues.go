package aws

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// nameRest is how long SQS refuses the name of a deleted queue.
const nameRest = 60 * time.Second

var queueNameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

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

func (st *state) queue(name string) *queue {
	for _, q := range st.queues {
		if q.name == name {
			return q
		}
	}
	return nil
}

func (c *Cloud) queueARN(name string) string { return c.localARN("sqs", name) }

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
		return refuse("InvalidAttributeValue", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
	case given[key] != "":
		next[own] = "false"
	}
	if text, ok := given["Policy"]; ok {
		policy = nil
		if text != "" {
			p, err := parseQueuePolicy(text)
			if err != nil {
				return refuse("InvalidAttributeValue", "Invalid value for the parameter Policy: %s.", err)
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
			return refuse("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
		}
		return nil
	}
	switch name {
	case "Policy", "KmsMasterKeyId":
	case "SqsManagedSseEnabled":
		if value != "true" && value != "false" {
			return refuse("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
		}
	default:
		return refuse("InvalidAttributeName", "Unknown Attribute %s.", name)
	}
	return nil
}

// createQueue makes a queue, or finds the one that has that name and all the
// attributes that were given.
func createQueue(in *call) (any, error) {
	var ask struct {
		QueueName        string
		Attributes, Tags map[string]string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	if !queueNameForm.MatchString(ask.QueueName) {
		return nil, refuse("InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	made := newQueue(ask.QueueName, in.now)
	if err := made.set(ask.Attributes); err != nil {
		return nil, err
	}
	if have := in.st.queue(ask.QueueName); have != nil {
		for _, name := range slices.Sorted(maps.Keys(ask.Attributes)) {
			if have.attributes[name] != ask.Attributes[name] {
				return nil, refuse("QueueNameExists", "A queue already exists with the same name and a different value for attribute %s", name)
			}
		}
		return map[string]string{"QueueUrl": in.queueURL(have.name)}, nil
	}
	if at, gone := in.st.deleted[ask.QueueName]; gone && in.now.Before(at.Add(nameRest)) {
		return nil, refuse("QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	}
	tags, problem := tagged(nil, ask.Tags)
	if problem != "" {
		return nil, refuse("InvalidParameterValue", "%s", problem)
	}
	made.tags = tags
	in.st.queues = append(in.st.queues, made)
	delete(in.st.deleted, made.name)
	return map[string]string{"QueueUrl": in.queueURL(made.name)}, nil
}

// onQueue reads a request whose only parameter is the queue.
func (in *call) onQueue() (*queue, error) {
	var ask struct{ QueueUrl string }
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	return in.queueAt(ask.QueueUrl)
}

// deleteQueue takes the queue away with its messages; who waits for one is told
// that it is gone.
func deleteQueue(in *call) (any, error) {
	q, err := in.onQueue()
	if err != nil {
		return nil, err
	}
	in.st.queues = slices.DeleteFunc(in.st.queues, func(o *queue) bool { return o == q })
	in.st.deleted[q.name] = in.now
	q.changed()
	return map[string]any{}, nil
}

func listQueues(in *call) (any, error) {
	var ask struct {
		QueueNamePrefix, NextToken string
		MaxResults                 *int
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	n, err := bound("MaxResults", ask.MaxResults, 1, 1000, 1000)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, q := range in.st.queues {
		if strings.HasPrefix(q.name, ask.QueueNamePrefix) {
			names = append(names, q.name)
		}
	}
	slices.Sort(names)
	rows, next, err := in.window(names, ask.NextToken, n)
	if err != nil {
		return nil, refuse("InvalidParameterValue", "%s", err)
	}
	answer := map[string]any{}
	var urls []string
	for _, name := range rows {
		urls = append(urls, in.queueURL(name))
	}
	if len(urls) > 0 {
		answer["QueueUrls"] = urls
	}
	if next != "" {
		answer["NextToken"] = next
	}
	return answer, nil
}

// facts are all attributes of a queue: those that can be set and have a value,
// and what SQS counts.
func (in *call) facts(q *queue) map[string]string {
	out := maps.Clone(q.attributes)
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	if out["KmsMasterKeyId"] == "" {
		delete(out, "KmsDataKeyReusePeriodSeconds")
	}
	visible, hidden, delayed := 0, 0, 0
	for _, m := range q.messages {
		switch {
		case in.now.Sub(m.sent) > q.seconds("MessageRetentionPeriod"):
		case !in.now.Before(m.hidden):
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
	out["QueueArn"] = in.cloud.queueARN(q.name)
	return out
}

func getQueueAttributes(in *call) (any, error) {
	var ask struct {
		QueueUrl       string
		AttributeNames []string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	q, err := in.queueAt(ask.QueueUrl)
	if err != nil {
		return nil, err
	}
	facts, out := in.facts(q), map[string]string{}
	for _, name := range ask.AttributeNames {
		_, settable := q.attributes[name]
		value, has := facts[name]
		switch {
		case name == "All":
			maps.Copy(out, facts)
		case has:
			out[name] = value
		case !settable:
			return nil, refuse("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	if len(out) == 0 {
		return map[string]any{}, nil
	}
	return map[string]any{"Attributes": out}, nil
}

func setQueueAttributes(in *call) (any, error) {
	var ask struct {
		QueueUrl   string
		Attributes map[string]string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	q, err := in.queueAt(ask.QueueUrl)
	if err != nil {
		return nil, err
	}
	if len(ask.Attributes) == 0 {
		return nil, refuse("MissingParameter", "The request must contain the parameter Attributes.")
	}
	if err := q.set(ask.Attributes); err != nil {
		return nil, err
	}
	q.modified = in.now
	return map[string]any{}, nil
}

func tagQueue(in *call) (any, error) {
	var ask struct {
		QueueUrl string
		Tags     map[string]string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	q, err := in.queueAt(ask.QueueUrl)
	if err != nil {
		return nil, err
	}
	tags, problem := tagged(q.tags, ask.Tags)
	if problem != "" {
		return nil, refuse("InvalidParameterValue", "%s", problem)
	}
	q.tags = tags
	return map[string]any{}, nil
}

func untagQueue(in *call) (any, error) {
	var ask struct {
		QueueUrl string
		TagKeys  []string
	}
	if err := in.into(&ask); err != nil {
		return nil, err
	}
	q, err := in.queueAt(ask.QueueUrl)
	if err != nil {
		return nil, err
	}
	for _, k := range ask.TagKeys {
		delete(q.tags, k)
	}
	return map[string]any{}, nil
}

func listQueueTags(in *call) (any, error) {
	q, err := in.onQueue()
	if err != nil {
		return nil, err
	}
	if len(q.tags) == 0 {
		return map[string]any{}, nil
	}
	return map[string]any{"Tags": maps.Clone(q.tags)}, nil
}
