package process

import "syscall"

// attributes gives each child a process group of its own, so that a signal
// reaches all that it started and Ctrl-C in a terminal reaches none of it
// before Stop does, and the kernel's kill at the death of its parent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
