// Command reaper outlives its parent by a moment and cleans up after it. The
// parent holds a pipe to its standard input and writes what exists; when the
// pipe ends (the parent closed it, exited, crashed or got SIGKILL: the kernel
// closes it in every case), the reaper kills the process groups that are still
// listed, waits until they are gone, removes the folder, and exits.
//
// Lines, each ending in a newline:
//
//	watch <pgid>    this process group must not outlive the parent
//	unwatch <pgid>  it ended and its number may be reused
//	remove <path>   delete this folder at the end
//	keep            delete nothing after all
//
// It refuses a line that it does not support, a group number below 2 and a relative
// path, because each would make it kill or delete something else. It uses only the
// standard library and is started from its own small file, so that no state of the
// parent can take it down.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	// Ctrl-C and a closing terminal reach the whole session; the pipe alone decides when
	// to act.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if err := run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "reaper:", err)
		os.Exit(1)
	}
}

// estate is what the parent leaves behind.
type estate struct {
	groups map[int]bool
	folder string
}

func run(orders io.Reader) error {
	left, bad := read(orders)
	end(left.groups)
	if left.folder != "" {
		if err := removeAll(left.folder); err != nil {
			return err
		}
	}
	return bad
}

// read follows the orders until they end. A bad line is recorded, not fatal: the groups
// must be ended all the same.
func read(orders io.Reader) (estate, error) {
	left := estate{groups: map[int]bool{}}
	var bad error
	lines := bufio.NewScanner(orders)
	for lines.Scan() {
		if err := left.follow(lines.Text()); err != nil && bad == nil {
			bad = err
		}
	}
	return left, bad
}

func (e *estate) follow(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "watch", "unwatch":
		group, err := strconv.Atoi(rest)
		if err != nil || group < 2 {
			return fmt.Errorf("reading %q: it must be a process group above 1", line)
		}
		if verb == "unwatch" {
			delete(e.groups, group)
		} else {
			e.groups[group] = true
		}
	case "remove":
		if !filepath.IsAbs(rest) || filepath.Clean(rest) == "/" {
			return fmt.Errorf("reading %q: it must be the absolute path of a folder", line)
		}
		e.folder = rest
	case "keep":
		e.folder = ""
	default:
		return fmt.Errorf("reading %q: no such order", line)
	}
	return nil
}

// end kills the groups and waits until the kernel has them no more. Their processes
// were the parent's children: init collects them now, at once or, in some containers, a
// second later or never. What is still listed after three seconds is dead but
// uncollected, and writes no more files.
func end(groups map[int]bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 300 {
		for group := range groups {
			if err := syscall.Kill(-group, syscall.SIGKILL); err != nil {
				delete(groups, group)
			}
		}
		if len(groups) == 0 {
			return
		}
		<-tick.C
	}
}

// removeAll tries again for a second: a dying process may have written a last
// file into a folder that was being emptied.
func removeAll(folder string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var err error
	for range 20 {
		if err = os.RemoveAll(folder); err == nil {
			return nil
		}
		<-tick.C
	}
	return err
}
