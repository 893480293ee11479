package confine

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// measurePeak uses memory and executes this program again, as a big go command does with a
// test; that one starts a process which uses less, and prints its MaxRSS.
func measurePeak(step string) error {
	switch step {
	case "use and execute":
		use(400 << 20)
		return syscall.Exec("/proc/self/exe", []string{"confine.test", "peak", "start"}, nil)
	case "start":
		cmd := exec.Command("/proc/self/exe", "peak", "use")
		if err := cmd.Run(); err != nil {
			return err
		}
		_, err := fmt.Println(MaxRSS(cmd.ProcessState) > 200<<20)
		return err
	}
	use(200 << 20)
	return nil
}

func use(bytes int) {
	memory := make([]byte, bytes)
	for i := 0; i < bytes; i += os.Getpagesize() {
		memory[i] = 1
	}
	runtime.KeepAlive(memory)
}

func TestThePeakOfAProcessIsKnownWhateverExecutedTheOneThatStartedIt(t *testing.T) {
	out, err := exec.Command("/proc/self/exe", "peak", "use and execute").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "true" {
		t.Errorf("got %q, %v", got, err)
	}
}
