package archtest

import (
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// steps are the functions of end-to-end tests whose sub-tests run one after the other in one
// environment, with the reason for it.
var steps = map[string]string{
	"TestSharedGPUsLive":                            "each step changes the one DevicePlugin that a cluster has, as the step before left it",
	"TestTheEngineOutlastsAWS":                      "AWS fails as a whole, so that no other step can run; capacity comes back for the pods that were pending all the time; in the end nothing of any step is left over",
	"TestTheEngineSurvivesRestarts":                 "each step stops the one engine of the environment; in the end nothing of any step is left over",
	"TestPullRequestsGetTheirPlan":                  "each pull request is merged into the branch that the one before left, and nodes are replaced between them",
	"TestACommitCannotSwitchOffTheGuardThatItNeeds": "one Sync that only one commit may change at a time; each step begins anew",
	"TestOutagesOfDependenciesAreOutlived":          "each step stops a server that all use; each begins with the same objects",
	"TestOneRefusedObjectStopsNoOther":              "one Sync that only one commit may change at a time; the object of the last step is made before the others",
	"TestTheAPIServerAcceptsWhatTheChartRenders":    "no step needs another: each is dry runs of one set of values, of milliseconds",

	"TestTheDemo":                    "no step needs another: each brings an environment of its own, of which two at a time would leave no memory for the other tests",
	"TestTheDemosOfAllSetUps":        "no step needs another: each brings an environment of its own, as those of TestTheDemo",
	"TestAClusterIsDrained":          "no step needs another: each brings an environment of its own, and runs only by make test-long",
	"TestAClusterMovesFromItsCharts": "no step needs another: each brings an environment of its own, and runs only by make test-long",
	"TestDelaysAsWritten":            "no step needs another: each brings an environment of its own, and runs only by make test-long",
	"endure":                         "one Sync whose source fails in one way at a time; each failure is mended before the next",
	"everywhere":                     "each kill is at a write later than the one before, until one ends without a kill",
	"survive":                        "one Sync that only one commit may change at a time; each problem is mended before the next",
}

// stepsAreListed finds functions of end-to-end tests that run sub-tests one after the other, by
// runSteps or by Run, and give no reason for it in steps.
func stepsAreListed(s *source) []string {
	var out []string
	eachStepped(s, func(fn *ast.FuncDecl) {
		if steps[fn.Name.Name] == "" {
			out = append(out, s.at(fn.Pos(), "%s runs sub-tests one after the other: run them in parallel, or list it in steps with the reason", fn.Name.Name))
		}
	})
	return out
}

// eachStepped calls visit for each function that runs sub-tests one after the other.
func eachStepped(s *source, visit func(*ast.FuncDecl)) {
	for _, p := range s.packages {
		if !p.in("cmd/internal/e2e") {
			continue
		}
		for _, f := range p.tests {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && fn.Name.Name != "runSteps" && runsInTurn(fn) {
					visit(fn)
				}
			}
		}
	}
}

// runsInTurn reports whether a function gives runSteps more than one step, or Run a function that
// is not parallel.
func runsInTurn(fn *ast.FuncDecl) bool {
	found := false
	tests := testingParameters(fn)
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			// A list of steps may have more than one.
			found = found || fun.Name == "runSteps" && (len(call.Args) > 2 || call.Ellipsis.IsValid())
		case *ast.SelectorExpr:
			if fun.Sel.Name == "Run" && len(call.Args) == 2 && isTestingT(fun.X, tests) {
				// What a named function does is in another place, so that it counts as one step of several.
				body, ok := call.Args[1].(*ast.FuncLit)
				found = found || !ok || !isParallel(body)
			}
		}
		return true
	})
	return found
}

// testingParameters are the parameters of a function, and of those in it, that are a *testing.T.
func testingParameters(fn *ast.FuncDecl) []string {
	var out []string
	ast.Inspect(fn, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok {
			return true
		}
		if star, ok := field.Type.(*ast.StarExpr); ok {
			if sel, ok := star.X.(*ast.SelectorExpr); ok && sel.Sel.Name == "T" {
				for _, id := range field.Names {
					out = append(out, id.Name)
				}
			}
		}
		return true
	})
	return out
}

// isTestingT reports whether an expression is a *testing.T: one of the parameters, or a field T.
func isTestingT(e ast.Expr, parameters []string) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return slices.Contains(parameters, e.Name)
	case *ast.SelectorExpr:
		return e.Sel.Name == "T"
	}
	return false
}

func isParallel(body *ast.FuncLit) bool {
	return slices.ContainsFunc(names(&ast.FuncDecl{Type: body.Type, Body: body.Body}), func(name string) bool { return name == ".Parallel" })
}

// A reason that nothing needs any more would excuse the next function of that name.
func TestEveryListOfStepsIsNeeded(t *testing.T) {
	needed := map[string]bool{}
	eachStepped(repository(t), func(fn *ast.FuncDecl) { needed[fn.Name.Name] = true })
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		if !needed[name] {
			t.Errorf("%s runs no sub-tests one after the other", name)
		}
	}
}
