//go:build !linux

package process

import "syscall"

// attributes gives each child a process group of its own. There is no signal
// at the parent's death here: the reaper alone does that work.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
