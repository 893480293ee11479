//go:build linux && !amd64 && !arm64

package confine

const architecture = 0

func architectureRules() []rule { return nil }
