package controls

// slotsAreFreed is that the slot of a child is free again once it has ended.
func slotsAreFreed() Control {
	return Control{
		Name:    "slots-are-freed",
		Summary: "The slot of a child that renders is free again once the child has ended, whatever ended it.",
		file:    "cmd/internal/child/semaphore.go",
		old:     "return func() { <-s.all; release() }, nil",
		by:      "return release, nil",
		Finds:   "refused-commits/keep",
	}
}
