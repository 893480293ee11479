package promises

func invariants() []Promise {
	return []Promise{
		{Sentences: []string{"What could not be read is not deleted"}, Cases: []string{"/gone/", "/error/", "refused-commits"}, Tests: []string{"reconciler/plan.TestComputeConcludesNothingFromWhatIsUnknown", "reconciler/targets/kubernetes.TestAnUnreadableKindDeletesNothingOfIt"}, Control: "problems-prune-nothing"},
		{Sentences: []string{"Intent is recorded before"}, Cases: []string{"update-and-prune/kill-after/"}, Tests: []string{"reconciler/apply.TestTheIntentCoversEverythingWrittenWhereverTheRunIsKilled", "cmd/internal/e2e.TestAFirstApplyThatIsKilledAnywhereIsFinished"}, Control: "write-ahead"},
		{Sentences: []string{"A run that finds no difference"}, Cases: []string{"first-apply", "update-and-prune"}, Tests: []string{"reconciler.TestASecondRunWritesNothing"}},
		{Sentences: []string{"Secrets are in no output"}, Cases: []string{"update-and-prune"}, Tests: []string{"reconciler/report.FuzzSecretsLeaveNoTrace"}, Control: "masked-secrets"},
		{Sentences: []string{"Git content is hostile"}, Cases: []string{"refused-commits"}, Tests: []string{"cmd/internal/child.TestAChildHasNothingAndCanOpenNothing", "cmd/poolwright-sandbox/attack.TestNoTrialOfASeedBreaksAPromise"}, Control: "cmd/poolwright-sandbox/attack.TestALimitThatIsSwitchedOffIsFound"},
		{Sentences: []string{"The engine does not run where"}, Tests: []string{"provision/engine/gate.TestGates", "provision/engine/gate.TestAnUnreachableAWSClosesEveryGateThatNeedsIt"}, Control: "leases-by-change"},
		{Sentences: []string{"An object that another manager changes back"}, Tests: []string{"reconciler/targets/kubernetes.TestTwoManagersOfOneFieldAreHeldApart"}, Control: "rival-back-off"},
		{Sentences: []string{"Everything that a person reads"}, Tests: []string{"reconciler/report.TestReportsAreTheSameBytesEveryTime", "reconciler/plan.TestComputeGivesTheSamePlanHoweverItsInputWasFilled"}},
	}
}
