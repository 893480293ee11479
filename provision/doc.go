// Package provision holds the values in which the provisioning side speaks with
// the rest: a Fleet, which is one moment of a cluster's pools, nodes and pods, and
// a Forecast, which is what a change of pools would do to it.
//
// It computes nothing and refuses behaviour: package simulate makes forecasts,
// package engine makes them come true. Start reading at Fleet, then Forecast.
package provision
