package confine

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const memory = 512 << 20

// TestMain runs as the process that is confined, or only limited, and then makes the
// system calls that it is asked for, one a line: its name, and the error that it got. It
// also runs as those whose peak is measured.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "call" {
		makeCalls(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "peak" {
		if err := measurePeak(os.Args[2]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func makeCalls(how string, names []string) {
	parent := uintptr(os.Getppid())
	do := Self
	switch how {
	case "limited":
		do = limit
	case "in a profile that forbids it":
		if err := load([]bpf.Instruction{
			bpf.LoadAbsolute{Off: callOffset, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_SECCOMP, SkipFalse: 1}, retErrno, retAllow,
		}); err != nil {
			fmt.Println("error", err)
			return
		}
	}
	if err := do(memory, time.Minute); err != nil {
		fmt.Println("error", err)
		return
	}
	for _, name := range names {
		a, args := forbiddenCalls[name], forbiddenCalls[name].args(parent)
		_, _, errno := syscall.RawSyscall6(a.call, args[0], args[1], args[2], args[3], args[4], args[5])
		fmt.Printf("%s=%d\n", name, errno)
	}
}

// callErrnos has another process make system calls and returns the error of each.
func callErrnos(t *testing.T, how string, names ...string) map[string]syscall.Errno {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"call", how}, names...)...)
	if how != "limited" {
		if err := Prepare(cmd); err != nil {
			t.Fatal(err)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]syscall.Errno{}
	for line := range strings.Lines(string(out)) {
		name, errno, _ := strings.Cut(strings.TrimSpace(line), "=")
		var n int
		if _, err := fmt.Sscan(errno, &n); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		got[name] = syscall.Errno(n)
	}
	return got
}

type arguments [6]uintptr

type forbiddenCall struct {
	call uintptr
	// args are such that the call does nothing where it is allowed.
	args func(parent uintptr) arguments
	// control is what comes of it in a process that is only limited, and that root
	// or an ordinary user started; EPERM where a kernel may refuse it anyway.
	control syscall.Errno
}

func with(a ...uintptr) func(uintptr) arguments {
	return func(uintptr) (out arguments) { copy(out[:], a); return out }
}

func parents(a ...uintptr) func(uintptr) arguments {
	return func(parent uintptr) (out arguments) {
		copy(out[:], a)
		for i := range out {
			if out[i] == ofParent {
				out[i] = parent
			}
		}
		return out
	}
}

const (
	ofParent = 0xfeedface
	none     = ^uintptr(0)
)

var nowhere = []byte("/nowhere/at/all\x00")

var forbiddenCalls = map[string]forbiddenCall{
	"open a file":                   {unix.SYS_OPENAT, with(none, uintptr(unsafe.Pointer(&nowhere[0])), 0), syscall.EMFILE},
	"open a file of its directory":  {unix.SYS_OPENAT2, with(none, 0, 0, 0), syscall.EINVAL},
	"read a link":                   {unix.SYS_READLINKAT, with(none, uintptr(unsafe.Pointer(&nowhere[0])), uintptr(unsafe.Pointer(&nowhere[0])), 1), syscall.ENOENT},
	"check for a file":              {unix.SYS_FACCESSAT, with(none, uintptr(unsafe.Pointer(&nowhere[0])), 0), syscall.ENOENT},
	"make a directory":              {unix.SYS_MKDIRAT, with(none, uintptr(unsafe.Pointer(&nowhere[0])), 0), syscall.ENOENT},
	"remove a file":                 {unix.SYS_UNLINKAT, with(none, uintptr(unsafe.Pointer(&nowhere[0])), 0), syscall.ENOENT},
	"change its directory":          {unix.SYS_CHDIR, with(uintptr(unsafe.Pointer(&nowhere[0]))), syscall.ENOENT},
	"watch files":                   {unix.SYS_INOTIFY_INIT1, with(none), syscall.EINVAL},
	"make a file of memory":         {unix.SYS_MEMFD_CREATE, with(0, none), syscall.EINVAL},
	"copy a descriptor":             {unix.SYS_DUP, with(1), syscall.EMFILE},
	"make a pipe":                   {unix.SYS_PIPE2, with(0, 0), syscall.EMFILE},
	"make a socket":                 {unix.SYS_SOCKET, with(unix.AF_INET, unix.SOCK_STREAM, 0), syscall.EMFILE},
	"make a pair of sockets":        {unix.SYS_SOCKETPAIR, with(unix.AF_UNIX, unix.SOCK_STREAM, 0, 0), syscall.EMFILE},
	"connect":                       {unix.SYS_CONNECT, with(none), syscall.EBADF},
	"send to a socket":              {unix.SYS_SENDTO, with(none), syscall.EBADF},
	"pass a descriptor":             {unix.SYS_SENDMSG, with(none), syscall.EBADF},
	"execute a program":             {unix.SYS_EXECVE, with(uintptr(unsafe.Pointer(&nowhere[0])), 0, 0), syscall.ENOENT},
	"execute a file":                {unix.SYS_EXECVEAT, with(none, uintptr(unsafe.Pointer(&nowhere[0])), 0, 0, 0), syscall.ENOENT},
	"make a process":                {unix.SYS_CLONE, with(unix.CLONE_SIGHAND), syscall.EINVAL},
	"make a process by clone3":      {unix.SYS_CLONE3, with(0, 0), syscall.EINVAL},
	"leave its namespaces":          {unix.SYS_UNSHARE, with(0), 0},
	"enter a namespace":             {unix.SYS_SETNS, with(none, 0), syscall.EBADF},
	"signal its parent":             {unix.SYS_KILL, parents(ofParent, 0), 0},
	"signal everybody":              {unix.SYS_KILL, with(none, 0), 0},
	"signal its group":              {unix.SYS_KILL, with(0, 0), 0},
	"signal its parent's thread":    {unix.SYS_TGKILL, parents(ofParent, ofParent, 0), 0},
	"signal a thread":               {unix.SYS_TKILL, parents(ofParent, 0), 0},
	"queue a signal":                {unix.SYS_RT_SIGQUEUEINFO, parents(ofParent, 0, 0), syscall.EFAULT},
	"have its input signal another": {unix.SYS_FCNTL, parents(0, unix.F_SETOWN, ofParent), 0},
	"open its parent":               {unix.SYS_PIDFD_OPEN, parents(ofParent, 0), syscall.EMFILE},
	"signal by a descriptor":        {unix.SYS_PIDFD_SEND_SIGNAL, with(none, 0, 0, 0), syscall.EBADF},
	"take another's descriptor":     {unix.SYS_PIDFD_GETFD, with(none, 0, 0), syscall.EBADF},
	"trace":                         {unix.SYS_PTRACE, parents(unix.PTRACE_PEEKDATA, ofParent, 0, 0), syscall.ESRCH},
	"read its parent's memory":      {unix.SYS_PROCESS_VM_READV, parents(ofParent, 0, 0, 0, 0, 0), 0},
	"write its parent's memory":     {unix.SYS_PROCESS_VM_WRITEV, parents(ofParent, 0, 0, 0, 0, 0), 0},
	"limit its parent":              {unix.SYS_PRLIMIT64, parents(ofParent, unix.RLIMIT_CORE, 0, 0), 0},
	"raise its limits":              {unix.SYS_PRLIMIT64, with(0, unix.RLIMIT_NOFILE, 1), syscall.EFAULT},
	"step forward":                  {unix.SYS_SETPRIORITY, with(unix.PRIO_PROCESS, 0, 19), 0},
	"outlive its parent":            {unix.SYS_PRCTL, with(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL)), 0},
	"be dumpable":                   {unix.SYS_PRCTL, with(unix.PR_SET_DUMPABLE, 0), 0},
	"set another filter":            {unix.SYS_SECCOMP, with(unix.SECCOMP_SET_MODE_FILTER, none, 0), syscall.EINVAL},
	"run what it wrote":             {unix.SYS_MMAP, with(0, 0, unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, none), syscall.EINVAL},
	"take memory that is shared":    {unix.SYS_MMAP, with(0, 0, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS, none), syscall.EINVAL},
	"take memory as a stack":        {unix.SYS_MMAP, with(0, 0, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_GROWSDOWN, none), syscall.EINVAL},
	"make memory executable":        {unix.SYS_MPROTECT, with(0, 0, unix.PROT_EXEC), 0},
	"use an io_uring":               {unix.SYS_IO_URING_SETUP, with(0, 0), syscall.EPERM},
	"load a program":                {unix.SYS_BPF, with(none), syscall.EPERM},
	"measure others":                {unix.SYS_PERF_EVENT_OPEN, with(0), syscall.EPERM},
	"handle its own faults":         {unix.SYS_USERFAULTFD, with(none), syscall.EPERM},
	"keep a key":                    {unix.SYS_KEYCTL, with(none), syscall.EPERM},
	"share memory":                  {unix.SYS_SHMGET, with(0, 0, 0), syscall.EINVAL},
	"mount":                         {unix.SYS_MOUNT, with(0), syscall.EPERM},
	"change its root":               {unix.SYS_CHROOT, with(uintptr(unsafe.Pointer(&nowhere[0]))), syscall.EPERM},
	"be another user":               {unix.SYS_SETUID, with(0), syscall.EPERM},
	"control a device":              {unix.SYS_IOCTL, with(none), syscall.EBADF},
	"a call that does not exist":    {100000, with(0), syscall.ENOSYS},
}

