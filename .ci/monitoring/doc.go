// Package monitoring reads the alerts and dashboards of config/monitoring, for the tests beside it and for the
// command that records the metrics of a demo. The tests have Prometheus' own parser and engine read every query and run it
// on the recording. Of Prometheus no more than package promql is imported: its storage and its package of rules take minutes to
// build.
//
// Start reading at queries.go.
package monitoring
