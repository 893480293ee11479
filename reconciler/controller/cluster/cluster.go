// Package cluster follows the Cluster object: whether the engine runs in this process and with
// which settings, what blocks it, and what the status of the object states of the engine and
// of AWS.
//
// It refuses to change settings under a running engine: Karpenter's metrics register once a
// process, so that the process is started anew for that. Start reading at Supervisor.
package cluster

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Config is what a Supervisor needs of its process.
type Config struct {
	// REST reaches the API server, and Live reads it without a cache.
	REST *rest.Config
	Live client.Client
	// OwnLease is the lease of this controller: that of another Karpenter closes a gate.
	OwnLease types.NamespacedName
	// Restart ends the process so that it is executed anew.
	Restart func()
	Log     logr.Logger
}

// Supervisor decides whether the engine runs in this process. Its fields are not changed once
// it is in use.
type Supervisor struct {
	Config
	// Desired is what was desired when the process started.
	Desired Desired
	// AWS are the statuses that Syncs reported of AWS.
	AWS *AWSStatuses

	// blocked is why the engine does not run although it is enabled.
	blocked *Blocked
	// gateOff is why the engine runs without a feature gate that is declared.
	gateOff *Blocked
	started time.Time
}

// New makes the Supervisor of a process that started now, when a Cluster declared what is
// desired.
func New(config Config, desired Desired, now time.Time) *Supervisor {
	return &Supervisor{Config: config, Desired: desired, AWS: newAWSStatuses(), started: now}
}

// Block records why the engine does not run in this process. Call it before AddTo.
func (s *Supervisor) Block(by *Blocked) { s.blocked = by }

// Running reports whether the engine runs in this process.
func (s *Supervisor) Running() bool { return s.Desired.EngineOn && s.blocked == nil }
