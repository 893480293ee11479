package controller

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/state"
)

// countProblems counts those that a list stands for.
func countProblems(list []state.Problem) (n int) {
	for _, p := range list {
		n += p.Count()
	}
	return n
}

func problems(list []state.Problem) string {
	if len(list) == 1 {
		return list[0].String()
	}
	return fmt.Sprintf("%d problems, the first: %s", countProblems(list), list[0])
}
