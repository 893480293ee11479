//go:build !linux && !darwin

package confine

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

var errSystem = errors.New("this system has no limits for a process; use Linux or macOS")

// Executable is the program of this process.
func Executable() (string, error) { return os.Executable() }

// Prepare refuses: nothing would hold the command.
func Prepare(*exec.Cmd) error { return errSystem }

// Kill ends a command that was started.
func Kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func confine(int64, time.Duration) error { return errSystem }

// MaxRSS is the most memory, in bytes, that an ended process had resident; 0 where
// the system does not report it.
func MaxRSS(*os.ProcessState) int64 { return 0 }