func TestAConfinedProcessCanMakeNoCallThatIsNotListed(t *testing.T) {
	var names []string
	for name := range forbiddenCalls {
		names = append(names, name)
	}
	got := callErrnos(t, "confined", names...)
	control := callErrnos(t, "limited", names...)
	for name, a := range forbiddenCalls {
		if errno, made := got[name]; !made || errno != syscall.EPERM {
			t.Errorf("%s: made %t, %v", name, made, errno)
		}
		// Without the filter each of them gets further: the test would find a hole.
		if control[name] != a.control && a.control != syscall.EPERM {
			t.Errorf("%s: in a process that is only limited: %v, want %v", name, control[name], a.control)
		}
	}
}

// The numbers of another architecture are other calls.
func TestNumbersOfAnotherArchitectureAreRefused(t *testing.T) {
	rules := program(architecture, allowed(1))
	for _, call := range []uintptr{unix.SYS_READ, unix.SYS_WRITE, unix.SYS_EXIT_GROUP} {
		if got := decide(t, rules, architecture, call); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("call %d: %#x", call, got)
		}
		for _, other := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, architecture ^ 1} {
			if got := decide(t, rules, other, call); got != unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM) {
				t.Errorf("call %d of architecture %#x: %#x", call, other, got)
			}
		}
		// The bit of the x32 interface.
		if got := decide(t, rules, architecture, call|0x40000000); got != unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM) {
			t.Errorf("call %d of x32: %#x", call, got)
		}
	}
}

