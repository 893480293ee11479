package promises

func securityOfWho() []Promise {
	const area = "Who is trusted with what"
	return []Promise{
		{Area: area, Sentences: []string{"who pushes to a followed branch", "who creates a Sync in", "who edits the `Cluster` object"},
			NotPromised: "These persons are trusted; their permissions in the cluster and at the forge bound them.",
			Tests:       []string{"cmd/internal/e2e.TestNarrowPermissionsAreEnoughForWhatTheyName"}},
		{Area: area, Sentences: []string{"who opens a pull request from a branch"},
			Tests: []string{"cmd/internal/operator.TestWhatForksMayHaveWrittenIsComparedWithoutTheValuesOfSecrets", "cmd/internal/child.TestAChildHasNothingAndCanOpenNothing"}},
		{Area: area, Sentences: []string{"who opens one from a fork"}, Tests: []string{"cmd/internal/e2e.TestPullRequestsGetTheirPlan"}},
		{Area: area, Sentences: []string{"who has `action/*` on an Application"}, Tests: []string{"config.TestOnlyTheComponentConfirmHasTheActionThatConfirmsDeletions"}},
		{Area: area, Sentences: []string{"Flux's notification-controller"}, Tests: []string{"config.TestReceiversOfFluxMayPatchOnlySyncsOfTheControllersNamespace"}},
		{Area: area, Sentences: []string{"who comments on a pull request"}, Tests: []string{"reconciler/report/forge/webhook.TestEventsNameWhatChanged", "reconciler/declared.TestAConfirmationNeverComesFromARepository"}},
		{Area: area, Sentences: []string{"who sends webhooks"}, Tests: []string{"reconciler/report/forge/webhook.TestWhatIsNotVerifiedIsRefused", "reconciler/receiver.TestAFloodOfWebhooksIsAFewWritesAndTheLastOneCounts"}, Control: "webhook-signatures"},
		{Area: area, Sentences: []string{"the Git server, and what it sends"}, Tests: []string{"gitsource/gogit.TestAHostileServerCannotHoldUpOrFlood", "gitsource/gogit/internal/pack.FuzzPack"}, Control: "invalid-trees"},
		{Area: area, Sentences: []string{"the controller's role in AWS"}, Tests: []string{"config/iam.TestTheControllerIsHeldToItsRegionAndRole", "reconciler/targets/aws.TestTheControllersOwnRoleIsLeftToBootstrap"}},
		{Area: area, Sentences: []string{"a pod in the cluster"}, Tests: []string{"config.TestTheControllerReachesNoMoreThanItNeeds"}},
	}
}

