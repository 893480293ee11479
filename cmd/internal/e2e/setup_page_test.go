package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
)

// notRun are the commands of the pages that cannot be run here, by what they contain, and why.
func notRun() map[string]string {
	return map[string]string{
		" logs ":                "the kubelets are simulated, and serve no logs",
		" exec ":                "the kubelets are simulated, and run no container",
		" top ":                 "there is no metrics-server",
		"aws sqs ":              "there is no AWS CLI",
		"aws logs tail":         "the control plane here writes no log to CloudWatch",
		"-offerings ":           "there is no AWS CLI",
		" -w":                   "it does not end",
		"loads/gpu.yaml":        "the test has created it",
		"-n prod get":           "there is no KEDA",
		"poolwright bootstrap ": "the test has installed it so, from another branch",
	}
}

// skipped is why a command is not run, or empty.
func skipped(command string) string {
	for part, why := range notRun() {
		if strings.Contains(command, part) {
			return why
		}
	}
	return ""
}

// pageCommand is a command of a page.
type pageCommand struct {
	section, text string
	// names are those in a comment behind it: what it lists, and nothing else. Commands with such a comment are those of namesIts.
	names string
	// output is what the page has below it; a line … is any lines.
	output []string
}

// runsThePage runs the commands under these headings of the example's page, in its folder, until they print
// what the page has.
func (s setupSuite) runsThePage(sections ...string) {
	s.Helper()
	page, err := os.ReadFile(filepath.Join(s.example(), "README.md"))
	if err != nil {
		s.Fatal(err)
	}
	path, run, begin := tools(s.T, s.Environment), 0, time.Now()
	for _, c := range pageCommands(string(page)) {
		if !slices.Contains(sections, c.section) {
			continue
		}
		if c.names != "" && !c.namesIts() {
			s.Errorf("%s has a comment that is not compared with anything: %s", c.text, c.names)
		}
		if why := skipped(c.text); why != "" {
			s.Logf("not run: %s: %s", c.text, why)
			continue
		}
		run++
		if strings.HasPrefix(c.text, "aws ") {
			s.sends(strings.Fields(c.text))
			continue
		}
		s.printsThePage(c, path)
	}
	s.Logf("%d commands under %v took %s", run, sections, since(begin))
	if run == 0 {
		s.Errorf("no command was run under %v", sections)
	}
}

