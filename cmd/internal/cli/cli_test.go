package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/internal/golden"
)

// result is what a user sees of a command.
type result struct {
	code     int
	out, err string
}

func execute(t *testing.T, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	code := Main(t.Context(), args, Streams{In: strings.NewReader(""), Out: &out, Err: &err})
	return result{code: code, out: out.String(), err: err.String()}
}

// withoutCluster makes sure that no kubeconfig of the machine is found.
func withoutCluster(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
}

func TestHelpReadsAsItsGolden(t *testing.T) {
	t.Setenv("TMPDIR", "/tmp")
	for _, command := range []string{"", "run", "init", "plan", "lint", "cost", "check", "get", "explain", "wait", "reconcile", "suspend", "resume", "rollback"} {
		name, args := "help", []string{"--help"}
		if command != "" {
			name, args = "help-"+command, []string{command, "--help"}
		}
		t.Run(name, func(t *testing.T) {
			r := execute(t, args...)
			if r.code != 0 || r.err != "" {
				t.Fatalf("exit %d, stderr %q", r.code, r.err)
			}
			golden.Compare(t, "testdata/"+name+".golden", r.out)
		})
	}
}

func TestDiffIsAnotherNameOfPlan(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {".", "-o", "xml"}} {
		plan, diff := execute(t, append([]string{"plan"}, args...)...), execute(t, append([]string{"diff"}, args...)...)
		if plan.code != diff.code || plan.out != diff.out || plan.err != diff.err {
			t.Errorf("diff %v exits with %d: %s%s, and plan with %d: %s%s", args, diff.code, diff.out, diff.err, plan.code, plan.out, plan.err)
		}
		if !strings.Contains(diff.out+diff.err, "markdown") {
			t.Errorf("diff %v prints neither the help nor the error of plan: %s%s", args, diff.out, diff.err)
		}
	}
}

// kubectl runs kubectl-poolwright of the PATH as kubectl poolwright.
func TestHelpHasTheNameByWhichTheCommandIsCalled(t *testing.T) {
	called := os.Args[0]
	t.Cleanup(func() { os.Args[0] = called })
	for path, want := range map[string]string{"/usr/local/bin/kubectl-poolwright": "kubectl poolwright", "/usr/local/bin/poolwright": "poolwright", "/opt/kubectl-plugins/poolwright": "poolwright"} {
		os.Args[0] = path
		for _, args := range [][]string{{"--help"}, {"diff", "--help"}} {
			r := execute(t, args...)
			_, usage, found := strings.Cut(r.out, "Usage:")
			if r.code != 0 || !found || !strings.HasPrefix(strings.TrimSpace(usage), want+" ") {
				t.Errorf("called as %s, %v has the usage %.80s", path, args, usage)
			}
		}
	}
}