func securityOfContent() []Promise {
	const git, render, others, pulls = "Reading Git", "Rendering", "No repository stops another", "What a pull request shows"
	return []Promise{
		{Area: git, Sentences: []string{"Files are read from Git objects", "There is no worktree"}, Tests: []string{"gitsource/gogit.TestSnapshotsAreReadWhileOthersAreFetched", "gitsource/gogit/internal/tree.FuzzTree"}},
		{Area: git, Sentences: []string{"Nothing is executed"}, Tests: []string{"reconciler/declared.TestKustomizationsThatReachOutAreRefusedByName", "cmd/internal/child.TestAChildHasNothingAndCanOpenNothing"}, Control: "remote-bases"},
		{Area: git, Sentences: []string{"Symbolic links cannot leave"}, Tests: []string{"reconciler/declared/manifest.TestLinksAreResolvedWithinTheTree", "gitsource/gogit.TestEntriesThatCannotBeReadFailOnlyWhoNeedsThem"}, Control: "links-within-the-tree"},
		{Area: git, Sentences: []string{"What a repository may hold", "The message has the file and line"}, Tests: []string{"gitsource/gogit.TestRepositoriesBeyondALimitAreRefused", "reconciler/declared.TestBombsAndFloodsAreLimited"}, Cases: []string{"refused-commits"}, Control: "disk-budget"},
		{Area: git, Sentences: []string{"Redirects to another host", "On one host at most ten"}, Tests: []string{"gitsource/gogit.TestCredentialsDoNotFollowARedirect", "gitsource/gogit.TestRedirectsHaveAnEnd"}},
		{Area: git, Sentences: []string{"Link-local and metadata addresses"}, Tests: []string{"gitsource/gogit/internal/remote.TestAddressesOfMetadataServicesAreNotConnectedTo"}},
		{Area: git, Sentences: []string{"`HTTPS_PROXY` and `NO_PROXY`", "Over https a proxy gets"}, Tests: []string{"gitsource/gogit/internal/remote.TestAProxyNeverGetsCredentials"}},
		{Area: git, Sentences: []string{"An ssh server is used only", "Without that nothing is sent", "SHA-1 and DSA sign nothing"}, Tests: []string{"gitsource/gogit.TestAHostKeyIsVerifiedBeforeAnythingIsSent", "gitsource/gogit.TestSHA1SignsNothing"}, Control: "host-keys"},
		{Area: git, Sentences: []string{"Over ssh nothing of this machine", "The text of its standard error"}, Tests: []string{"gitsource/gogit.TestSSHReadsNothingOfThisMachine", "gitsource/gogit.TestABrokenSSHServerKeepsTheLastSnapshot"}},
		{Area: git, Sentences: []string{"Secrets with Git credentials are read by name"}, Tests: []string{"gitsource/gogit.TestCredentials", "config.TestTheControllersRolesGrantWhatTheProcessUses"}, Control: "credentials-for-each-fetch"},
		{Area: git, Sentences: []string{"A branch is followed by fast-forward", "After a force push", "A tag is followed wherever"}, Tests: []string{"cmd/internal/e2e.TestAForcePushWaitsForAPerson", "gitsource/gogit.TestABranchIsFollowedForwardOnly", "gitsource/gogit.TestOnlyBranchesAreFollowedForwardOnly"}, Cases: []string{"refused-commits"}, Control: "fast-forward"},

		{Area: git, Sentences: []string{"Where a Sync requires signatures"}, Tests: []string{"gitsource/gogit.TestOnlySignedRevisionsAreFollowed", "reconciler.TestARefusedRevisionIsNotApplied", "cmd/internal/operator.TestARollbackIsToASignedCommitAlone", "cmd/internal/e2e.TestOnlySignedRevisionsAreApplied"}, Control: "signatures"},
		{Area: git, Sentences: []string{"No repository can declare a rollback"}, Tests: []string{"reconciler/declared.TestAConfirmationNeverComesFromARepository"}},
		{Area: git, Sentences: []string{"An artifact of Flux is unpacked only"}, Tests: []string{"gitsource/artifact.TestNothingIsUnpackedBeforeItsDigestIsChecked", "gitsource/artifact.TestHostileArchivesAreRefusedWhole", "gitsource/artifact.TestAFileBeyondTheLimitIsNotRead"}, Control: "artifact-digest"},
		{Area: git, Sentences: []string{"It is fetched from the address"}, Tests: []string{"gitsource/artifact.TestTheServerCannotLeadAnywhereElse"}, Control: "artifact-redirect"},

		{Area: render, Sentences: []string{"What Git holds is rendered in a child", "The process that runs Karpenter renders nothing"}, Tests: []string{"cmd/internal/archtest.TestTheRepositoryKeepsItsShape", "cmd/internal/operator.TestABombOnAFollowedBranchEndsOnlyItsChild"}},
		{Area: render, Sentences: []string{"The child has an empty environment", "On Linux it can make only", "It can open no file", "Where the kernel cannot enforce"}, Tests: []string{"cmd/internal/child.TestAChildHasNothingAndCanOpenNothing", "cmd/internal/child/confine.TestAConfinedProcessCanMakeNoCallThatIsNotListed", "cmd/internal/child/confine.TestAFilterThatTheKernelRefusesIsAnError"}},
		{Area: render, Sentences: []string{"On macOS, where only the commands"}, NotPromised: "The controller runs on Linux; the document lists it as a limit."},
		{Area: render, Sentences: []string{"Content that exhausts memory or time"}, Tests: []string{"cmd/internal/e2e.TestABombOnTheFollowedBranchEndsOnlyItsChild", "cmd/internal/operator.TestASlowFolderEndsByItselfAndBlamesNoOther"}, Control: "slots-are-freed"},
		{Area: render, Sentences: []string{"The response of a child is limited"}, Tests: []string{"cmd/internal/child.TestTheParentLimitsWhatAHostileChildReturns"}},
		{Area: render, Sentences: []string{"A search", "Each is held against what the container"}, Tests: []string{"cmd/poolwright-sandbox/attack.TestNoTrialOfASeedBreaksAPromise", "cmd/poolwright-sandbox/attack.TestALimitThatIsSwitchedOffIsFound"}, Control: "cmd/poolwright-sandbox/attack.TestALimitThatIsSwitchedOffIsFound"},
		{Area: render, Sentences: []string{"It lists a thousand problems", "The controller enforces this limit again"}, Tests: []string{"cmd/internal/child.TestAFolderOfManyProblemsListsSomeAndCountsAll", "cmd/internal/child.TestTheParentLimitsWhatAHostileChildReturns"}},
		{Area: render, Sentences: []string{"Its output is escaped"}, Tests: []string{"reconciler/report.TestHostileContentStaysContent", "reconciler/report.FuzzContentNeverLeavesItsCode"}},

		{Area: others, Sentences: []string{"Two children run at once", "One of the two slots", "The other is shared"}, Tests: []string{"cmd/internal/child.TestAThirdChildWaitsAndItsContextCounts", "cmd/internal/child.TestProposalsNeverTakeTheLastSlot", "cmd/internal/child.TestRepositoriesTakeTurns"}, Control: "slots-are-freed"},
		{Area: others, Sentences: []string{"A rendering that waited for a slot"}, Tests: []string{"cmd/internal/child.TestALateChildIsToBlameOnlyIfItGotTheProcessor", "cmd/internal/operator.TestAPlanIsNotChargedForTheSlotThatAnotherHas"}},
		{Area: others, Sentences: []string{"The cached results of all trees"}, Tests: []string{"reconciler/rendercache.TestAThousandHostileProposalsLeaveTheMemoryAsItWas"}, Control: "cache-budget"},
		{Area: others, Sentences: []string{"The builds of followed folders", "Each Sync has its own, by digests"}, Tests: []string{"reconciler/declared/buildcache.TestHundredsOfHostileFoldersFillTheirBudgetAtMost", "reconciler/declared.TestKeptPartsGiveWhatAFreshRenderingDoes", "cmd/internal/child.TestAChildGetsThePartsOfTheRevisionBefore"}},
		{Area: others, Sentences: []string{"The decoded revisions of all Syncs", "One of more than 24 MiB", "Runs of those take 256 MiB", "One that waits for that"}, Tests: []string{"reconciler.TestLargeRevisionsOfManyLoopsStayWithinOneCache", "reconciler.TestRunsOfUncachedRevisionsStayWithinTheirBound", "reconciler.TestWhoWaitsForMemoryCanBeInterruptedAndHoldsNone", "reconciler/controller.TestARunThatWaitsForMemoryIsTriedAgainAndHoldsNoWorker"}},
		{Area: others, Sentences: []string{"The container's memory limit is the sum"}, Tests: []string{"cmd/internal/child.TestTheContainerHasRoomForTheProcessAndItsChildren", "cmd/internal/child.TestTheArithmeticFindsAContainerThatIsTooSmall"}, Control: "cmd/internal/child.TestTheArithmeticFindsAContainerThatIsTooSmall"},
		{Area: others, Sentences: []string{"Caches of repositories have a budget", "What would exceed it is refused"}, Tests: []string{"gitsource/gogit.TestABudgetIsSharedAndNeverExceeded", "gitsource/gogit.TestACacheTakesAtMostThreeTransfersOnDisk"}, Cases: []string{"refused-commits"}, Control: "disk-budget"},
		{Area: others, Sentences: []string{"Pull requests get at most half"}, Tests: []string{"cmd/internal/operator.TestPullRequestsGetHalfOfTheDiskAndFollowedBranchesAlwaysTheOther"}},
		{Area: others, Sentences: []string{"A volume that is full, read-only"}, Cases: []string{"/disk-full/git"}, Tests: []string{"gitsource/gogit.TestAFullDiskIsSurvived", "gitsource/gogit.TestAFolderThatCannotBeWrittenToIsNotTheServersFault"}},
		{Area: others, Sentences: []string{"Followed branches share the disk", "Several large ones can leave"}, Tests: []string{"gitsource/gogit/internal/disk.TestOneCacheLeavesCapacityForSmallOnes"}},

		{Area: pulls, Sentences: []string{"What a pull request proposes is not sent"}, Tests: []string{"reconciler/targets/kubernetes.TestAPullRequestHasDriftWithFewDryRuns", "reconciler/preview.TestAStepThatChangesTooMuchIsRefusedBeforeAnyTargetIsRead"}},
		{Area: pulls, Sentences: []string{"Its comment shows live values only", "It does not reveal whether other objects"}, Tests: []string{"reconciler/targets/kubernetes.TestAPullRequestDoesNotRevealWhatTheSyncDoesNotManage", "reconciler/targets/aws.TestAPullRequestDoesNotRevealWhatTheAccountHolds"}},
		{Area: pulls, Sentences: []string{"It shows no value of a Secret"}, Tests: []string{"cmd/internal/operator.TestWhatForksMayHaveWrittenIsComparedWithoutTheValuesOfSecrets", "cmd/internal/child.TestAChildSubstitutesVariablesAndGetsNoSecret"}},
		{Area: pulls, Sentences: []string{"`${NAME}` shows the values", "The forecast names pods", "What else a comment shows"},
			NotPromised: "This is what is shown, not what is hidden.", Tests: []string{"reconciler/preview.TestACommentListsTheValuesOfParameters", "reconciler/forecasting.TestAForecastForForksIsTheSameWhateverPoolsOthersHave"}},
		{Area: pulls, Sentences: []string{"The work for pull requests has", "A thousand of them leave"}, Tests: []string{"reconciler/pullrequest.TestAThousandPullRequestsLeaveLittleBehind", "cmd/internal/operator.TestAThousandOpenPullRequestsLeaveTheLeaderAsItWas", "reconciler/pullrequest/internal/limits.TestAuthorsTakeTurns"}},

		{Area: "Secrets", Sentences: []string{"Secret data, user data, tokens"}, Tests: []string{"reconciler/report.FuzzSecretsLeaveNoTrace", "reconciler/targets/kubernetes.TestSecretsAreMaskedFromTheStart"}},
		{Area: "Secrets", Sentences: []string{"The history has differences", "A failure of it ends"}, Tests: []string{"reconciler/history/collector.TestWhatARunLeavesInTheHistory", "reconciler/history/collector.TestAFailureOfTheProgramEndsTheRecordsAndNothingElse", "reconciler/history/collector.TestATerminationDoesNotWaitForAHistoryThatCannotBeWritten"}},
		{Area: "Secrets", Sentences: []string{"The page of `poolwright ui`", "It reads no Secret"}, Tests: []string{"cmd/internal/ui.TestOnlyLoopbackAddressesAreServed", "cmd/internal/ui/server.TestASecondUseOfTheTokenEndsTheSession", "cmd/internal/ui/server.TestNothingIsServedWithoutTheCookie", "cmd/internal/ui/server.TestOnlyGetAndHeadAreAllowed", "cmd/internal/ui/page.TestNoSecretIsOnAPage"}},
		{Area: "Secrets", Sentences: []string{"They are in no log"}, Cases: []string{"update-and-prune"}, Tests: []string{"reconciler/state/sanitize.TestRedactDetectsSecretsByTheirShape", "reconciler/pullrequest.TestNoErrorHasASecret"}, Control: "masked-secrets"},
	}
}

