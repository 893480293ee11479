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

// inventoryFormat is that the inventory of an earlier release is read.
func inventoryFormat() Control {
	return Control{
		Name:    "inventory-format",
		Summary: "The inventory that an earlier release wrote is read.",
		file:    "reconciler/targets/internal/inventory/record.go",
		old:     "const format = 1\n",
		by:      "const format = 2\n",
		Finds:   "upgrade-from-serial-25/none",
	}
}

// newerDefinitions is that the definitions of an earlier release are replaced.
func newerDefinitions() Control {
	return Control{
		Name:    "newer-definitions",
		Summary: "The definitions of our own kinds that an earlier release wrote are replaced.",
		file:    "cmd/internal/crds/crds.go",
		old:     "if err == nil && serial >= crd.Serial {",
		by:      "if err == nil && serial > 0 {",
		Finds:   "upgrade-from-serial-25/none",
	}
}
