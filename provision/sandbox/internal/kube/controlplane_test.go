package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/provision/sandbox/internal/build"
	"github.com/poolwright/poolwright/provision/sandbox/internal/kube"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// deadline covers a first build of the control plane on a small machine.
const deadline = 20 * time.Minute

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

type fixture struct {
	plane  *kube.ControlPlane
	group  *process.Group
	folder string
}

func start(t *testing.T) fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	builder, err := build.New(".", testWriter{t})
	if err != nil {
		t.Fatal(err)
	}
	reaper, err := builder.Ensure(ctx, build.Reaper())
	if err != nil {
		t.Fatal(err)
	}
	binaries, err := builder.Ensure(ctx, build.ControlPlane())
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp(t.TempDir(), "kube-")
	if err != nil {
		t.Fatal(err)
	}
	group, err := process.NewGroup(reaper.Path, folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Stop(context.Background()); err != nil {
			t.Errorf("stopping the control plane: %v", err)
		}
	})
	begin := time.Now()
	plane, err := kube.Start(ctx, kube.Config{Binaries: binaries, Group: group, Dir: folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	return fixture{plane: plane, group: group, folder: folder}
}

func client(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARealControlPlaneServesAndIsGoneAfterStop(t *testing.T) {
	w := start(t)
	api := client(t, w.plane.REST())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "pools"}}
	if _, err := api.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"k": "v"}}
	if _, err := api.CoreV1().ConfigMaps("pools").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("a pod may be created, so service accounts work", func(t *testing.T) { createPod(t, api) })
	t.Run("an anonymous user may not read", func(t *testing.T) { refuseAnonymous(t, w) })
	t.Run("the version is the pinned one", func(t *testing.T) {
		version, err := api.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		if version.GitVersion != "v1.36.3" || version.Minor != "36" {
			t.Errorf("got %s, minor %s", version.GitVersion, version.Minor)
		}
	})
	t.Run("keys are for the owner alone", func(t *testing.T) { checkModes(t, w.folder) })
	t.Run("nothing listens beyond loopback", func(t *testing.T) { checkLoopback(t, w.folder) })
	t.Run("the API server goes and comes back at its address", func(t *testing.T) { bounceAPI(t, w, api) })

	pids := processesIn(t, w.folder)
	if len(pids) != 4 {
		t.Fatalf("want 4 processes, found %v", pids)
	}
	begin := time.Now()
	if err := w.group.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %s", time.Since(begin).Round(time.Millisecond))
	for pid := range pids {
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			t.Errorf("process %d is alive after Stop", pid)
		}
	}
	if _, err := os.Stat(w.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data folder is still there: %v", err)
	}
	if err := w.group.Err(); err != nil {
		t.Errorf("a part failed: %v", err)
	}
}

func createPod(t *testing.T, api *kubernetes.Clientset) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/c:1"}}},
	}
	created, err := api.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.Spec.ServiceAccountName != "default" || len(created.Spec.Volumes) != 1 {
		t.Errorf("want the default service account and its token volume, got %q and %d volumes",
			created.Spec.ServiceAccountName, len(created.Spec.Volumes))
	}
}

func refuseAnonymous(t *testing.T, w fixture) {
	t.Helper()
	anonymous := client(t, rest.AnonymousClientConfig(w.plane.REST()))
	_, err := anonymous.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v", err)
	}
}

func checkModes(t *testing.T, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "pki", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no key files: %v", err)
	}
	for _, file := range append(files, filepath.Join(folder, "kubeconfig")) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", file, info.Mode())
		}
	}
}

func bounceAPI(t *testing.T, w fixture, api *kubernetes.Clientset) {
	t.Helper()
	if err := w.plane.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if connection, err := net.Dial("tcp", strings.TrimPrefix(w.plane.Endpoint(), "https://")); err == nil {
		t.Errorf("the stopped API server still accepts connections: %v", connection.Close())
	}
	if err := w.plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().ConfigMaps("pools").Get(t.Context(), "settings", metav1.GetOptions{}); err != nil {
		t.Errorf("reading what was there before: %v", err)
	}
}

// processesIn finds the processes whose working directory is folder, and their
// open sockets' inodes.
func processesIn(t *testing.T, folder string) map[int][]string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil || len(links) == 0 {
		t.Skip("only Linux has /proc, by which it looks at processes")
	}
	found := map[int][]string{}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != folder {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(link, "/proc/%d/cwd", &pid); err != nil {
			t.Fatal(err)
		}
		descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		found[pid] = []string{}
		for _, descriptor := range descriptors {
			target, err := os.Readlink(descriptor)
			if inode, isSocket := strings.CutPrefix(target, "socket:["); err == nil && isSocket {
				found[pid] = append(found[pid], strings.TrimSuffix(inode, "]"))
			}
		}
	}
	return found
}

// checkLoopback reads the kernel's table of listening sockets.
func checkLoopback(t *testing.T, folder string) {
	t.Helper()
	ours := map[string]bool{}
	for _, inodes := range processesIn(t, folder) {
		for _, inode := range inodes {
			ours[inode] = true
		}
	}
	listening := 0
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		content, err := os.ReadFile(table)
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line) // sl local remote state … inode is the tenth
			if len(fields) < 10 || fields[3] != "0A" || !ours[fields[9]] {
				continue
			}
			listening++
			if address, _, _ := strings.Cut(fields[1], ":"); address != "0100007F" {
				t.Errorf("a socket listens on %s in %s", fields[1], table)
			}
		}
	}
	if listening < 5 {
		t.Errorf("want at least 5 listening sockets, found %d: the test looks in the wrong place", listening)
	}
}

func TestAPartThatFailsIsReported(t *testing.T) {
	w := start(t)
	pids := processesIn(t, w.folder)
	for pid := range pids {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(line), "/etcd\x00") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	select {
	case <-w.group.Failed():
	case <-time.After(time.Minute):
		t.Fatal("the end of etcd was not reported")
	}
	var exit *process.ExitError
	if !errors.As(w.group.Err(), &exit) || exit.Name != "etcd" {
		t.Errorf("got %v", w.group.Err())
	}
}