func securityOfDeletion() []Promise {
	const area, guard = "Deletion", "Git does not switch off its own guard"
	return []Promise{
		{Area: area, Sentences: []string{"An unreachable, empty or damaged source", "Neither does one with a problem"}, Cases: []string{"/gone/git", "/truncated/git", "refused-commits"}, Tests: []string{"cmd/internal/e2e.TestABrokenRepositoryLeavesTheLastGoodState", "reconciler.TestRunOnce"}, Control: "problems-prune-nothing"},
		{Area: area, Sentences: []string{"Every deletion in Kubernetes names"}, Cases: []string{"/replace/", "/keep/"}, Tests: []string{"reconciler/targets/kubernetes.TestADeletionPlannedForOneIncarnationSparesTheNext"}, Control: "deletion-preconditions"},
		{Area: area, Sentences: []string{"AWS has no versions"}, Tests: []string{"reconciler/targets/aws.TestAThingThatMovedSinceThePlanIsLeftToTheNextRun"}},
		{Area: area, Sentences: []string{"Large deletions wait", "A confirmation quotes a token"}, Tests: []string{"cmd/internal/e2e.TestALargePruneWaitsForAPerson", "reconciler/plan.TestGuardHoldsWhatWouldDeleteTooMuch", "reconciler/plan.TestAConfirmationIsGoodForExactlyTheDeletionsThatItNamed"}, Control: "prune-percentage"},
		{Area: area, Sentences: []string{"What goes with a deletion or an update is counted", "A request is not sent when more"}, Cases: []string{"prune-with-losses/nodes-arrive/"}, Tests: []string{"reconciler/targets/kubernetes.TestNothingIsDeletedWithWhichMoreGoesThanWasPlanned", "reconciler/targets/kubernetes.TestWhatCannotBeCountedIsNotDeleted", "reconciler/targets/aws.TestNothingIsDeletedInAWSOnWhichMoreNodesLiveThanWasPlanned"}, Control: "loss-recount"},
		{Area: area, Sentences: []string{"What ends the engine (the deletion", "A confirmed loss that could not be counted", "The deletion of a suspended Sync"}, Tests: []string{"reconciler/targets/kubernetes.TestAClusterIsDeletedAfterWhatOnlyItsEngineCanDelete", "reconciler/targets/kubernetes.TestAConfirmedLossThatCannotBeCountedWaitsForTheEngine", "reconciler/controller.TestTheDeletionOfASuspendedSyncLeavesWhatItAppliedWithAnEvent"}},
		{Area: area, Sentences: []string{"What the controller runs by", "A binding that loses every", "Permissions by an aggregated ClusterRole", "A controller that may not list bindings"}, Tests: []string{"reconciler/targets/kubernetes.TestWhatTheControllerRunsByGoesAfterWhatItsEngineDeletes", "reconciler/targets/kubernetes.TestThePermissionsOfTheControllerAreKnownByTheSubjectsOfBindings"}},
		{Area: area, Sentences: []string{"The inventory records of a confirmed deletion", "A later run sends it again"}, Tests: []string{"reconciler/targets/kubernetes.TestWhatWasConfirmedGoesOnForAsMuchAsWasConfirmed", "reconciler/plan.TestAnAllowanceIsWorthWhatItAllowed"}},
		{Area: area, Sentences: []string{"While the newest revision cannot be loaded"}, Tests: []string{"reconciler/controller.TestWhatWaitsStaysInTheStatusWhileNothingCanBeRead", "reconciler/controller.TestAProblemInTheRepositoryKeepsNoTokenGood"}},
		{Area: area, Sentences: []string{"Updates that lose something in another way", "Creations are not held", "A NetworkPolicy, a ResourceQuota"},
			NotPromised: "Who can merge can do that: the document lists it as a limit."},
		{Area: area, Sentences: []string{"An update of a role, an instance profile"}, Tests: []string{"reconciler/targets/aws.TestAnUpdateThatTakesWhatNodesLiveOnWaitsAsADeletionDoes"}},
		{Area: area, Sentences: []string{"An object with a Sync's label", "Where the inventory is lost"}, Tests: []string{"reconciler/targets/kubernetes.TestALostInventoryIsRebuiltAndDeletesNothingUnconfirmed", "reconciler/targets/kubernetes.TestWhatATenantMarksAsOursNeedsNoConfirmation"}, Control: "rebuilt-inventory"},

		{Area: guard, Sentences: []string{"A commit that relaxes a Sync"}, Tests: []string{"reconciler/syncpolicy.TestWhatRelaxesASyncIsNamed", "cmd/internal/e2e.TestACommitCannotSwitchOffTheGuardThatItNeeds"}},
		{Area: guard, Sentences: []string{"Confirmations that come from a repository"}, Tests: []string{"reconciler/declared.TestAConfirmationNeverComesFromARepository"}},
		{Area: guard, Sentences: []string{"A confirmation token has 160 bits", "An author of commits cannot make"}, Tests: []string{"reconciler/plan.TestATokenHas160BitsOfTheWholeContent", "reconciler/plan.TestATokenIsGoodInOneScopeOnly"}},
		{Area: guard, Sentences: []string{"A token serves once", "What it confirmed to delete is recorded"}, Tests: []string{"reconciler/controller.TestATokenConfirmsOnce", "reconciler/controller.TestATokenIsUsedUpByAProcessThatDied"}},
		{Area: guard, Sentences: []string{"Where the status of the Sync cannot be written"}, NotPromised: "The document lists it as a limit.", Tests: []string{"reconciler/controller.TestATokenIsUsedUpThoughTheStatusCouldNotBeWritten"}},
		{Area: guard, Sentences: []string{"While something waits, what of a confirmation", "A quoted token for which nothing waits"}, Tests: []string{"reconciler/controller.TestAPartOfAConfirmationThatFitsNothingIsReported", "reconciler/controller.TestATokenThatIsQuotedWhileTheSyncIsReadyIsVoid"}},
		{Area: guard, Sentences: []string{"A Sync takes over its own object"}, Tests: []string{"reconciler/targets/kubernetes.TestASyncTakesOverItselfFromTheInstallationAlone"}},
	}
}

