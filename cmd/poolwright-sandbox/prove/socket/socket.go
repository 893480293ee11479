// Package socket finds out which process of this machine is at the other end of a connection.
//
// It refuses to assume one: what it cannot read in /proc is no process. Start reading at Of.
package socket

import (
	"fmt"
	"net"
	"slices"

	"github.com/prometheus/procfs"
)

// Socket is the target of a file descriptor in /proc, empty where there is none.
type Socket string

// Of is the socket of this machine at an address, empty where the connection was closed already, and on a system
// without Linux' /proc.
func Of(remote net.Addr) Socket {
	address, ok := remote.(*net.TCPAddr)
	fs, err := procfs.NewDefaultFS()
	if !ok || err != nil {
		return ""
	}
	sockets, err := fs.NetTCP() //nolint:staticcheck // Netlink, which replaces it, is a further dependency for one lookup.
	if err != nil {
		return ""
	}
	for _, socket := range sockets {
		if int(socket.LocalPort) == address.Port && socket.LocalAddr.Equal(address.IP) && socket.Inode != 0 {
			return Socket(fmt.Sprintf("socket:[%d]", socket.Inode))
		}
	}
	return ""
}

// OpenedBy reports whether a process has the socket open. One that has just ended has no files, and sends
// nothing either.
func (s Socket) OpenedBy(pid int) bool {
	p, err := procfs.NewProc(pid)
	if s == "" || err != nil {
		return false
	}
	files, err := p.FileDescriptorTargets()
	return err == nil && slices.Contains(files, string(s))
}