// printsThePage runs a command until it prints what the page has. What it shows may be written after what the
// command above it has waited for: Karpenter counts a pool's resources every five seconds, and a node is initialized
// beside the start of its first pod. A command that writes is run once.
func (s setupSuite) printsThePage(c pageCommand, path string) {
	s.Helper()
	var out []byte
	prints := func() error {
		cmd := exec.CommandContext(s.Context(), "bash", "-euo", "pipefail", "-c", c.text)
		cmd.Dir = s.git.repo.dir
		cmd.Env = append(cmd.Env, "PATH="+path+":"+os.Getenv("PATH"), "HOME="+s.Dir)
		for name, value := range s.Env() {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		var err error
		if out, err = cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		if differs := c.differs(string(out)); differs != "" {
			return fmt.Errorf("%s\nprinted:\n%s", differs, out)
		}
		return nil
	}
	if strings.HasPrefix(c.text, "kubectl apply ") {
		if err := prints(); err != nil {
			s.Errorf("%s: %v", c.text, err)
		}
	} else {
		s.poll(time.Second, waitTimeout, fmt.Sprintf("%q prints what the page has", c.text), prints)
	}
	s.Logf("$ %s\n%s", c.text, out)
}

// namesIts is true for a command whose comment may have the names of what it lists.
func (c pageCommand) namesIts() bool {
	return c.text == "kubectl get nodepools" || c.text == "kubectl get ec2nodeclasses"
}

// differs is how a command's output differs from what the page has of it, or empty.
func (c pageCommand) differs(printed string) string {
	if c.names != "" {
		if diff := cmp.Diff(strings.Split(c.names, ", "), firstColumn(printed)); diff != "" {
			return "(-page +printed):\n" + diff
		}
	}
	if missing := missingLines(c.output, printed); len(missing) > 0 {
		return "missing:\n" + strings.Join(missing, "\n")
	}
	return ""
}

// sends carries a command of the AWS CLI out by the SDK: what it names must exist.
func (s setupSuite) sends(args []string) {
	s.Helper()
	of := func(flag string) string {
		if at := slices.Index(args, flag); at > 0 && at+1 < len(args) {
			return strings.Trim(args[at+1], `'"`)
		}
		s.Fatalf("%q has no %s", args, flag)
		return ""
	}
	var found int
	var err error
	switch operation := strings.Join(args[1:3], " "); operation {
	case "iam get-role":
		name := of("--role-name")
		_, err = s.account.iam.GetRole(s.Context(), &iam.GetRoleInput{RoleName: &name})
		found = 1
	case "eks update-kubeconfig":
		name := of("--name")
		_, err = s.account.eks.DescribeCluster(s.Context(), &eks.DescribeClusterInput{Name: &name})
		found = 1
	case "ec2 describe-subnets":
		name, value, _ := strings.Cut(strings.TrimPrefix(of("--filters"), "Name="), ",Values=")
		var out *ec2.DescribeSubnetsOutput
		out, err = s.account.ec2.DescribeSubnets(s.Context(), &ec2.DescribeSubnetsInput{Filters: []types.Filter{{Name: &name, Values: []string{value}}}})
		if err == nil {
			found = len(out.Subnets)
		}
	default:
		s.Fatalf("the test cannot carry out aws %s", operation)
	}
	if err != nil || found == 0 {
		s.Errorf("%q finds nothing: %v", args, err)
	}
}

var (
	blockOfCommands = regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```$")
	// volatile are what differs from run to run.
	volatile = regexp.MustCompile(`ip-[0-9-]+(?:\.[a-z0-9.-]+)?|\b[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d)(?:[0-9]+[smh])*\b|-[a-z0-9]{8,10}-[a-z0-9]{5}\b|-[a-z0-9]{5}\b(?:\s|$)|\bi-[0-9a-f]{17}\b|\b[0-9a-f]{7,40}\b|\b20[0-9]{2}-[0-9]{2}-[0-9]{2}[^ ]*|\bv1\.[0-9]+\.[0-9]+-eks-[a-z0-9]+`)
)

// pageCommands are the commands of all blocks of a page, with the heading of the second level above them.
func pageCommands(page string) (commands []pageCommand) {
	for section := range strings.SplitSeq(page, "\n## ") {
		heading, _, _ := strings.Cut(section, "\n")
		for _, block := range blockOfCommands.FindAllStringSubmatch(section, -1) {
			for line := range strings.SplitSeq(strings.TrimSpace(block[2]), "\n") {
				text, typed := strings.CutPrefix(line, "$ ")
				if block[1] == "console" && !typed {
					last := &commands[len(commands)-1]
					last.output = append(last.output, line)
					continue
				}
				text, names, _ := strings.Cut(text, " #")
				commands = append(commands, pageCommand{section: heading, text: strings.TrimSpace(text), names: strings.TrimSpace(names)})
			}
		}
	}
	return commands
}

// missingLines are those of a page that a command has not printed, in the page's order. Without a line … nothing
// else may be printed.
func missingLines(want []string, printed string) (missing []string) {
	normal := func(text string) string {
		return strings.Join(strings.Fields(volatile.ReplaceAllString(text, " ~ ")), " ")
	}
	var rest []string
	for line := range strings.SplitSeq(strings.TrimSpace(printed), "\n") {
		rest = append(rest, normal(line))
	}
	if open := slices.Contains(want, "…"); len(want) > 0 && !open && len(rest) != len(want) {
		return []string{fmt.Sprintf("%d lines, and the page has %d", len(rest), len(want))}
	}
	for _, line := range want {
		if line == "…" {
			continue
		}
		at := slices.Index(rest, normal(line))
		if at < 0 {
			missing = append(missing, line)
			continue
		}
		rest = rest[at+1:]
	}
	return missing
}

// firstColumn is that of a table of kubectl's, without its heading.
func firstColumn(table string) (names []string) {
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if fields := strings.Fields(line); i > 0 && len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	return names
}

func TestCommandsOfAPageHaveTheirSectionAndOutput(t *testing.T) {
	const page = "# x\n\n## Before\n\n```sh\na\n```\n\n## Verify\n\n```sh\nb   # c, d\n```\n\n```console\n$ e\nNAME\n…\n$ f | g\n```\n"
	want := []pageCommand{
		{section: "Before", text: "a"}, {section: "Verify", text: "b", names: "c, d"},
		{section: "Verify", text: "e", output: []string{"NAME", "…"}}, {section: "Verify", text: "f | g"},
	}
	if diff := cmp.Diff(want, pageCommands(page), cmp.AllowUnexported(pageCommand{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACommentIsComparedWithWhatIsListed(t *testing.T) {
	const table = "NAME   READY\na      True\nb      True\n"
	for name, c := range map[string]struct {
		command      string
		known, fails bool
	}{
		"the names":                     {"kubectl get nodepools # a, b", true, false},
		"one is missing":                {"kubectl get ec2nodeclasses # a, b, c", true, true},
		"one is left":                   {"kubectl get nodepools # a", true, true},
		"a sentence about other things": {"kubectl get pods # two, Running", false, true},
	} {
		got := pageCommands("\n## Verify\n\n```sh\n" + c.command + "\n```\n")
		if len(got) != 1 || got[0].namesIts() != c.known || (got[0].differs(table) != "") != c.fails {
			t.Errorf("%s: %+v differs by %q", name, got, got[0].differs(table))
		}
	}
}

func TestWhatAPageHasOfAnOutputIsComparedWithoutWhatDiffersFromRunToRun(t *testing.T) {
	const printed = "NAME     AGE\nip-10-0-64-4.eu-west-1.compute.internal   5m12s\ngpu-9f2kx   True\n"
	for name, c := range map[string]struct{ page, missing []string }{
		"other names and ages":   {[]string{"NAME  AGE", "ip-10-0-0-9  3s", "gpu-aaaaa   True"}, nil},
		"a part":                 {[]string{"NAME  AGE", "…", "gpu-aaaaa   True"}, nil},
		"a value that is wrong":  {[]string{"NAME  AGE", "ip-10-0-0-9  3s", "gpu-aaaaa   False"}, []string{"gpu-aaaaa   False"}},
		"another order":          {[]string{"…", "gpu-aaaaa   True", "NAME  AGE"}, []string{"NAME  AGE"}},
		"lines that are left":    {[]string{"NAME  AGE"}, []string{"3 lines, and the page has 1"}},
		"a page without outputs": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.missing, missingLines(c.page, printed)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
