// Package binarypages gives back pages of the process's own program that only its start needed: the code
// and the tables by which packages initialize themselves, which are about half of what a started controller
// has resident.
//
// It takes nothing away: what is needed again is mapped again, mostly from the page cache. There the pages stay,
// and so what is charged to a container's cgroup is as before until the kernel takes them back. It does not touch
// a mapping that was ever written to. Start reading at Release.
package binarypages

import "context"

// AfterStart is a Runnable of a manager that gives back what the start needed, once caches are synced. That
// this cannot be done costs memory, and is no error.
type AfterStart struct{}

// Start implements manager.Runnable.
func (AfterStart) Start(context.Context) error {
	_ = Release()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: replicas that wait have started, too.
func (AfterStart) NeedLeaderElection() bool { return false }