func TestErrorsOnTheCommandLine(t *testing.T) {
	withoutCluster(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an unknown command":                 {[]string{"frobnicate"}, `unknown command "frobnicate"`},
		"a typing error in kubectl's flag":   {[]string{"plan", "--as-grop=x"}, "unknown flag: --as-grop; did you mean --as-group?"},
		"prices of AWS for an offline plan":  {[]string{"plan", ".", "--offline", "--base=main", "--prices=aws"}, "--offline makes no request, and --prices requires one"},
		"prices of a cluster without one":    {[]string{"cost", ".", "--prices=cluster"}, "no cluster to connect to"},
		"a time-out that is none":            {[]string{"plan", ".", "--server=https://127.0.0.1:1", "--request-timeout=soon"}, "loading the kubeconfig: Invalid timeout value"},
		"an unknown flag":                    {[]string{"plan", "--frobnicate"}, "unknown flag: --frobnicate\nFor the usage, run: poolwright plan --help"},
		"a flag with a typing error":         {[]string{"plan", "--ofline"}, "unknown flag: --ofline; did you mean --offline?\nFor the usage, run: poolwright plan --help"},
		"a flag without its value":           {[]string{"plan", "--base"}, "flag needs an argument: --base\nFor the usage, run: poolwright plan --help"},
		"more than one folder":               {[]string{"lint", "a", "b"}, "lint takes one argument, the folder, and got 2: a b\nFor the usage, run: poolwright lint --help"},
		"an argument where none is taken":    {[]string{"version", "now"}, "version takes no argument, and got: now"},
		"an unknown format of findings":      {[]string{"lint", "-o", "xml"}, `-o "xml" is not one of text, json, yaml, sarif, github`},
		"an unknown output":                  {[]string{"plan", "-o", "xml"}, `-o "xml" is not one of text, json, yaml, markdown`},
		"an unknown log level":               {[]string{"run", "--log-level", "loud"}, `--log-level "loud" is not one of debug, info, error`},
		"a child that is started by hand":    {[]string{"child", "load"}, "accepts 3 arg(s), received 1"},
		"plan without a cluster":             {[]string{"plan", "."}, "set --kubeconfig or KUBECONFIG"},
		"reservations without prices":        {[]string{"run", "--publish-reservations", "--publish-prices=false"}, "--publish-prices=false"},
		"run without a cluster":              {[]string{"run"}, "set --kubeconfig or KUBECONFIG"},
		"reconcile without a cluster":        {[]string{"reconcile"}, "set --kubeconfig or KUBECONFIG"},
		"get without a cluster":              {[]string{"get"}, "set --kubeconfig or KUBECONFIG"},
		"an unknown section of get":          {[]string{"get", "pods"}, `"pods" is not one of syncs, pools, nodes, pullrequests, drift, quota`},
		"names of what has none":             {[]string{"get", "drift", "gpu"}, "get drift takes no names, and got: gpu"},
		"explain without a cluster":          {[]string{"explain", "pod", "train"}, "set --kubeconfig or KUBECONFIG"},
		"explain without a name":             {[]string{"explain", "pod"}, "give a kind and a name: poolwright explain pod NAME"},
		"explain of an unknown kind":         {[]string{"explain", "sync", "dev"}, `"sync" is not one of pod, node, pool`},
		"an unknown output of explain":       {[]string{"explain", "pod", "train", "-o", "xml"}, `-o "xml" is not one of json, yaml`},
		"watching all sections":              {[]string{"get", "-w"}, "--watch needs one of syncs, pools, nodes, pullrequests, drift, quota"},
		"watching as JSON":                   {[]string{"get", "pools", "-w", "-o", "json"}, "--watch prints tables: leave -o json out, or use -o wide"},
		"wait without a condition":           {[]string{"wait", "dev"}, "give the condition: --for=ready, --for=applied=REVISION, --for=rollout=REVISION or --for=rollout"},
		"wait for an unknown condition":      {[]string{"wait", "dev", "--for=merged"}, `--for "merged" is not one of ready, applied=REVISION, rollout`},
		"wait for what is no revision":       {[]string{"wait", "dev", "--for=applied=main"}, `--for=applied needs a revision: a commit, at least seven of its first digits, or branch@sha1:commit, and not "main"`},
		"wait without a Sync":                {[]string{"wait", "--for=ready"}, "wait takes one argument, the name of a Sync, and got 0"},
		"wait without a cluster":             {[]string{"wait", "dev", "--for=ready"}, "set --kubeconfig or KUBECONFIG"},
		"an unknown output of get":           {[]string{"get", "-o", "xml"}, `-o "xml" is not one of wide, json, yaml, name`},
		"names of what is no object":         {[]string{"get", "drift", "-o", "name"}, "-o name prints objects of the cluster, and drift are none: choose syncs, pools or nodes"},
		"a kubeconfig that is not there":     {[]string{"suspend", "--kubeconfig", "/nowhere/at/all"}, "/nowhere/at/all"},
		"init without a cluster's name":      {[]string{"init", "dev"}, "give --cluster"},
		"init without a folder":              {[]string{"init"}, "init needs an argument: the folder"},
		"lint of a folder that is not there": {[]string{"lint", "/nowhere/at/all"}, "/nowhere/at/all"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, c.args...)
			if r.code != exitError {
				t.Errorf("exit %d, want %d", r.code, exitError)
			}
			if !strings.Contains(r.err, c.want) {
				t.Errorf("stderr %q lacks %q", r.err, c.want)
			}
			if r.out != "" {
				t.Errorf("stdout %q", r.out)
			}
		})
	}
}