func securityOfProcess() []Promise {
	const leader, sources, where = "Only the leader writes", "Signatures, artifacts, the page and the history", "Where it runs"
	return []Promise{
		{Area: leader, Sentences: []string{"A write to Kubernetes, AWS or a forge", "That time is read from the clock"}, Cases: []string{"two-replicas/pause/"}, Tests: []string{"cmd/internal/leaderelection.TestWritesPassFromARenewalUntilItsDeadline", "cmd/internal/leaderelection.TestTheClockThatCountsMostDecides", "provision/engine.TestOnlyALeaderChangesWhatIsInAWS"}, Control: "fence"},
		{Area: leader, Sentences: []string{"Releasing the lease", "The lease is released when no write"}, Cases: []string{"two-replicas/terminate|lease-deleted/"}, Tests: []string{"cmd/internal/leaderelection.TestGivingTheLeaseAwayClosesTheFence", "cmd/internal/leaderelection.TestTheLeaseIsGivenAwayWhenNoWriteIsUnderWay", "cmd/internal/leaderelection.TestALeaseThatAnotherHasByNowIsNotGivenAway"}, Control: "lease-release"},
		{Area: leader, Sentences: []string{"Any replica writes the CRDs"}, Tests: []string{"reconciler/receiver.TestWhicheverReplicaReceivesAWebhookTheSyncRecordsIt", "provision/engine.TestInstallCRDsTwiceWritesOnce"}},
		{Area: leader, Sentences: []string{"A pause of the whole virtual machine", "The preconditions of the writes cover"}, NotPromised: "No clock of the process can measure such a pause; what covers it is proved for deletions.", Cases: []string{"/replace/"}, Control: "deletion-preconditions"},

		{Area: sources, Sentences: []string{"Where `spec.source.git.verify` is set"}, Tests: []string{"gitsource/gogit.TestOnlySignedRevisionsAreFollowed", "gitsource/gogit.TestSignedTags"}, Control: "signatures"},
		{Area: sources, Sentences: []string{"That Secret is read before each fetch"}, Tests: []string{"gitsource/gogit.TestKeysAreReadBeforeEachFetch", "gitsource/gogit.TestAKeyMayExpireOrBeRevokedBetweenTwoFetches"}},
		{Area: sources, Sentences: []string{"Of the artifact of a source of Flux", "Its size is limited"}, Tests: []string{"gitsource/artifact.TestNothingIsUnpackedBeforeItsDigestIsChecked", "gitsource/artifact.TestHostileArchivesAreRefusedWhole"}, Control: "artifact-digest"},
		{Area: sources, Sentences: []string{"Credentials and signatures are Flux's"}, NotPromised: "Flux verifies them, and Poolwright has the digest alone."},
		{Area: sources, Sentences: []string{"`poolwright ui` listens on loopback"}, Tests: []string{"cmd/internal/ui/server.TestOnlyGetAndHeadAreAllowed", "cmd/internal/ui/server.TestAnotherHostIsRefused"}},
		{Area: sources, Sentences: []string{"Its address has a token", "A second use ends the session"}, Tests: []string{"cmd/internal/ui/server.TestTheTokenIsExchangedOnceAndIsGoneFromTheAddress", "cmd/internal/ui/server.TestASecondUseOfTheTokenEndsTheSession"}},
		{Area: sources, Sentences: []string{"The price list in that namespace"}, Tests: []string{"provision/pricelist/published.TestNoReservationIsAmongThePrices"}},
		{Area: sources, Sentences: []string{"The history is in ConfigMaps"}, Tests: []string{"reconciler/history/collector.TestWhatARunLeavesInTheHistory", "reconciler/targets/kubernetes.TestSecretsAreMaskedFromTheStart"}},
		{Area: sources, Sentences: []string{"Who may read them has the names"}, NotPromised: "The document lists it as a limit."},

		{Area: where, Sentences: []string{"The engine's cluster and account are verified"}, Tests: []string{"provision/engine/gate.TestGates", "provision/engine/gate.TestIdentityKeepsOurCredentialsAndTrustsOnlyTheCAThatEKSNames"}},
		{Area: where, Sentences: []string{"The image is one static binary", "It runs as user 65532"}, Tests: []string{"config.TestTheControllerRunsWithTheLeastThatAPodCanHave"}},
		{Area: where, Sentences: []string{"A NetworkPolicy denies egress", "Instance metadata is not reachable", "It admits ingress"}, Tests: []string{"config.TestTheControllerReachesNoMoreThanItNeeds"}},
		{Area: where, Sentences: []string{"A proxy or a server on another port", "The cluster's network must enforce"}, NotPromised: "It is a requirement of the cluster."},
		{Area: where, Sentences: []string{"The controller accepts no AWS endpoint"}, Tests: []string{"provision/engine.TestSettingsValidate"}},
		{Area: where, Sentences: []string{"The sandbox listens on loopback"}, Tests: []string{"provision/sandbox/gitserver.TestARealGitServerTakesPushesAndPullRequests"}},
	}
}
