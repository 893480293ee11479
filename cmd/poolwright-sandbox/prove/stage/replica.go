package stage

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/prometheus/procfs"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/provision/sandbox/process"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
)

// replica is one of the places where processes of the controller run, one after another.
type replica struct {
	// folder has its kubeconfig and its mirrors; api is its own wire to the API server, so that
	// the API server's clients can be told apart.
	folder string
	api    *wiretap.Listener
	// client is the newest process' name in the history.
	client  string
	process *process.Process
	killed  bool
	// heal, if any, ends what keeps the process from its work, once another holds the lease than
	// holder.
	heal   func() error
	holder string
	// rejoined is set where the process must have read the lease after a place in the history.
	rejoined int
}

func (r *replica) kubeconfig() string { return filepath.Join(r.folder, "kubeconfig") }

func (r *replica) mirrors() string { return filepath.Join(r.folder, "mirrors") }

// replicas are the first one and the standby, if any.
func (s *Stage) replicas() []*replica {
	return slices.DeleteFunc([]*replica{&s.controller.replica, s.controller.standby}, func(r *replica) bool { return r == nil })
}

// StartStandby runs a second replica, and waits until it is ready to take over.
func (s *Stage) StartStandby(ctx context.Context) error {
	r := &replica{folder: filepath.Join(s.dir, "standby")}
	if err := s.tapAPI(r); err != nil {
		return err
	}
	s.controller.mu.Lock()
	s.controller.standby = r
	err := s.start(r)
	s.controller.mu.Unlock()
	if err != nil {
		return err
	}
	return s.eventually(ctx, "the standby does not read the lease", func() error { return s.readLease(r, 0) })
}

// readLease returns an error until the replica's process has read the lease after a place in
// the history.
func (s *Stage) readLease(r *replica, after int) error {
	for _, record := range s.Tap.Records() {
		q := record.Request
		if q != nil && record.N > after && q.Client == r.client && q.Kind == leases && q.Succeeded() {
			return nil
		}
	}
	return fmt.Errorf("%s has not read the lease", r.client)
}

const leases = "leases.coordination.k8s.io"

// sender is the replica whose process sent a request, nil where that has ended. The caller
// holds the lock.
func (s *Stage) sender(q history.Request) *replica {
	for _, r := range s.replicas() {
		if r.client == q.Client && !r.killed {
			return r
		}
	}
	return nil
}

// KillSender ends the process that sent a request as a crash of its node does. Wires call it.
func (s *Stage) KillSender(q history.Request) {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	if r := s.sender(q); r != nil {
		s.kill(r)
	}
}

// TerminateSender has the process that sent a request stop in its own time, as a drain of its
// node does.
func (s *Stage) TerminateSender(q history.Request) {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	if r := s.sender(q); r != nil {
		r.killed = true
		s.fail(syscall.Kill(r.process.PID(), syscall.SIGTERM))
	}
}

// PauseSender stops the process that sent a request, as a node does that starves or is
// suspended, until another replica leads.
func (s *Stage) PauseSender(ctx context.Context, q history.Request) {
	s.keepFromWork(ctx, q, func(r *replica) (heal func() error, err error) {
		pid := r.process.PID()
		return func() error { return syscall.Kill(pid, syscall.SIGCONT) }, syscall.Kill(pid, syscall.SIGSTOP)
	})
}

// CutSenderOff takes all wires from the process that sent a request, until another replica
// leads.
func (s *Stage) CutSenderOff(ctx context.Context, q history.Request) {
	s.keepFromWork(ctx, q, func(r *replica) (heal func() error, err error) {
		name := r.client
		s.Tap.Cut(name, true)
		return func() error { s.Tap.Cut(name, false); return nil }, nil
	})
}

// keepFromWork does something to the process that sent a request, if that leads.
func (s *Stage) keepFromWork(ctx context.Context, q history.Request, do func(*replica) (heal func() error, err error)) {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	r := s.sender(q)
	if r == nil {
		return
	}
	holder, err := s.holder(ctx)
	if err == nil {
		r.holder = holder
		r.heal, err = do(r)
	}
	s.fail(err)
}

// DeleteLease deletes the lease as a person does, so that two replicas may lead for a moment.
func (s *Stage) DeleteLease(ctx context.Context) error {
	s.Tap.Record(history.Event{Kind: history.LeaseDeleted})
	return s.deleteLeases(ctx)
}

func (s *Stage) deleteLeases(ctx context.Context) error {
	return s.config.Admin.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(s.System))
}

// holder is who holds the lease, empty where nobody does.
func (s *Stage) holder(ctx context.Context) (string, error) {
	var all coordinationv1.LeaseList
	if err := s.config.Admin.List(ctx, &all, client.InNamespace(s.System)); err != nil {
		return "", err
	}
	for _, l := range all.Items {
		if l.Spec.HolderIdentity != nil {
			return *l.Spec.HolderIdentity, nil
		}
	}
	return "", nil
}

// healReplicas ends what keeps processes from their work where another replica leads by now.
func (s *Stage) healReplicas(ctx context.Context) error {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	for _, r := range s.replicas() {
		if r.heal == nil {
			continue
		}
		now, err := s.holder(ctx)
		if err != nil {
			return err
		}
		if now == "" || now == r.holder {
			continue
		}
		records := s.Tap.Records()
		r.rejoined = records[len(records)-1].N
		if err := r.heal(); err != nil {
			return err
		}
		r.heal = nil
	}
	return nil
}

// rejoin waits until every replica that was kept from its work has learned that another leads.
func (s *Stage) rejoin(ctx context.Context) error {
	return s.eventually(ctx, "a former leader does not wait for the lease", func() error {
		s.controller.mu.Lock()
		defer s.controller.mu.Unlock()
		for _, r := range s.replicas() {
			if r.heal != nil {
				return fmt.Errorf("%s is still kept from its work", r.client)
			}
			if r.rejoined == 0 {
				continue
			}
			if err := s.readLease(r, r.rejoined); err != nil {
				return err
			}
		}
		return nil
	})
}

// clientOf is the process at the remote end of a connection, where there is a standby and the
// system has Linux' /proc.
func (s *Stage) clientOf(remote net.Addr) string {
	s.controller.mu.Lock()
	defer s.controller.mu.Unlock()
	if s.controller.standby == nil {
		return ""
	}
	socket := socketOf(remote)
	if socket == "" {
		return "" // the connection was closed already
	}
	for _, r := range s.replicas() {
		// A process that has just ended has no files, and sends nothing either.
		if p, err := procfs.NewProc(r.process.PID()); err == nil {
			if files, err := p.FileDescriptorTargets(); err == nil && slices.Contains(files, socket) {
				return r.client
			}
		}
	}
	return ""
}

// socketOf is the target of the file descriptor of a local connection by its address, empty where
// there is none.
func socketOf(remote net.Addr) string {
	address, ok := remote.(*net.TCPAddr)
	fs, err := procfs.NewDefaultFS()
	if !ok || err != nil {
		return ""
	}
	sockets, err := fs.NetTCP()
	if err != nil {
		return ""
	}
	for _, socket := range sockets {
		if int(socket.LocalPort) == address.Port && socket.LocalAddr.Equal(address.IP) && socket.Inode != 0 {
			return fmt.Sprintf("socket:[%d]", socket.Inode)
		}
	}
	return ""
}
