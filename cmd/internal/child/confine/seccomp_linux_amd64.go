package confine

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_X86_64

// archSetFS is arch_prctl(2)'s ARCH_SET_FS, by which a thread finds what is its own.
const archSetFS = 0x1002

func architectureRules() []rule {
	return []rule{{unix.SYS_ARCH_PRCTL, []condition{equals(0, archSetFS)}}}
}
