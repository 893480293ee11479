package controls

// writeAhead is that the inventory has the names of what a run is about to write before it
// writes.
func writeAhead() Control {
	return Control{
		Name:    "write-ahead",
		Summary: "The inventory is saved before the first write of a run.",
		file:    "reconciler/targets/kubernetes/recorder.go",
		old:     "\tw.drift.Refresh()\n\treturn w.store.Save(ctx)\n",
		by:      "\tw.drift.Refresh()\n\treturn nil\n",
		Finds:   "update-and-prune/kill-after/patch serviceaccounts",
	}
}
