package takeover

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Text is what was found of a Karpenter, for a person's terminal: first what it is,
// then what prevents the takeover, then what else differs.
func (k Karpenter) Text(c Comparison) string {
	var out strings.Builder
	title := "Karpenter"
	if k.Version != "" {
		title += " " + k.Version
	}
	fmt.Fprintf(&out, "%s runs here already: Deployment %s", title, k.Deployment)
	if k.Replicas == 0 {
		out.WriteString(", scaled to zero")
	}
	if c.Nodes > 0 {
		fmt.Fprintf(&out, ", with %s", nodeClaims(c.Nodes))
	}
	out.WriteString(".\n")
	list := func(title string, findings []Difference) {
		if len(findings) == 0 {
			return
		}
		fmt.Fprintf(&out, "  %s:\n", title)
		for _, f := range findings {
			fmt.Fprintf(&out, "    - %s\n      %s\n", f.Message, f.Remedy)
		}
	}
	list("In the way of taking over", c.Blocking)
	list("Different, and not blocking", c.Differences)
	if len(c.Keep) > 0 {
		out.WriteString("  To keep its settings, declare in the Cluster:\n" + indented(c.Keep))
	}
	if len(c.Equal) > 0 {
		fmt.Fprintf(&out, "  The same: %s.\n", strings.Join(c.Equal, ", "))
	}
	if len(c.Blocking) == 0 && c.Nodes > 0 && c.kept == c.Nodes && k.Replicas > 0 {
		out.WriteString("  No node would be replaced, by the drift hashes of all. Images and requirements are not compared:\n  whoever runs the nodes replaces those that do not fit.\n")
	}
	return out.String()
}

// indented are fields of spec.engine as a file has them.
func indented(fields map[string]any) string {
	raw, err := yaml.Marshal(map[string]any{"spec": map[string]any{"engine": fields}})
	if err != nil { // unreachable: all are texts, numbers, booleans and maps of these
		return fmt.Sprintf("    %v\n", fields)
	}
	return "    " + strings.ReplaceAll(strings.TrimSpace(string(raw)), "\n", "\n    ") + "\n"
}

func nodeClaims(n int) string {
	if n == 1 {
		return "1 NodeClaim"
	}
	return fmt.Sprintf("%d NodeClaims", n)
}
