package scenarios

// All are all of them, in the order in which they are run and printed.
func All() []Scenario {
	return append([]Scenario{
		firstApply(), update(), refusedCommits(), pruneWithLosses(), syncDeleted(), syncOrphaned(), pullRequest(), twoReplicas(), reviewedByTwo(),
		prerequisitesMade(), prerequisitesChanged(), scaleUp(), scaleUpAgain(), scaleDown(), nodeUsedAgain(), nodeNeverOffers(), sharingChanged(), interruption(),
	}, upgrades()...)
}
