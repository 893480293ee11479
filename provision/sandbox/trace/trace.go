// Package trace is what happened in a sandbox while a controller ran in it, as data:
// the requests of every wire, the commits, the starts and ends of processes and what was
// found in the cluster, all in one order.
//
// It only describes: provision/sandbox/wiretap and whoever runs a scenario record a trace,
// and provision/sandbox/trace/oracle checks it. Start reading at Record.
package trace

import (
	"slices"
	"strings"
	"time"
)

// Wire is a way by which requests leave a process.
type Wire string

// The wires.
const (
	Kubernetes Wire = "kubernetes"
	AWS        Wire = "aws"
	Git        Wire = "git"
	Forge      Wire = "forge"
)

// Record is one thing that happened: a request or an event.
type Record struct {
	// N is its place in the order of all that happened, from 1. Done is the place of a
	// request's end in the same order, 0 while it has none.
	N    int `json:"n"`
	Done int `json:"done,omitempty"`
	// Begin and End are the times of both.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end,omitzero"`
	// One of both is set.
	Request *Request `json:"request,omitempty"`
	Event   *Event   `json:"event,omitempty"`
}

// Request is what one request was, without its content.
type Request struct {
	Wire Wire `json:"wire"`
	// Client is the process that sent it, as in Event.Client.
	Client string `json:"client"`
	// Verb is Kubernetes', an operation of AWS, or a method
	// of HTTP in lower case.
	Verb string `json:"verb"`
	// Kind is a resource with its group and subresource, a service of AWS, or a path
	// without its names.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// UID is that of the object in the response.
	UID string `json:"uid,omitempty"`
	// Gone is whether the object is, after the request.
	Gone bool `json:"gone,omitempty"`
	// Instances are those of EC2 that the request or its response names; of a NodeClaim, the
	// one of its status.
	Instances []string `json:"instances,omitempty"`
	// Offerings are those that a launch requests, each an instance type with a subnet and a
	// capacity type, and Refused those of them for which there was no capacity.
	Offerings []string `json:"offerings,omitempty"`
	Refused   []string `json:"refused,omitempty"`
	// Holder is the holder that a Lease was to get; it is nil in other requests, and empty
	// where the lease was released.
	Holder *string `json:"holder,omitempty"`
	// DryRun is whether the server is to change nothing.
	DryRun bool `json:"dryRun,omitempty"`
	// Status is that of the server's response, 0 where the request never reached the server.
	Status int `json:"status,omitempty"`
	// Secrets are the names of the planted secrets that the request had in it.
	Secrets []string `json:"secrets,omitempty"`
	// Fault is the fault that this request met.
	Fault string `json:"fault,omitempty"`
}

// Succeeded reports whether the server carried the request out.
func (r *Request) Succeeded() bool { return r.Status >= 200 && r.Status < 300 }

// writing are the verbs of Kubernetes that change something.
var writing = []string{"create", "update", "patch", "delete", "deletecollection"}

// Writes reports whether the request is one of Kubernetes, AWS or a forge that changes
// something. Reviews of permissions and of tokens store nothing.
func (r *Request) Writes() bool {
	if r.DryRun {
		return false
	}
	switch r.Wire {
	case Forge:
		return r.Verb != "get"
	case AWS:
		return !slices.ContainsFunc(reading, func(verb string) bool { return strings.HasPrefix(r.Verb, verb) })
	case Kubernetes:
		return slices.Contains(writing, r.Verb) && !slices.Contains(reviews, r.Kind)
	case Git:
	}
	return false
}

// reading begin the names of AWS' operations that change nothing.
var reading = []string{"Describe", "Get", "List", "Receive", "Assume", "Simulate"}

// VerbText is a verb for a person, with a dry run in brackets.
func VerbText(verb string, dryRun bool) string {
	if dryRun {
		return verb + " (dry run)"
	}
	return verb
}

var reviews = []string{
	"selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io",
	"subjectaccessreviews.authorization.k8s.io", "tokenreviews.authentication.k8s.io",
}

// Object is the key of the object that the request is for.
func (r *Request) Object() Object { return Object{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name} }

// Object names an object of Kubernetes. Kind is as in Request.
type Object struct{ Kind, Namespace, Name string }

// String is kind namespace/name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}
