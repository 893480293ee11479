// Package provision holds the values that the provisioning side exchanges with the
// rest: a ClusterSnapshot, which is one moment of a cluster's pools, nodes and pods, and a
// Forecast, which is what a change of pools would do to it.
//
// It computes nothing and refuses behaviour: package simulate makes forecasts,
// package engine makes them come true. Start reading at ClusterSnapshot, then Forecast.
package provision