func TestLint(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		in    string
		code  int
		out   []string
		err   string
	}{
		"a clean folder has no findings": {
			files: map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"},
			err:   "1 object, 0 problems, 0 warnings",
		},
		"each finding has its file and line": {
			files: map[string]string{
				"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
				"b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n",
			},
			code: exitDifferent,
			out:  []string{"a.yaml:5:", "declared twice", "b.yaml:1:"},
		},
		"one problem is not problems": {
			files: map[string]string{".git": "", "clusters/dev/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 1}\n"},
			code:  exitDifferent,
			out:   []string{"clusters/dev/a.yaml:4: "},
			err:   "1 problem, 0 warnings in ",
			in:    "clusters/dev",
		},
		"a warning fails nothing": {
			files: map[string]string{"a.yaml": "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  limits:\n    gpu: 30\n  disruption: {consolidateAfter: 5m, budgets: [{nodes: 100%}]}\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}\n      requirements:\n        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}\n"},
			out:   []string{"a.yaml:6: warning: NodePool.karpenter.sh/a: spec.limits[gpu]: limits nothing"},
			err:   "1 object, 0 problems, 1 warning",
		},
		"an empty folder is an error, not a clean one": {
			files: map[string]string{"README.md": "nothing"},
			code:  exitError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := execute(t, "lint", filepath.Join(dir, c.in))
			if r.code != c.code {
				t.Errorf("exit %d, want %d; stderr %q", r.code, c.code, r.err)
			}
			if !strings.Contains(r.err, c.err) {
				t.Errorf("stderr %q lacks %q", r.err, c.err)
			}
			for _, want := range c.out {
				if !strings.Contains(r.out, want) {
					t.Errorf("stdout lacks %q:\n%s", want, r.out)
				}
			}
		})
	}
}

func TestOnlyAReleaseHasAnImageOfItsOwn(t *testing.T) {
	const repository = "ghcr.io/poolwright/poolwright"
	for name, c := range map[string]struct{ repository, version, want string }{
		"a release":                  {repository, "v0.1.0", repository + ":v0.1.0"},
		"a candidate for one":        {repository, "v0.1.0-rc.1", repository + ":v0.1.0-rc.1"},
		"a commit after a release":   {repository, "v0.1.0-3-g0123abc", ""},
		"a release that was changed": {repository, "v0.1.0-dirty", ""},
		"a commit without a release": {repository, "0123abc", ""},
		"no version":                 {repository, "", ""},
		"an image without a release": {"", "v0.1.0", ""},
	} {
		if got := releasedImage(c.repository, c.version); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestVersionNamesTheEmbeddedKarpenter(t *testing.T) {
	r := execute(t, "version")
	if r.code != 0 || !strings.HasPrefix(r.out, "poolwright ") {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
	r = execute(t, "version", "-o", "json")
	var got versionInfo
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 || got.Version == "" {
		t.Fatalf("exit %d, %v: %s", r.code, err, r.out)
	}
	for _, path := range karpenterModules() {
		if _, found := got.Modules[path]; !found && len(got.Modules) > 0 {
			t.Errorf("%s is missing in %v", path, got.Modules)
		}
	}
	if r := execute(t, "version", "-o", "xml"); r.code != exitError || !strings.Contains(r.err, `-o "xml" is not one of text, json, yaml`) {
		t.Errorf("exit %d, stderr %q", r.code, r.err)
	}
	if r := execute(t, "--version"); r.code != 0 || !strings.Contains(r.out, got.Version) {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
}
