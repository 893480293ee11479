package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// notRun are the commands of the pages that cannot be run here, by what they contain, and why.
func notRun() map[string]string {
	return map[string]string{
		"aws ":             "there is no AWS CLI",
		" logs ":           "the kubelets are simulated, and serve no logs",
		" top ":            "there is no metrics-server",
		"| jq":             "jq is not everywhere",
		" -w":              "it does not end",
		"kubectl apply":    "the test creates workloads itself",
		"get pod ":         "the test deletes the pod",
		"-n prod get":      "there is no KEDA",
		"poolwright check": "the controller that works is not the Deployment's, whose pods are simulated",
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

// runsThePage runs the commands under Verify and Monitor of the example's page, in its folder, and
// compares the names that some have in a comment with what they print.
func (s setupSuite) runsThePage() {
	s.Helper()
	page, err := os.ReadFile(filepath.Join(s.example(), "README.md"))
	if err != nil {
		s.Fatal(err)
	}
	path, n := tools(s.T, s.Environment), 0
	for _, line := range pageCommands(string(page)) {
		command, comment, _ := strings.Cut(line, " #")
		if why := skipped(command); why != "" {
			s.Logf("not run: %s: %s", command, why)
			continue
		}
		n++
		cmd := exec.CommandContext(s.Context(), "bash", "-euo", "pipefail", "-c", command)
		cmd.Dir = s.git.repo.dir
		cmd.Env = append(cmd.Env, "PATH="+path+":"+os.Getenv("PATH"), "HOME="+s.Dir)
		for name, value := range s.Env() {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.Errorf("%s: %v\n%s", command, err, out)
			continue
		}
		s.Logf("%s\n%s", line, out)
		if strings.Contains(command, "get nodepools") || strings.Contains(command, "get ec2nodeclasses") {
			if diff := cmp.Diff(strings.Split(strings.TrimSpace(comment), ", "), firstColumn(string(out))); diff != "" {
				s.Errorf("%s (-page +printed):\n%s", command, diff)
			}
		}
	}
	if n < 4 {
		s.Errorf("only %d commands were run", n)
	}
}

// pageCommands are the lines of the shell blocks under Verify and Monitor.
func pageCommands(page string) (lines []string) {
	for section := range strings.SplitSeq(page, "\n## ") {
		if !strings.HasPrefix(section, "Verify\n") && !strings.HasPrefix(section, "Monitor\n") {
			continue
		}
		for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
			lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
		}
	}
	return lines
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

func TestCommandsOfAPageAreThoseUnderVerifyAndMonitor(t *testing.T) {
	const page = "# x\n\n## Before\n\n```sh\na\n```\n\n## Verify\n\n```sh\nb   # c, d\ne\n```\n\n## Monitor\n\n```sh\nf | g\n```\n\n## Other\n\n```sh\nh\n```\n"
	if diff := cmp.Diff([]string{"b   # c, d", "e", "f | g"}, pageCommands(page)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
