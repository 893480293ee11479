package lint

import (
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// maxKubeletDetail is the longest description of a problem; the keys in it may be of any length.
const maxKubeletDetail = 300

// kubelet checks what an EC2NodeClass configures of the kubelet, by Karpenter's own code. The API
// server takes anything there, and Karpenter launches no node of a class with a problem.
func (c *schemaValidator) kubelet(item state.Item) {
	if item.Key.Group != "karpenter.k8s.aws" || item.Key.Kind != "EC2NodeClass" || item.Version != "v1" {
		return
	}
	var class struct {
		Spec struct {
			Kubelet awsv1.KubeletConfiguration `json:"kubelet"`
		} `json:"spec"`
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &class) != nil {
		return // The schema has the problem.
	}
	const path = "spec.kubelet"
	for _, err := range awsv1.ValidateKubeletConfig(class.Spec.Kubelet) {
		// Karpenter's text begins with the path.
		text := sanitize.Text(err.Error())
		if len(text) > maxKubeletDetail {
			text = strings.ToValidUTF8(text[:maxKubeletDetail], "") + "…"
		}
		c.findings = append(c.findings, Diagnostic{
			Severity: finding.Error,
			Key:      item.Key, Origin: Position(c.documents, item, path), Code: codeKubeletInvalid, Facts: finding.FactsOf(finding.NewFact("reason", text)),
			Text: text, Field: path, Detail: text,
		})
	}
}
