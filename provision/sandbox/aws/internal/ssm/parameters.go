// Package ssm is the Parameter Store of Systems Manager: AWS's own parameters that
// lead to machine images. There are no others, and no labels. Start with Service.
package ssm

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/images"
)

// Service is the Parameter Store of one account.
type Service struct {
	account *api.Account
	images  *images.Service
}

// New has the parameters of these images.
func New(account *api.Account, all *images.Service) *Service {
	return &Service{account: account, images: all}
}

// Table is what the service can do here.
func (svc *Service) Table() api.Table {
	return api.Table{
		Operations: map[string]api.Operation{
			"GetParameter":        {Read: true, Run: svc.getParameter},
			"GetParametersByPath": {Read: true, Run: svc.getParametersByPath},
		},
		Authorizations: map[string]api.Authorization{"GetParameter": svc.requests, "GetParametersByPath": svc.requests},
		Required:       map[string][]string{"GetParameter": {"Name"}, "GetParametersByPath": {"Path", "ParameterFilters.#.Key"}},
	}
}

// requests: AWS's own parameters belong to no account.
func (svc *Service) requests(in *api.Call) []api.AuthorizationRequest {
	var input struct{ Name, Path string }
	in.Peek(&input)
	name := svc.ref(input.Name + input.Path).name // there is only one of them
	arn := name
	switch {
	case strings.HasPrefix(name, "/aws/"):
		arn = svc.arn(name)
	case !strings.HasPrefix(name, "arn:"):
		arn = svc.account.ARN("ssm", "parameter"+name)
	}
	return []api.AuthorizationRequest{{Action: "ssm:" + in.Op, Resource: arn}}
}

// parameterName is how GetParameter names a parameter: a name or an ARN, then perhaps a
// version or a label behind a colon.
type parameterName struct{ name, selector string }

func (svc *Service) ref(text string) parameterName {
	name := text
	if rest, isARN := strings.CutPrefix(text, svc.arn("/")); isARN {
		name = "/" + rest // an ARN of another region or account keeps its colons, and is no parameter
	} else if strings.HasPrefix(text, "arn:") {
		return parameterName{name: text}
	}
	name, selector, _ := strings.Cut(name, ":")
	return parameterName{name, selector}
}

// arn is that of one of AWS's own parameters, which belong to no
// account.
func (svc *Service) arn(name string) string {
	return svc.account.PublicARN("ssm", "parameter"+name)
}

func (svc *Service) parameterJSON(name, selector string, p images.Parameter) map[string]any {
	out := map[string]any{
		"Name": name, "Type": "String", "Value": p.ImageID, "Version": p.Version, "DataType": "aws:ec2:image",
		"ARN": svc.arn(name), "LastModifiedDate": p.Created.Unix(),
	}
	if selector != "" {
		out["Selector"] = ":" + selector
	}
	return out
}

func (svc *Service) getParameter(in *api.Call) (any, error) {
	var input struct {
		Name           string
		WithDecryption bool
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	ref := svc.ref(input.Name)
	p, found := svc.images.Parameter(ref.name)
	if !found {
		return nil, api.Refuse("ParameterNotFound", "There is no parameter %s.", strings.TrimSpace(input.Name))
	}
	if ref.selector != "" {
		version, err := strconv.Atoi(ref.selector)
		if p, found = svc.images.ParameterAt(ref.name, version); err != nil || !found { // labels are not emulated
			return nil, api.Refuse("ParameterVersionNotFound", "Systems Manager could not find version %s of %s.", ref.selector, ref.name)
		}
	}
	return map[string]any{"Parameter": svc.parameterJSON(ref.name, ref.selector, p)}, nil
}

// getParametersByPath lists the parameters right below a path, or all below it.
func (svc *Service) getParametersByPath(in *api.Call) (any, error) {
	var input struct {
		Path, NextToken           string
		Recursive, WithDecryption bool
		MaxResults                *int
	}
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(input.Path, "/") {
		return nil, api.Refuse("ValidationException", "The parameter doesn't meet the parameter name requirements. The parameter name must begin with a forward slash \"/\".")
	}
	n := 10
	if input.MaxResults != nil {
		n = *input.MaxResults
	}
	if n < 1 || n > 10 {
		return nil, api.Refuse("ValidationException", "1 validation error detected: Value '%d' at 'maxResults' failed to satisfy constraint: Member must be between 1 and 10", n)
	}
	below, names := strings.TrimSuffix(input.Path, "/")+"/", map[string]bool{}
	for _, name := range svc.images.Parameters() {
		if rest, under := strings.CutPrefix(name, below); under && (input.Recursive || !strings.Contains(rest, "/")) {
			names[name] = true
		}
	}
	rows, next, err := in.Window(slices.Sorted(maps.Keys(names)), input.NextToken, n)
	if err != nil {
		return nil, api.Refuse("InvalidNextToken", "%s", err)
	}
	parameters := []map[string]any{}
	for _, name := range rows {
		p, _ := svc.images.Parameter(name)
		parameters = append(parameters, svc.parameterJSON(name, "", p))
	}
	out := map[string]any{"Parameters": parameters}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}