func TestAHalfOfAnArgumentIsNotEnough(t *testing.T) {
	const pid = 4711
	rules := program(architecture, allowed(pid))
	for name, c := range map[string]struct {
		call uintptr
		args [6]uint64
		want bool
	}{
		"its own process":          {unix.SYS_TGKILL, [6]uint64{pid}, true},
		"with bits above":          {unix.SYS_TGKILL, [6]uint64{pid | 1<<32}, false},
		"another":                  {unix.SYS_TGKILL, [6]uint64{pid + 1}, false},
		"a thread":                 {unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD}, true},
		"a process":                {unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, false},
		"memory":                   {unix.SYS_MMAP, [6]uint64{0, 4096, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED | unix.MAP_NORESERVE}, true},
		"shared memory":            {unix.SYS_MMAP, [6]uint64{0, 4096, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED_VALIDATE | unix.MAP_ANONYMOUS}, false},
		"executable memory":        {unix.SYS_MMAP, [6]uint64{0, 4096, unix.PROT_READ | unix.PROT_EXEC}, false},
		"its limits, read":         {unix.SYS_PRLIMIT64, [6]uint64{0, 7, 0, 0x7fff00001000}, true},
		"its limits, set":          {unix.SYS_PRLIMIT64, [6]uint64{0, 7, 0x7fff00001000, 0}, false},
		"its limits, set far away": {unix.SYS_PRLIMIT64, [6]uint64{0, 7, 0x7fff00000000, 0}, false},
		"whether it blocks":        {unix.SYS_FCNTL, [6]uint64{1, unix.F_GETFL}, true},
	} {
		if got := decide(t, rules, architecture, c.call, c.args[:]...); (got == unix.SECCOMP_RET_ALLOW) != c.want {
			t.Errorf("%s: %#x", name, got)
		}
	}
}

// decide runs a filter on a call, in which all numbers are written with the highest
// byte first, as the machine of package bpf reads them.
func decide(t *testing.T, filter []bpf.Instruction, architecture uint32, call uintptr, args ...uint64) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(filter)
	if err != nil {
		t.Fatal(err)
	}
	data := binary.BigEndian.AppendUint32(nil, uint32(call))
	data = binary.BigEndian.AppendUint32(data, architecture)
	data = binary.BigEndian.AppendUint64(data, 0) // the instruction pointer
	for i := range 6 {
		var a uint64
		if i < len(args) {
			a = args[i]
		}
		data = binary.BigEndian.AppendUint32(data, uint32(a))
		data = binary.BigEndian.AppendUint32(data, uint32(a>>32))
	}
	got, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(got)
}

func TestAProcessThatStartsAnotherCannotBeTraced(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/true")
	if err := Prepare(cmd); err != nil {
		t.Fatal(err)
	}
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 0 {
		t.Errorf("dumpable %d, %v", dumpable, err)
	}
}

func TestAFilterThatTheKernelRefusesIsAnError(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// In a process whose profile forbids seccomp(2) there is no filter and no work.
	out, err := exec.Command(self, "call", "in a profile that forbids it").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "filtering system calls: ") || !strings.Contains(string(out), "CONFIG_SECCOMP_FILTER") {
		t.Errorf("%v: %s", err, out)
	}
}
