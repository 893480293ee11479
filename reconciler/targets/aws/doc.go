// Package aws is the AWS half of one cluster: what a Cluster object declares,
// what AWS holds of it, and how the one becomes the other. Each type of
// resource is one file (role.go, queue.go, rule.go …) that is what is
// wanted, how it is read, and how it is corrected; everything that they have in
// common (ownership, inventory, what cannot be known, what must not be written)
// is in target.go and the files beside it.
//
// It refuses to conclude anything from a denied or throttled request, to change
// what was not made here unless the declaration says adopt, to delete anything
// that does not carry our tags with the policy Delete, and, unless it was made
// for bootstrap, to write the controller's own role. Start reading at Target and
// at kind.
package aws
