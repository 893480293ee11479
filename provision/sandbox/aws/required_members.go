package aws

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// require refuses a request that lacks a member that the service's model
// requires: first of all else, since an operation that went on would search for
// something without a name and not find it.
func (in *call) require() error {
	for _, path := range in.svc.table.Required[in.Op] {
		found := in.formMembers(path)
		if in.svc.protocol == jsonProtocol || in.svc.protocol == restProtocol {
			found = in.jsonMembers(path)
		}
		for _, m := range found {
			// A tag may have an empty value, nothing else that is required.
			if !m.present || m.empty && !strings.HasSuffix(path, ".Value") {
				return in.svc.lacks(m)
			}
		}
	}
	return nil
}

// member is what a request has at the place of a required member.
type member struct {
	path           string // with the positions in lists
	present, empty bool
}

// lacks phrases the refusal as the service does.
func (s service) lacks(m member) error {
	if s.protocol == ec2Protocol || s.name == "sqs" {
		return api.Refuse("MissingParameter", "The request must contain the parameter %s.", m.path)
	}
	code := "ValidationException"
	switch s.name {
	case "iam":
		code = "ValidationError"
	case "logs", "eks":
		code = "InvalidParameterException"
	}
	steps := strings.Split(m.path, ".")
	for n, step := range steps {
		steps[n] = strings.ToLower(step[:1]) + step[1:]
	}
	if m.empty {
		return api.Refuse(code, "1 validation error detected: Value '' at '%s' failed to satisfy constraint: Member must have length greater than or equal to 1", strings.Join(steps, "."))
	}
	return api.Refuse(code, "1 validation error detected: Value null at '%s' failed to satisfy constraint: Member must not be null", strings.Join(steps, "."))
}

// formMembers are the places of a path in a form: one for each element of the
// lists in it.
func (in *call) formMembers(path string) []member {
	list, rest, nested := strings.Cut(path, ".#.")
	if !nested {
		m := member{path: path, present: in.Form.Has(path) || len(in.Form.Sub(path).Names()) > 0}
		m.empty = in.Form.Has(path) && in.Form.Get(path) == ""
		return []member{m}
	}
	var out []member
	for _, n := range in.Form.Positions(list) {
		out = append(out, in.formMembers(list+"."+strconv.Itoa(n)+"."+rest)...)
	}
	return out
}

// jsonMembers are the places of a path in a body, or behind the path of a REST
// request. What is no JSON object is left to the operation's own reading.
func (in *call) jsonMembers(path string) []member {
	if in.svc.protocol == restProtocol && in.Query.Has(path) {
		return []member{{path: path, present: true, empty: in.Query.Get(path) == ""}}
	}
	var body map[string]any
	if len(in.Body) > 0 && json.Unmarshal(in.Body, &body) != nil {
		return nil
	}
	return membersOf(body, "", strings.Split(path, "."))
}

func membersOf(object map[string]any, at string, path []string) []member {
	value := object[path[0]]
	text, isText := value.(string)
	if len(path) == 1 {
		return []member{{path: at + path[0], present: value != nil, empty: isText && text == ""}}
	}
	elements, _ := value.([]any) // path[1] is #
	var out []member
	for n, e := range elements {
		object, isObject := e.(map[string]any)
		if !isObject {
			continue // of a wrong type, which the operation refuses
		}
		out = append(out, membersOf(object, at+path[0]+"."+strconv.Itoa(n+1)+".", path[2:])...)
	}
	return out
}
