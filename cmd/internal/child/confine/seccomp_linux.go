package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// rule allows one system call. One that no rule allows fails with EPERM instead of ending the
// process: what a library only tries, and a newer Go runtime on a newer kernel, then goes on
// without it. See seccomp(2) for all of this.
type rule struct {
	call uintptr
	// conditions are what its arguments must all meet.
	conditions []condition
}

// condition is that an argument, counted from 0, has this value under this mask.
type condition struct {
	argument    uint32
	mask, value uint64
}

func equals(argument uint32, value uint64) condition {
	return condition{argument, ^uint64(0), value}
}

// allowed is what the Go runtime needs to go on, and to read and write what is open.
// What is called most comes first. Every thread may be made, no process; only this process
// may be signalled; nothing new may be executed, and nothing be opened.
func allowed(pid int) []rule {
	self := equals(0, uint64(pid))
	return slices.Concat(allow(
		unix.SYS_FUTEX, unix.SYS_READ, unix.SYS_WRITE, unix.SYS_EPOLL_PWAIT, unix.SYS_NANOSLEEP, unix.SYS_MADVISE,
		unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_SCHED_YIELD, unix.SYS_GETPID, unix.SYS_GETTID,
	), []rule{
		{unix.SYS_TGKILL, []condition{self}},
		// Shared memory and stacks that grow do not count for RLIMIT_DATA, see getrlimit(2).
		{unix.SYS_MMAP, []condition{{2, unix.PROT_EXEC, 0}, {3, unix.MAP_SHARED | unix.MAP_GROWSDOWN, 0}}},
		{unix.SYS_MPROTECT, []condition{{2, unix.PROT_EXEC, 0}}},
		{unix.SYS_CLONE, []condition{{0, unix.CLONE_THREAD, unix.CLONE_THREAD}}},
		// How a Go program ends itself by a signal.
		{unix.SYS_KILL, []condition{self}},
		// Names for the heap's mappings, which Go gives them.
		{unix.SYS_PRCTL, []condition{equals(0, unix.PR_SET_VMA)}},
		// Its own limits and niceness may be read.
		{unix.SYS_PRLIMIT64, []condition{equals(0, 0), equals(2, 0)}},
		{unix.SYS_GETPRIORITY, []condition{equals(0, unix.PRIO_PROCESS), equals(1, 0)}},
		// Of a descriptor's settings: only whether it blocks.
		{unix.SYS_FCNTL, []condition{equals(1, unix.F_GETFL)}},
	}, allow(
		unix.SYS_MUNMAP, unix.SYS_SIGALTSTACK, unix.SYS_RT_SIGACTION,
		unix.SYS_RESTART_SYSCALL, unix.SYS_CLOCK_GETTIME, unix.SYS_GETRANDOM, unix.SYS_EPOLL_CTL, unix.SYS_FSTAT,
		// Go reads again and again how many processors it may use, in what it opened before.
		unix.SYS_SCHED_GETAFFINITY, unix.SYS_PREAD64,
		unix.SYS_CLOSE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	), architectureRules())
}

func allow(calls ...uintptr) []rule {
	out := make([]rule, len(calls))
	for i, c := range calls {
		out[i].call = c
	}
	return out
}

// The offsets of struct seccomp_data's fields; an argument has 8 bytes, of which
// both architectures keep the lower half first.
const (
	callOffset         = 0
	architectureOffset = 4
	argumentsOffset    = 16
)

var (
	retAllow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	retErrno = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
)

// program is the filter: it refuses what no rule allows, and calls of any other
// architecture's numbers.
func program(architecture uint32, rules []rule) []bpf.Instruction {
	out := []bpf.Instruction{
		bpf.LoadAbsolute{Off: architectureOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1},
		retErrno,
		bpf.LoadAbsolute{Off: callOffset, Size: 4},
	}
	for _, r := range rules {
		var block []bpf.Instruction
		for _, c := range r.conditions {
			for half := range uint32(2) {
				block = append(block,
					bpf.LoadAbsolute{Off: argumentsOffset + 8*c.argument + 4*half, Size: 4},
					bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(c.mask >> (32 * half))},
					bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(c.value >> (32 * half)), SkipTrue: 1},
					retErrno)
			}
		}
		block = append(block, retAllow)
		out = append(out, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(r.call), SkipTrue: uint8(len(block))})
		out = append(out, block...)
	}
	return append(out, retErrno)
}

// filter lets every thread of this process, for the rest of its life, make only
// the system calls that are allowed.
func filter() error {
	if err := load(program(architecture, allowed(os.Getpid()))); err != nil {
		return fmt.Errorf("filtering system calls: %w; a child process needs Linux on amd64 or arm64 with CONFIG_SECCOMP_FILTER, and a seccomp profile that allows seccomp(2) and prctl(2), such as RuntimeDefault", err)
	}
	// Of all things that are refused this one does nothing. Every thread makes it.
	_, _, refused := syscall.AllThreadsSyscall(unix.SYS_GETPPID, 0, 0, 0)
	if refused == syscall.ENOTSUP { // a program with C code
		_, _, refused = syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	}
	if refused != syscall.EPERM {
		return errors.New("filtering system calls: the kernel took the filter, and does not keep to it")
	}
	return nil
}

func load(instructions []bpf.Instruction) error {
	if architecture == 0 {
		return errors.New("no system calls are listed for " + runtime.GOARCH)
	}
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filters[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	// Without it the kernel takes filters of root only. The others get it with the filter.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filters)
	switch {
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d has another filter", thread)
	}
	return nil
}
