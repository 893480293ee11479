package wire

import "github.com/poolwright/poolwright/cmd/internal/child"

// children start the processes in which Git content is rendered and Karpenter's code is
// asked about it. All share the slots of this process.
type children struct {
	// followed render followed branches, ahead forecast before an apply, and proposed do
	// both for pull requests: nobody who may open one makes the others wait.
	followed, ahead, proposed *child.Runner
}

func newChildren() children {
	return children{
		followed: &child.Runner{},
		ahead:    &child.Runner{Limits: child.Limits{Deadline: foreseeTimeout}},
		proposed: &child.Runner{Proposal: true},
	}
}
