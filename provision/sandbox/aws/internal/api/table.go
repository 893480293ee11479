// Package api is what the services of the emulated AWS have in common: a call
// with its input, tokens of pages and errors, the tables in which a service lists
// its operations, and the account with its ARNs, identifiers and clock.
package api

import "time"

// Operation is one line of a service's table.
type Operation struct {
	Params          []string      // patterns of all the form or path parameters it takes
	Read            bool          // only reads: may serve dry runs and stale snapshots by itself
	Unlocked        bool          // takes the account's lock itself, because it waits
	RateLimitBucket string        // bucket of the rate limits, "" means the reads' or the writes'
	Before          time.Duration // how long it takes before it has any effect
	Run             func(*Call) (any, error)
}

// Authorization is what a call requires of IAM: which actions, on what. There is
// one for every operation that is emulated, empty only where AWS requires nothing.
type Authorization func(*Call) []AuthorizationRequest

// AuthorizationRequest is one action that a call requires of IAM.
type AuthorizationRequest struct {
	Action, Resource string
	Tags             map[string]string   // of the resource, where it exists
	RequestTags      map[string]string   // tags that the request gives it
	Keys             []string            // of tags that the request takes away
	Context          map[string][]string // the service's own condition keys
}

// Table is what a service can do, by the names of its operations.
type Table struct {
	Operations     map[string]Operation
	Authorizations map[string]Authorization
	// Required are the members that the service's model marks as required, by
	// their names at the wire; # stands for a position in a list, whose elements
	// must have what follows. What a REST path holds is not here: a path without
	// it is no operation's.
	Required map[string][]string
}

// Anything requires an action that has no resources.
func Anything(action string) Authorization {
	return func(*Call) []AuthorizationRequest { return []AuthorizationRequest{{Action: action, Resource: "*"}} }
}

// AlsoTags requires a second action, for an action that tags, where a request also tags
// what it makes.
func (q AuthorizationRequest) AlsoTags(action string) []AuthorizationRequest {
	if len(q.RequestTags) == 0 {
		return []AuthorizationRequest{q}
	}
	second := AuthorizationRequest{Action: action, Resource: q.Resource, Tags: q.Tags, RequestTags: q.RequestTags}
	return []AuthorizationRequest{q, second}
}
