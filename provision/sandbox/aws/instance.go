package aws

import "github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2"

// State is where an instance is in its life.
type State = ec2.State

// The states that instances go through here, in this order; "stopping" and
// "stopped" come between only where somebody stops them.
const (
	Pending      = ec2.Pending
	Running      = ec2.Running
	ShuttingDown = ec2.ShuttingDown
	Terminated   = ec2.Terminated
)

// Instance is a copy of one instance, as it was at that moment.
type Instance = ec2.Instance

// Offering is an instance type in a zone under a capacity type; an empty field
// stands for all.
type Offering = ec2.Offering
