package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// startDeadline covers a first build of all programs on a small machine.
const startDeadline = 25 * time.Minute

// TestMain lets this binary run as a sandbox whose process crashes.
func TestMain(m *testing.M) {
	if os.Getenv("SANDBOX_TEST_ROLE") != "crash" {
		os.Exit(m.Run())
	}
	config := sandbox.DefaultConfig()
	target, err := sandbox.Start(context.Background(), config)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("world", target.Dir)
	<-target.Done() // for ever: it is killed
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func start(t *testing.T, config sandbox.Config) *sandbox.Environment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startDeadline)
	defer cancel()
	config.Progress = testWriter{t}
	target, err := sandbox.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Stop(); err != nil {
			t.Error(err)
		}
	})
	return target
}

// inFolder lists the processes that stand in a folder or below it.
func inFolder(t *testing.T, folder string) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil || len(links) == 0 {
		t.Skip("needs /proc to look at processes")
	}
	var found []int
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, folder) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(link, "/proc/%d/cwd", &pid); err != nil {
			t.Fatal(err)
		}
		found = append(found, pid)
	}
	return found
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited a minute in vain: %s", what)
		case <-tick.C:
		}
	}
}

func TestAnEnvironmentHasAllItsPartsAndLeavesNothing(t *testing.T) {
	target := start(t, sandbox.DefaultConfig())
	api, err := kubernetes.NewForConfig(target.REST())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("the API server shows the EKS cluster's version", func(t *testing.T) {
		version, err := api.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := version.Major+"."+version.Minor, sandbox.DefaultConfig().AWS.Cluster.Version; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	t.Run("there is one node, and no engine owns it", func(t *testing.T) {
		found, err := api.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil || len(found.Items) != 1 {
			t.Fatalf("got %d nodes, %v", len(found.Items), err)
		}
		labels := found.Items[0].Labels
		if labels["eks.amazonaws.com/nodegroup"] != "system" || labels["karpenter.sh/nodepool"] != "" {
			t.Errorf("got labels %v", labels)
		}
	})
	t.Run("a pod runs on it", func(t *testing.T) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}},
		}
		if _, err := api.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the pod runs", func() bool {
			live, err := api.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
			return err == nil && live.Status.Phase == corev1.PodRunning
		})
	})
	t.Run("kubectl and a program reach the sandbox by Env alone", func(t *testing.T) { runKubectl(t, target) })
	t.Run("the Git server takes a repository", func(t *testing.T) {
		if _, err := target.Git.CreateRepository(t.Context(), target.Git.Admin(), "nodes", true); err != nil {
			t.Error(err)
		}
	})
	t.Run("nothing of the user's cloud reaches a program", func(t *testing.T) {
		for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_EC2_METADATA_DISABLED"} {
			if _, set := target.Env()[name]; !set {
				t.Errorf("%s is not set, so the user's own would be read", name)
			}
		}
	})
	pids := inFolder(t, target.Dir)
	if len(pids) < 5 {
		t.Fatalf("want at least 5 processes, found %v", pids)
	}
	begin := time.Now()
	if err := target.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %s", time.Since(begin).Round(time.Millisecond))
	if err := target.Err(); err != nil {
		t.Errorf("a part failed: %v", err)
	}
	checkGone(t, target.Dir, pids)
}

func runKubectl(t *testing.T, target *sandbox.Environment) {
	t.Helper()
	p, err := target.Run("kubectl", target.Kubectl, "get", "nodes", "--output=name")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Fatal("kubectl did not end")
	}
	content, err := os.ReadFile(p.Log())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(content), "node/ip-10-0-63-254.") {
		t.Errorf("kubectl printed %q", content)
	}
	select {
	case <-target.Done():
		t.Error("the end of a program that Run started ended the world")
	default:
	}
}

func checkGone(t *testing.T, folder string, pids []int) {
	t.Helper()
	eventually(t, "the data folder is gone", func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist)
	})
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool {
			if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return true
			}
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err == nil && strings.Contains(string(stat), ") Z ") // waits for init
		})
	}
}

func TestACrashOfTheSandboxLeavesNothing(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "SANDBOX_TEST_ROLE=crash")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill() }) // also where the test ends early
	var folder string
	if n, err := fmt.Fscanf(stdout, "world %s\n", &folder); n != 1 {
		t.Fatalf("the sandbox did not start: %v", err)
	}
	pids := inFolder(t, folder)
	if len(pids) < 5 {
		t.Fatalf("want at least 5 processes, found %v", pids)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed" is the point
	checkGone(t, folder, pids)
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	temporary := t.TempDir() // other environments come and go in the usual one
	t.Setenv("TMPDIR", temporary)
	config := sandbox.DefaultConfig()
	config.AWS.Region = "mars-north-1" // refused by the cloud, after the folder was made
	if target, err := sandbox.Start(t.Context(), config); err == nil {
		t.Errorf("a world in an unknown region started: %v", target.Stop())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if target, err := sandbox.Start(ctx, sandbox.DefaultConfig()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
		if err == nil {
			t.Error(target.Stop())
		}
	}
	left, err := filepath.Glob(filepath.Join(temporary, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestEnvNamesTheLoopbackEndpointAndRandomKeys(t *testing.T) {
	config := sandbox.DefaultConfig()
	config.WithoutGit = true
	target := start(t, config)
	env := target.Env()
	if !strings.HasPrefix(env["AWS_ENDPOINT_URL"], "http://127.0.0.1:") {
		t.Errorf("the endpoint is %q", env["AWS_ENDPOINT_URL"])
	}
	if id := env["AWS_ACCESS_KEY_ID"]; len(id) != 20 || !strings.HasPrefix(id, "AKIA") || len(env["AWS_SECRET_ACCESS_KEY"]) != 40 {
		t.Errorf("the keys do not have the shape of AWS's: %d and %d characters", len(id), len(env["AWS_SECRET_ACCESS_KEY"]))
	}
	if target.Git != nil {
		t.Error("there is a Git server that was not asked for")
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if strings.ContainsAny(env[name], "\n'\"") {
			t.Errorf("%s cannot be put into a shell line", name)
		}
	}
}
