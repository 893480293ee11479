package aws

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func ssmOperations() map[string]operation {
	return map[string]operation{
		"GetParameter":        {read: true, run: getParameter},
		"GetParametersByPath": {read: true, run: getParametersByPath},
	}
}

// parameter is a public parameter that leads to an image; there are no others.
type parameter struct {
	image   *image
	version int
}

// parameterRef is how GetParameter is asked: a name or an ARN, then perhaps a
// version or a label behind a colon.
type parameterRef struct{ name, selector string }

func (c *Cloud) parameterRef(text string) parameterRef {
	name := text
	if rest, isARN := strings.CutPrefix(text, c.parameterARN("/")); isARN {
		name = "/" + rest // an ARN of another region or account keeps its colons, and is no parameter
	} else if strings.HasPrefix(text, "arn:") {
		return parameterRef{name: text}
	}
	name, selector, _ := strings.Cut(name, ":")
	return parameterRef{name, selector}
}

// parameterARN is that of one of AWS's own parameters, which belong to no
// account.
func (c *Cloud) parameterARN(name string) string {
	return fmt.Sprintf("arn:%s:ssm:%s::parameter%s", c.account.Partition(), c.account.Region, name)
}

// current finds the newest version of a parameter.
func (st *state) current(name string) (parameter, bool) {
	for _, i := range st.images {
		if slices.Contains(i.params, name) {
			version := 1
			if name == i.line {
				version = i.version
			}
			return parameter{i, version}, true
		}
	}
	return parameter{}, false
}

// at finds a version of a parameter: those that recommend an image have one for
// every release, the others have one alone.
func (st *state) at(name string, version int) (parameter, bool) {
	for _, i := range st.images {
		if i.line == name && i.version == version {
			return parameter{i, version}, true
		}
	}
	p, found := st.current(name)
	return p, found && p.version == version
}

func (in *call) parameterJSON(name, selector string, p parameter) map[string]any {
	out := map[string]any{
		"Name": name, "Type": "String", "Value": p.image.id, "Version": p.version, "DataType": "aws:ec2:image",
		"ARN": in.cloud.parameterARN(name), "LastModifiedDate": p.image.created.Unix(),
	}
	if selector != "" {
		out["Selector"] = ":" + selector
	}
	return out
}

func getParameter(in *call) (any, error) {
	var ask struct {
		Name           string
		WithDecryption bool
	}
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	ref := in.cloud.parameterRef(ask.Name)
	p, found := in.st.current(ref.name)
	if !found {
		return nil, api.Refuse("ParameterNotFound", "There is no parameter %s.", strings.TrimSpace(ask.Name))
	}
	if ref.selector != "" {
		version, err := strconv.Atoi(ref.selector)
		if p, found = in.st.at(ref.name, version); err != nil || !found { // labels are not played
			return nil, api.Refuse("ParameterVersionNotFound", "Systems Manager could not find version %s of %s.", ref.selector, ref.name)
		}
	}
	return map[string]any{"Parameter": in.parameterJSON(ref.name, ref.selector, p)}, nil
}

// getParametersByPath lists the parameters right below a path, or all below it.
func getParametersByPath(in *call) (any, error) {
	var ask struct {
		Path, NextToken           string
		Recursive, WithDecryption bool
		MaxResults                *int
	}
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(ask.Path, "/") {
		return nil, api.Refuse("ValidationException", "The parameter doesn't meet the parameter name requirements. The parameter name must begin with a forward slash \"/\".")
	}
	n := 10
	if ask.MaxResults != nil {
		n = *ask.MaxResults
	}
	if n < 1 || n > 10 {
		return nil, api.Refuse("ValidationException", "1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: Member must be between 1 and 10", n)
	}
	below, names := strings.TrimSuffix(ask.Path, "/")+"/", map[string]bool{}
	for _, i := range in.st.images {
		for _, name := range i.params {
			if rest, under := strings.CutPrefix(name, below); under && (ask.Recursive || !strings.Contains(rest, "/")) {
				names[name] = true
			}
		}
	}
	rows, next, err := in.Window(slices.Sorted(maps.Keys(names)), ask.NextToken, n)
	if err != nil {
		return nil, api.Refuse("InvalidNextToken", "%s", err)
	}
	shown := []map[string]any{}
	for _, name := range rows {
		p, _ := in.st.current(name)
		shown = append(shown, in.parameterJSON(name, "", p))
	}
	out := map[string]any{"Parameters": shown}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}
