package binarypages

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Release has the kernel unmap the pages of the program's code and constants. It returns an error where
// they could not be found, or not all be given back; the process goes on as before.
func Release() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the program: %w", err)
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("reading what is mapped: %w", err)
	}
	defer func() { _ = smaps.Close() }()
	found, err := mappings(smaps, program)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range found {
		if _, _, e := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED); e != 0 {
			errs = append(errs, fmt.Errorf("giving back pages of the program: %w", e))
		}
	}
	return errors.Join(errs...)
}

// addresses are a range of them.
type addresses struct{ start, end uintptr }

// mappings are those of a file, by proc_pid_smaps(5), that cannot be written to and of which no page was:
// what was written, as by a loader or a debugger, is in no file.
func mappings(smaps io.Reader, file string) ([]addresses, error) {
	var all []addresses
	var now addresses
	eligible, unwritten := false, false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(string(lines.Bytes()))
		if len(fields) < 2 {
			continue
		}
		name, isField := strings.CutSuffix(fields[0], ":")
		if !isField {
			start, end, ok := strings.Cut(fields[0], "-")
			low, err := strconv.ParseUint(start, 16, 64)
			high, err2 := strconv.ParseUint(end, 16, 64)
			if err := errors.Join(err, err2); !ok || err != nil {
				return nil, fmt.Errorf("reading what is mapped: %q: %w", lines.Text(), err)
			}
			now, unwritten = addresses{uintptr(low), uintptr(high)}, false
			eligible = len(fields) == 6 && fields[5] == file && len(fields[1]) == 4 && fields[1][1] == '-'
			continue
		}
		// Of the two, which come in this order, the first counts present pages alone, and the second those that
		// were written and then swapped out.
		switch name {
		case "Anonymous":
			unwritten = fields[1] == "0"
		case "Swap":
			if eligible && unwritten && fields[1] == "0" {
				all = append(all, now)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading what is mapped: %w", err)
	}
	return all, nil
}
