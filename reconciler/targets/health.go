package targets

import "github.com/poolwright/poolwright/reconciler/state"

// Health is what the health checks of a target found. The zero value is that of no check.
type Health struct {
	// Observed is false until the objects to check were determined.
	Observed bool
	// Checked is how many objects have to be healthy.
	Checked int
	// Unhealthy is how many of them are not, Failed how many of these have failed.
	Unhealthy, Failed int
	// First is the first of those that have failed, or where none has, of those that are
	// not healthy, by key; zero where all are.
	First Unhealthy
}

// Unhealthy is an object that has to be healthy and is not.
type Unhealthy struct {
	Key state.Key
	// Reason is what its status has of it; others wrote it.
	Reason string
}
