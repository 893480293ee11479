package wiretap

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// AWS names requests by operation and service, as the SDK does, and EC2's by the instances
// that they are for and the offerings that they request.
func AWS() Protocol {
	return Protocol{Parse: awsRequest, Response: func(q *trace.Request, content []byte) {
		if q.Verb == createFleet && !q.DryRun {
			q.Refused = refusedOfferings(q.Offerings, content)
		}
		for _, id := range instanceID.FindAllString(string(content), -1) {
			if !slices.Contains(q.Instances, id) {
				q.Instances = append(q.Instances, id)
			}
		}
	}}
}

var instanceID = regexp.MustCompile(`\bi-[0-9a-f]{17}\b`)

// nameParameters are the parameters by which the services call the one thing that a request
// is for, the more specific ones first.
var nameParameters = []string{
	"RoleName", "InstanceProfileName", "PolicyArn", "QueueName", "QueueUrl", "Rule", "Name", "LaunchTemplateName", "LaunchTemplateId",
	"logGroupName", "ResourceId.1", "ResourceARN",
}

func awsRequest(r *http.Request, content []byte) trace.Request {
	q := trace.Request{Wire: trace.AWS}
	q.Kind, q.Verb = sandboxaws.Operation(r, content)
	q.Kind, q.Verb = cmp.Or(q.Kind, "unknown"), cmp.Or(q.Verb, strings.ToLower(r.Method))
	parameters := map[string]string{}
	if form, err := url.ParseQuery(string(content)); err == nil && form.Has("Action") {
		for name := range form {
			parameters[name] = form.Get(name)
		}
	} else {
		var read map[string]any
		// A request without content has no parameters but its path.
		_ = json.Unmarshal(content, &read)
		for name, value := range read {
			if text, is := value.(string); is {
				parameters[name] = text
			}
		}
	}
	q.DryRun = parameters["DryRun"] == "true"
	q.Name = awsName(r, parameters)
	if !q.Writes() {
		return q
	}
	if q.Verb == createFleet {
		q.Offerings = requestedOfferings(parameters)
	}
	for n := 1; ; n++ {
		id := cmp.Or(parameters[fmt.Sprintf("InstanceId.%d", n)], parameters[fmt.Sprintf("ResourceId.%d", n)])
		if !instanceID.MatchString(id) {
			return q
		}
		q.Instances = append(q.Instances, id)
	}
}

// awsName is the name of the thing that a request is for.
func awsName(r *http.Request, parameters map[string]string) string {
	for _, name := range nameParameters {
		if value := parameters[name]; value != "" {
			return path.Base(value)
		}
	}
	if r.URL.Path == "/" {
		return ""
	}
	return strings.Trim(r.URL.Path, "/")
}
