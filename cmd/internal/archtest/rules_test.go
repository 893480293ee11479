package archtest

import (
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// rule is one thing that holds everywhere in the repository.
type rule struct {
	name string
	// check lists what breaks the rule, each with its place.
	check func(*source) []string
}

var rules = []rule{
	{"imports go one way", importsGoOneWay},
	{"the controller renders Git content in a child process", gitIsRenderedInAChild},
	{"files have at most 400 lines", filesAreShort},
	{"functions have at most 60 lines", functionsAreShort},
	{"constructors take at most 6 parameters", constructorsTakeFew},
	{"interfaces have at most 4 methods", interfacesAreSmall},
	{"structs have at most 20 fields", structsAreSmall},
	{"packages export at most 30 names", packagesExportFew},
	{"the composition root exports no type but its Config", rootExportsNoType},
	{"packages have names that state what is in them", packagesHaveDescriptiveNames},
	{"nothing runs before main, panics or exits", nothingBreaksOut},
	{"package variables are never changed", packageVariablesStay},
	{"why a change is held is not read back from text", holdsAreNotParsed},
	{"every finding has a code", findingsHaveCodes},
	{"every code is a constant, and the table describes it", codesAreDescribed},
	{"every exported name has a comment", exportedNamesHaveComments},
	{"every package has a comment", packagesHaveComments},
	{"every comment belongs to a declaration", commentsBelong},
	{"every path in DESIGN.md and docs/packages.md exists", pathsOfPagesExist},
	{"every package has a row in docs/packages.md", packagesHaveRows},
	{"sub-tests that need an earlier one are listed", stepsAreListed},
	{"no text names the machine it was written on", textsKnowNoMachine},
}

func TestTheRepositoryKeepsItsShape(t *testing.T) {
	s := repository(t)
	if len(s.packages) < 10 {
		t.Fatalf("only %d packages found", len(s.packages))
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, finding := range r.check(s) {
				t.Error(finding)
			}
		})
	}
}

// direction says what the packages in some folders must not import.
type direction struct {
	why     string
	from    func(p *pkg) bool
	forbids func(p *pkg, importPath string) bool
}

const (
	awsSDK      = "github.com/aws/aws-sdk-go-v2"
	karpenter   = "sigs.k8s.io/karpenter/pkg"
	karpenterIn = "github.com/aws/karpenter-provider-aws/pkg"
)

