//go:build !linux

package binarypages

// Release does nothing: only Linux reports what is mapped.
func Release() error { return nil }
