// Package fluxexpr reads and evaluates expressions such as ${NAME:=default}
// with the library that Flux itself uses, so that they mean what they mean
// there.
//
// It adds what the library lacks for input that is not trusted: bounds that are
// known before anything is evaluated, and panics that end here. It refuses text
// that is more than one expression. Start reading at Parse.
package fluxexpr

import (
	"errors"
	"maps"
	"slices"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/envsubst/parse"

	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

// Errors repeat nothing of the text: it may stand in a Secret.
var (
	errSyntax   = errors.New("this is not an expression")
	errEvaluate = errors.New("the expression cannot be evaluated")
)

// Parse is a substitute.Language.
func Parse(text string) (e substitute.Expression, err error) {
	defer func() {
		if recover() != nil {
			e, err = nil, errSyntax
		}
	}()
	tree, err := parse.Parse(text)
	if err != nil {
		return nil, errSyntax
	}
	root, ok := tree.Root.(*parse.FuncNode)
	if !ok {
		return nil, errSyntax
	}
	template, err := envsubst.Parse(text)
	if err != nil {
		return nil, errSyntax
	}
	return &expression{root: root, template: template}, nil
}

type expression struct {
	root     *parse.FuncNode
	template *envsubst.Template
}

// Variables implements substitute.Expression.
func (e *expression) Variables() []string {
	names := map[string]bool{}
	collect(e.root, names)
	return slices.Sorted(maps.Keys(names))
}

func collect(n parse.Node, names map[string]bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		for _, c := range n.Nodes {
			collect(c, names)
		}
	case *parse.FuncNode:
		names[n.Param] = true
		for _, c := range n.Args {
			collect(c, names)
		}
	}
}

// Evaluate implements substitute.Expression. The library cuts a text out of its
// bounds for lengths near the largest integer.
func (e *expression) Evaluate(lookup func(name string) (string, bool)) (text string, err error) {
	defer func() {
		if recover() != nil {
			text, err = "", errEvaluate
		}
	}()
	text, err = e.template.Execute(lookup)
	if err != nil {
		return "", errEvaluate
	}
	return text, nil
}

// Cost implements substitute.Expression.
func (e *expression) Cost(length func(name string) int) (size, steps int) {
	return cost(e.root, length)
}

func cost(n parse.Node, length func(name string) int) (size, steps int) {
	switch n := n.(type) {
	case *parse.TextNode:
		return len(n.Value), len(n.Value)
	case *parse.ListNode:
		return costs(n.Nodes, length)
	case *parse.FuncNode:
		arguments, steps := costs(n.Args, length)
		size, own := costOf(n.Name, length(n.Param), arguments, len(n.Args))
		return size, plus(steps, own)
	}
	return 0, 0
}

func costs(nodes []parse.Node, length func(name string) int) (size, steps int) {
	for _, c := range nodes {
		s, t := cost(c, length)
		size, steps = plus(size, s), plus(steps, t)
	}
	return size, steps
}

// costOf bounds one function on a value, with arguments of a total length.
func costOf(name string, value, arguments, count int) (size, steps int) {
	switch name {
	case ",", ",,", "^", "^^":
		// A letter's other case may take up to three times its bytes.
		size = plus(times(value, 3), 4)
		return size, size
	case "#", "##", "%", "%%":
		if count == 0 {
			return 20, 1 // ${#NAME} is a number
		}
		return plus(value, 4), times(times(plus(value, 1), plus(value, 1)), plus(arguments, 1))
	case ":":
		return value, 1
	case "/", "//", "/#", "/%":
		size = plus(value, times(plus(value, 1), arguments))
		return size, size
	}
	size = max(value, arguments)
	return size, size
}

// most stands for more than anybody may spend, and leaves room to add.
const most = 1 << 40

func plus(a, b int) int { return min(a+b, most) }

func times(a, b int) int {
	if a > 0 && b > most/a {
		return most
	}
	return a * b
}