var directions = []direction{
	{
		why:     "gitsource imports nothing of ours",
		from:    func(p *pkg) bool { return p.in("gitsource") },
		forbids: func(_ *pkg, i string) bool { dir, ok := ours(i); return ok && !within(dir, "gitsource") },
	},
	{
		why:  "provision imports neither the reconciler, nor Git, nor the commands",
		from: func(p *pkg) bool { return p.in("provision") },
		forbids: func(_ *pkg, i string) bool {
			dir, ok := ours(i)
			return ok && within(dir, "reconciler", "gitsource", "cmd")
		},
	},
	{
		why:  "state, what it consists of, and api need only the standard library and apimachinery",
		from: func(p *pkg) bool { return p.in("reconciler/state", "reconciler/api") },
		forbids: func(p *pkg, i string) bool {
			return !standard(i) && !strings.HasPrefix(i, "k8s.io/apimachinery/") && !strings.HasPrefix(i+"/", module+"/"+p.dir+"/")
		},
	},
	{
		why:  "plan is pure: it and what it consists of import only state, and no context, clock, client, logger or system",
		from: func(p *pkg) bool { return p.in("reconciler/plan") },
		forbids: func(_ *pkg, i string) bool {
			return !standard(i) && !strings.HasPrefix(i+"/", module+"/reconciler/state/") && !strings.HasPrefix(i, module+"/reconciler/plan/") || within(i, "context", "time", "log", "net", "os", "io", "syscall")
		},
	},
	{
		why:  "targets import neither each other, nor declared, nor apply",
		from: func(p *pkg) bool { return p.in("reconciler/targets") },
		forbids: func(p *pkg, i string) bool {
			dir, ok := ours(i)
			return ok && (within(dir, "reconciler/declared", "reconciler/apply") || within(dir, "reconciler/targets") && dir != "reconciler/targets" && targetOf(dir) != "internal" && targetOf(dir) != targetOf(p.dir))
		},
	},
	{
		why:     "report needs only plan, state, apply and the values of provision; a forge only report",
		from:    func(p *pkg) bool { return p.in("reconciler/report") },
		forbids: func(p *pkg, i string) bool { dir, ok := ours(i); return ok && !reportMay(p, dir) },
	},
	{
		why:  "Karpenter's operator packages are fenced in provision/engine",
		from: func(p *pkg) bool { return !p.in("provision/engine") },
		forbids: func(_ *pkg, i string) bool {
			return within(i, karpenter+"/operator", karpenterIn+"/operator")
		},
	},
	{
		why:  "Karpenter's controllers are used only by provision/engine and provision/simulate",
		from: func(p *pkg) bool { return !p.in("provision/engine", "provision/simulate") },
		forbids: func(_ *pkg, i string) bool {
			return within(i, karpenter+"/controllers", karpenterIn+"/controllers")
		},
	},
	{
		why: "the AWS SDK is used only by targets/aws, catalog and engine, and by what the sandbox is tested with",
		from: func(p *pkg) bool {
			return !p.in("reconciler/targets/aws", "provision/catalog", "provision/engine", "provision/sandbox/aws/internal/ec2/ec2test")
		},
		forbids: func(_ *pkg, i string) bool { return within(i, awsSDK) },
	},
	{
		why:     "kustomize is used only by declared/render, which bounds what it is given, and on our own files for a release",
		from:    func(p *pkg) bool { return !p.in("reconciler/declared/render", ".ci/release/assets") },
		forbids: func(_ *pkg, i string) bool { return within(i, "sigs.k8s.io/kustomize") },
	},
	{
		why: "the sandbox is used only by its own command, and by what is for tests",
		from: func(p *pkg) bool {
			return !p.in("provision/sandbox", "cmd/poolwright-sandbox", "reconciler/targets/aws/internal/kindtest")
		},
		forbids: func(_ *pkg, i string) bool { dir, ok := ours(i); return ok && within(dir, "provision/sandbox") },
	},
	{
		why:  "concrete adapters meet only in the composition root, and in the process that it starts for what is hostile; a package has those of its one task",
		from: func(p *pkg) bool { return !p.in(compositionRoot, "cmd/internal/child") },
		forbids: func(p *pkg, i string) bool {
			dir, ok := ours(i)
			return ok && adapter(p, dir) && !within(dir, tasks[p.dir]...)
		},
	},
	{
		why:     "only the command line imports the composition root",
		from:    func(p *pkg) bool { return !p.in("cmd/internal/cli", compositionRoot) },
		forbids: func(_ *pkg, i string) bool { dir, ok := ours(i); return ok && within(dir, compositionRoot) },
	},
	{
		why:  "golden files, hostile texts and the emulated accounts of kinds are for tests, and the flag that rewrites golden files is none of the product's",
		from: func(*pkg) bool { return true },
		forbids: func(_ *pkg, i string) bool {
			dir, ok := ours(i)
			return ok && within(dir, "internal/golden", "internal/hostiletext", "reconciler/targets/aws/internal/kindtest")
		},
	},
	{
		why:  "what is put together imports none of the commands that use it",
		from: func(p *pkg) bool { return p.in(compositionRoot, "cmd/internal/connect", "cmd/internal/child") },
		forbids: func(_ *pkg, i string) bool {
			dir, ok := ours(i)
			return ok && within(dir, "cmd/internal/cli", "cmd/internal/bootstrap", "cmd/internal/installation", "cmd/internal/convert",
				"cmd/internal/offline", "cmd/internal/planning", "cmd/internal/uninstall")
		},
	},
	{
		why:     "the product's libraries import no command",
		from:    func(p *pkg) bool { return !p.in("cmd") },
		forbids: func(_ *pkg, i string) bool { dir, ok := ours(i); return ok && within(dir, "cmd") },
	},
}

