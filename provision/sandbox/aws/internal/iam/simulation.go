package iam

import (
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
	iampolicy "github.com/poolwright/poolwright/provision/sandbox/aws/policy"
)

func (svc *Service) simulationOperations() map[string]api.Operation {
	return map[string]api.Operation{
		"SimulatePrincipalPolicy": {Params: []string{"PolicySourceArn", "ActionNames.member.#", "ResourceArns.member.#",
			"ContextEntries.member.#.ContextKeyName", "ContextEntries.member.#.ContextKeyType", "ContextEntries.member.#.ContextKeyValues.member.#"}, Read: true, Run: svc.simulate},
	}
}

// simulate decides actions on resources by the policies of a role and its boundary. Those that AWS manages, which have no
// document here, allow nothing.
func (svc *Service) simulate(in *api.Call) (any, error) {
	documents, boundary, err := svc.documentsOf(in.Form.Get("PolicySourceArn"))
	if err != nil {
		return nil, err
	}
	context := map[string][]string{}
	for _, entry := range in.Form.Each("ContextEntries.member") {
		context[entry.Get("ContextKeyName")] = entry.List("ContextKeyValues.member")
	}
	resources := in.Form.List("ResourceArns.member")
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	var results []query.Element
	for _, action := range in.Form.List("ActionNames.member") {
		if strings.Contains(action, "*") {
			return nil, api.Refuse("InvalidInput", "Invalid Entity Action: %s", action)
		}
		worst, each := "allowed", []query.Element{}
		for _, resource := range resources {
			decision := decisionOf(iampolicy.Evaluate(documents, boundary, iampolicy.Request{Action: action, Resource: resource, Context: context}))
			each = append(each, query.Group("member", query.Text("EvalResourceName", resource), query.Text("EvalResourceDecision", decision)))
			if decision != "allowed" && worst != "explicitDeny" {
				worst = decision
			}
		}
		result := []query.Element{query.Text("EvalActionName", action), query.Text("EvalResourceName", resources[0]), query.Text("EvalDecision", worst)}
		if len(resources) > 1 {
			result = append(result, query.Group("ResourceSpecificResults", each...))
		}
		results = append(results, query.Group("member", result...))
	}
	return []query.Element{query.Group("EvaluationResults", results...), query.Bool("IsTruncated", false)}, nil
}

// decisionOf is a decision as a simulation has it: a denial by a statement is explicit.
func decisionOf(d iampolicy.Decision) string {
	switch {
	case d.Allowed:
		return "allowed"
	case d.Statement != "":
		return "explicitDeny"
	}
	return "implicitDeny"
}

// documentsOf are the policies of the role with an ARN, and its boundary, nil for none.
func (svc *Service) documentsOf(arn string) (documents []iampolicy.Document, boundary *iampolicy.Document, err error) {
	for _, r := range svc.roles {
		if svc.roleARN(r) != arn {
			continue
		}
		var texts []string
		for _, text := range r.inline {
			texts = append(texts, text)
		}
		for attached := range r.attached {
			texts = append(texts, svc.standardDocument(attached))
		}
		for _, text := range texts {
			if text == "" {
				continue
			}
			document, err := iampolicy.Parse(text)
			if err != nil {
				return nil, nil, api.Refuse("PolicyEvaluation", "A policy of %s cannot be evaluated: %v", arn, err)
			}
			documents = append(documents, document)
		}
		if text := svc.standardDocument(r.boundary); text != "" {
			document, err := iampolicy.Parse(text)
			if err != nil {
				return nil, nil, api.Refuse("PolicyEvaluation", "The boundary of %s cannot be evaluated: %v", arn, err)
			}
			boundary = &document
		}
		return documents, boundary, nil
	}
	return nil, nil, noEntity("The role with ARN %s cannot be found.", arn)
}

// standardDocument is the document of a customer managed policy's default version; empty for another ARN.
func (svc *Service) standardDocument(arn string) string {
	if p := svc.policies[arn]; p != nil {
		for _, version := range p.versions {
			if version.id == p.standard {
				return version.document
			}
		}
	}
	return ""
}
