// Package benchmark measures whole controllers from Git to the API server: what they take of time, of
// processor time, of memory and of requests for the same repository in the same sandbox. The objects are
// those by which Flux and Poolwright were compared from the start: 70 % ConfigMaps, 10 % Deployments of
// no replica, 10 % ServiceAccounts, 5 % Roles and 5 % custom resources, in kustomizations of 200.
//
// It measures nothing in one process with the product: each controller is a process, as it is shipped.
// Absolute numbers are those of a machine; what is compared are ratios within one run.
//
// Start reading at System, which is what is measured, and at Environment.Measure.
package benchmark
