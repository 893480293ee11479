// Package explain makes the command explain, which prints why a pod is pending, why a node is still there, or what
// keeps a NodePool from launching nodes, with what would change it.
//
// The causes are decided by package causes from the live objects and by Karpenter's own scheduler on a snapshot of them. It
// refuses to write anything, to read a Secret, and to connect to AWS, Git or a forge. Start reading at NewCommand.
package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/provision/catalog"
)

// Outputs are the values of -o.
func Outputs() []string { return []string{"json", "yaml"} }

// Kinds are what can be explained.
func Kinds() []string { return []string{KindPod, KindNode, KindPool} }

// The kinds that can be explained.
const (
	// KindPod explains why a pod is pending.
	KindPod = "pod"
	// KindNode explains why Karpenter does not disrupt a node.
	KindNode = "node"
	// KindPool explains why Karpenter launches no node of a NodePool.
	KindPool = "pool"
)

// synonyms are the other names of the kinds that kubectl takes.
func synonyms() map[string]string {
	return map[string]string{
		"pods": KindPod, "po": KindPod, "nodes": KindNode, "no": KindNode, "nodeclaim": KindNode, "nodeclaims": KindNode,
		"pools": KindPool, "nodepool": KindPool, "nodepools": KindPool,
	}
}

// Object is what is to be explained.
type Object struct {
	// Kind is KindPod, KindNode or KindPool.
	Kind string
	// Namespace is a pod's, and empty for another kind.
	Namespace string
	// Name is the object's; a node has that of its NodeClaim, too.
	Name string
}

// parse reads the arguments: a kind and a name, or kind/name. A pod may be namespace/name.
func parse(args []string, namespace func() string) (Object, error) {
	var t Object
	if len(args) == 1 {
		kind, name, found := strings.Cut(args[0], "/")
		if !found {
			return t, fmt.Errorf("give a kind and a name: poolwright explain %s NAME", args[0])
		}
		args = []string{kind, name}
	}
	if len(args) != 2 {
		return t, fmt.Errorf("explain takes a kind and a name, and got %d arguments: poolwright explain pod NAME", len(args))
	}
	t.Kind, t.Name = strings.ToLower(args[0]), args[1]
	if other, found := synonyms()[t.Kind]; found {
		t.Kind = other
	}
	if !slices.Contains(Kinds(), t.Kind) {
		return t, fmt.Errorf("%q is not one of %s", args[0], strings.Join(Kinds(), ", "))
	}
	if t.Kind != KindPod {
		return t, nil
	}
	if ns, name, found := strings.Cut(t.Name, "/"); found {
		t.Namespace, t.Name = ns, name
		return t, nil
	}
	t.Namespace = namespace()
	return t, nil
}

// NewCommand makes the command explain, without the flags of a connection. The environment's namespace is that of pods.
func NewCommand(env get.Environment) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "explain pod|node|pool NAME",
		Short: "Print why a pod is pending, a node is not disrupted, or a pool launches no nodes",
		Long: `Print the causes in the order in which they have to be removed, each with a field or a command that removes it:

  pod NAME   why the pod is pending: what keeps it from each NodePool, by Karpenter's scheduler on a snapshot of the cluster
  node NAME  why Karpenter does not disrupt the node; NAME may be that of its NodeClaim
  pool NAME  why Karpenter launches no node of the NodePool

A cause that is likely and not certain is marked as possible. It reads the API server only.`,
		Example: "  poolwright explain pod train-7 -n ml\n  poolwright explain pod ml/train-7 -o json\n  poolwright explain node ip-10-0-1-2.eu-west-1.compute.internal\n  poolwright explain pool gpu",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := parse(args, func() string { return "" })
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return completions(cmd.Context(), env, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := parse(args, env.Namespace)
			if err != nil {
				return err
			}
			if err := document.CheckFormat(output, Outputs()); output != "" && err != nil {
				return err
			}
			return run(cmd.Context(), env, t, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml (default: text)")
	return cmd
}

func run(ctx context.Context, env get.Environment, t Object, output string) error {
	kube, err := get.Connect(env)
	if err != nil {
		return err
	}
	types, err := catalog.Load()
	if err != nil {
		return err
	}
	out, err := (&clusterReader{kube: kube, types: types, now: env.Now}).explain(ctx, t)
	if err != nil {
		return err
	}
	switch output {
	case "json":
		return out.WriteJSON(env.Out)
	case "yaml":
		return out.write(env.Out, &printers.YAMLPrinter{})
	}
	_, err = fmt.Fprint(env.Out, out.text())
	return err
}

// WriteJSON writes the explanation, as explain -o json prints it.
func (e Explanation) WriteJSON(w io.Writer) error { return e.write(w, &printers.JSONPrinter{}) }

func (e Explanation) write(w io.Writer, printer printers.ResourcePrinter) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&e)
	if err != nil {
		return fmt.Errorf("converting the explanation: %w", err)
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, w)
}
