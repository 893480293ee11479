// Package chart checks the Helm charts in config/chart by Helm's own packages: that they render,
// what they render without values, which values they refuse, and what others change. It has tests
// only. Start reading at render_test.go.
package chart
