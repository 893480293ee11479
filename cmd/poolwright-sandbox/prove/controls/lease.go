package controls

// fence is that a replica writes to the API server only while it certainly leads.
func fence() Control {
	return Control{
		Name:    "fence",
		Summary: "A replica that has not renewed its lease in time sends no write to the API server.",
		file:    "cmd/internal/operator/run.go",
		old:     "\ta.cfg.REST = a.fence.Config()\n",
		by:      "\t_ = a.fence.Config()\n",
		Finds:   "two-replicas/pause/(patch configmaps|git post)",
	}
}

// release is that a lease that was given back is over.
func release() Control {
	return Control{
		Name:    "lease-release",
		Summary: "A lease that is given back ends the permission to write, as one that was taken does.",
		file:    "cmd/internal/leaderelection/lock.go",
		old:     "\tif err == nil {\n\t\tl.fence.found(l.isHolder(now))\n\t}\n",
		by:      "\tif err == nil { // a release counts as a renewal\n\t\tl.fence.open(at, term, LeaseDuration)\n\t\treturn now, nil\n\t}\n",
		test:    "cmd/internal/leaderelection.TestGivingTheLeaseAwayClosesTheFence",
	}
}

// foreignLease is that a replica gives back only what is its own.
func foreignLease() Control {
	return Control{
		Name:    "foreign-lease",
		Summary: "A replica that was cut off does not give back the lease that another one has by now.",
		file:    "cmd/internal/leaderelection/lock.go",
		old:     "if !l.fence.holds() {",
		by:      "if !l.fence.holds() && ctx == nil {",
		test:    "cmd/internal/leaderelection.TestALeaseThatAnotherHasByNowIsNotGivenAway",
	}
}