// tasks are the adapters that packages of one task may import, by package: those of single
// commands, the controller that starts and stops the engine, and what chooses the client of a
// forge.
var tasks = map[string][]string{
	"cmd/internal/bootstrap":    {"gitsource/dir", "reconciler/targets/aws", "reconciler/targets/kubernetes", "provision/engine"},
	"cmd/internal/installation": {"reconciler/targets/aws", "reconciler/targets/kubernetes", "provision/engine"},
	"cmd/internal/uninstall":    {"reconciler/targets/kubernetes", "provision/engine"},
	"cmd/internal/check":        {"provision/engine"},
	"cmd/internal/convert":      {"gitsource/dir"},
	"cmd/internal/costing":      {"gitsource/dir"},
	"cmd/internal/prices":       {"provision/engine"},
	"cmd/internal/probe":        {"gitsource/gogit", "provision/engine"},
	"cmd/internal/scaffold":     {"provision/engine"},
	"cmd/internal/crds":         {"provision/engine"},
	// What the controller and the commands that ask a cluster make in the same way.
	"cmd/internal/connect":      {"gitsource/gogit", "reconciler/targets/aws", "reconciler/targets/kubernetes", "provision/engine"},
	"cmd/internal/offline":      {"gitsource/dir", "reconciler/targets/aws"},
	"cmd/internal/planning":     {"gitsource/dir", "gitsource/gogit", "reconciler/targets/aws", "reconciler/targets/kubernetes", "provision/engine"},
	"reconciler/gitcredentials": {"gitsource/gogit", "reconciler/report/forge/github"},

	// What acts as the controller for a pull request that is hostile.
	"cmd/poolwright-sandbox/attack": {"reconciler/targets/aws", "reconciler/targets/kubernetes"},

	"reconciler/controller/cluster": {"provision/engine"},

	// Which of the clients a Sync has is decided by its provider and the keys of its Secret, which
	// only this package reads.
	"reconciler/forgeclient": {"reconciler/report/forge/gitea", "reconciler/report/forge/github", "reconciler/report/forge/gitlab"},
}

// targetOf is the name of the target in whose folder dir lies.
func targetOf(dir string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(dir, "reconciler/targets/"), "/")
	return name
}

func reportMay(p *pkg, dir string) bool {
	if p.in("reconciler/report/forge") {
		return within(dir, "reconciler/report")
	}
	return within(dir, "reconciler/report/internal", "reconciler/plan", "reconciler/state", "reconciler/apply", "internal/plural") || dir == "provision" || dir == "provision/blocker" || dir == "provision/noderepair"
}

// adapter reports whether dir is the inside of an outside world that p is no
// part of.
func adapter(p *pkg, dir string) bool {
	for _, target := range []string{"gitsource", "reconciler/targets", "provision/engine"} {
		contract := dir == target && target != "provision/engine"
		if within(dir, target) && !contract && !p.in(target) {
			return true
		}
	}
	return within(dir, "reconciler/report/forge/gitea", "reconciler/report/forge/github", "reconciler/report/forge/gitlab") && !p.in("reconciler/report/forge")
}

// importsGoOneWay reads all files but tests, which may connect anything.
func importsGoOneWay(s *source) []string {
	var out []string
	for _, p := range s.packages {
		for _, f := range p.files {
			all := imports(f)
			for _, i := range slices.Sorted(maps.Keys(all)) {
				out = append(out, forbidden(s, p, i, all[i])...)
			}
		}
	}
	return out
}

func forbidden(s *source, p *pkg, importPath string, pos token.Pos) []string {
	var out []string
	for _, d := range directions {
		if d.from(p) && d.forbids(p, importPath) {
			out = append(out, s.at(pos, "imports %s: %s", importPath, d.why))
		}
	}
	return out
}
