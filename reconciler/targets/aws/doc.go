// Package aws is the AWS half of one cluster: what a Cluster object declares,
// what AWS holds of it, and how the one becomes the other. What is desired of each
// type of resource, how it is read and how it is corrected is in the packages
// below internal; here is what they have in common: ownership, the inventory, what
// is unknown, what must not be written.
//
// It refuses to conclude anything from a denied or throttled request, to change
// what was not made here unless the declaration has adopt, to delete anything
// that does not carry our tags with the policy Delete, and, unless it was made
// for bootstrap, to write the controller's own role. Start reading at Target and
// at internal/resource.Kind.
package aws
