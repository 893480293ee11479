package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// commandResult is what a command printed and how it ended.
type commandResult struct {
	out, err string
	code     int
}

// typed runs the product as a person does, in a folder and an environment's shell.
func typed(t *testing.T, w *sandbox.Environment, folder string, args ...string) commandResult {
	t.Helper()
	var out, errOut strings.Builder
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &out, &errOut
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir}
	for name, value := range w.Env() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return commandResult{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// expect checks an exit code and words that must be among what was printed. What
// was printed is shown first, so that a failure ends with its reason.
func (got commandResult) expect(t *testing.T, code int, texts ...string) {
	t.Helper()
	var wrong []string
	if got.code != code {
		wrong = append(wrong, fmt.Sprintf("exit code %d, want %d", got.code, code))
	}
	for _, text := range texts {
		if !strings.Contains(got.out+got.err, text) {
			wrong = append(wrong, fmt.Sprintf("it does not say %q", text))
		}
	}
	if len(wrong) > 0 {
		t.Fatalf("stdout:\n%s\nstderr:\n%s\n%s", got.out, got.err, strings.Join(wrong, "\n"))
	}
}

// command is what a person types in the clone.
func (s *syncFixture) command(args ...string) commandResult {
	s.Helper()
	got := typed(s.T, sharedEnv, s.repo.dir, append(args, "--namespace="+s.system)...)
	for _, text := range s.hidden {
		if strings.Contains(got.out+got.err, text) {
			s.Errorf("poolwright %s shows a secret that begins with %.4s", strings.Join(args, " "), text)
		}
	}
	return got
}

func (s *syncFixture) expect(got commandResult, code int, texts ...string) {
	s.Helper()
	got.expect(s.T, code, texts...)
}

func (s *syncFixture) secret(name, text string) string {
	s.hide(text)
	return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\nstringData:\n  key: %s\n", name, s.apps, text)
}

func TestCommandsExitAndPrintAsKubectlDoes(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "commands")
	s.declare("v1", "a", "b")
	s.repo.write("config/secret.yaml", s.secret("door", "sesame-open-1702"))
	s.repo.commit("Begin")
	s.start()
	s.follow(every("10m"))
	s.ready()

	s.expect(s.command("plan", "config"), 0)
	s.repo.write("config/a.yaml", s.configMap("a", "v2"))
	s.repo.write("config/secret.yaml", s.secret("door", "sesame-close-2017"))
	s.repo.remove("config/b.yaml")
	s.expect(s.command("plan", "config"), 1, "ConfigMap", "data.value", "v1", "v2", "delete")
	s.expect(s.command("plan", "config", "-o", "markdown"), 1, "data.value")
	got := s.command("plan", "config", "-o", "json")
	s.expect(got, 1)
	var report map[string]any
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Errorf("%v in:\n%s", err, got.out)
	}
	if again := s.command("plan", "config", "-o", "json"); again.out != got.out {
		t.Errorf("the same plan is printed differently:\n%s\n%s", got.out, again.out)
	}
	s.repo.write("config/broken.yaml", "kind: [")
	s.expect(s.command("plan", "config"), 2, filepath.Join("config", "broken.yaml")+":1")
	s.repo.remove("config/broken.yaml")
	s.expect(s.command("plan", "nowhere"), 2, "nowhere")
	s.expect(s.command("plan", "config", "--sync=other"), 2, `no Sync "other"`)
	if s.live("a").Data["value"] != "v1" || s.live("b") == nil {
		t.Fatal("plan changed something")
	}

	s.repo.commit("Change a, remove b")
	s.expect(s.command("reconcile"), 0, "Applied revision "+s.repo.revision())
	s.expect(s.command("plan", "config"), 0)
	if s.live("a").Data["value"] != "v2" || s.live("b") != nil {
		t.Error("reconcile returned before the commit was applied")
	}
	s.expect(s.command("suspend"), 0, "is suspended", "poolwright resume "+s.name)
	s.expect(s.command("reconcile"), 2, "poolwright resume "+s.name)
	s.repo.write("config/a.yaml", s.configMap("a", "v3"))
	s.repo.commit("Change a again")
	s.expect(s.command("resume", s.name), 0, "Applied revision "+s.repo.revision())
	if got := s.live("a").Data["value"]; got != "v3" {
		t.Errorf("a holds %q", got)
	}
	// The controller ends a suspension for a time, long before the next interval. It begins without an end, so that the
	// commit is there before it ends.
	s.expect(s.command("suspend"), 0, "is suspended")
	s.repo.write("config/a.yaml", s.configMap("a", "v3a"))
	s.repo.commit("Change a while it is suspended")
	s.expect(s.command("suspend", "--for=1s", "--overwrite", "--reason=EKS is upgraded", "-o", "json"), 0, `"suspendedUntil"`, "EKS is upgraded")
	s.expect(s.command("wait", s.name, "--for=applied="+s.repo.revision(), "--timeout=5m", "-o", "name"), 0, "sync.poolwright.dev/"+s.name)
	if sync := s.sync(); sync.Spec.Suspend || sync.Annotations[v1alpha1.SuspendUntilAnnotation] != "" || s.live("a").Data["value"] != "v3a" {
		t.Errorf("after its end, it is suspended %t, with %v, and a holds %q", sync.Spec.Suspend, sync.Annotations, s.live("a").Data["value"])
	}

	earlier := s.repo.revision()
	s.repo.write("config/a.yaml", s.configMap("a", "v4"))
	s.repo.commit("Change a for the worse")
	s.expect(s.command("reconcile"), 0, "Applied revision "+s.repo.revision())
	s.expect(s.command("rollback", "--to", "0123456"), 2, "git rev-parse 0123456")
	s.expect(s.command("rollback", s.name, "--to", earlier, "--reason", "nodes hang"), 0, "Applied revision "+earlier, "RolledBack: Stays at "+earlier+" (nodes hang)", "poolwright resume "+s.name)
	s.repo.write("config/a.yaml", s.configMap("a", "v5"))
	s.repo.commit("Change a for the better")
	s.expect(s.command("reconcile"), 0, "RolledBack: Stays at "+earlier)
	if got := s.live("a").Data["value"]; got != "v3a" {
		t.Errorf("rolled back, a holds %q", got)
	}
	s.expect(s.command("get", "syncs"), 0, "rolled back to live@", "nodes hang")
	s.expect(s.command("plan", "config"), 1, "is rolled back to an earlier revision", "poolwright resume "+s.name)
	s.expect(s.command("wait", s.name, "--for=applied="+s.repo.revision()), 1, "it is rolled back to "+earlier)
	s.expect(s.command("resume", s.name), 2, "is rolled back", "poolwright resume "+s.name+" -n "+s.system+" --rollback")
	s.expect(s.command("resume", s.name, "--rollback"), 0, "Applied revision "+s.repo.revision())
	if got := s.live("a").Data["value"]; got != "v5" {
		t.Errorf("resumed, a holds %q", got)
	}

	s.repo.write("config/broken.yaml", "kind: [")
	s.repo.commit("Break something")
	s.expect(s.command("reconcile"), 1, "InvalidManifests", "config/broken.yaml:1")
	if meta.IsStatusConditionTrue(s.sync().Status.Conditions, "Ready") {
		t.Error("it is ready")
	}
	s.expect(s.command("reconcile", "nobody"), 2, `no Sync "nobody"`)
}
