package promises

func gitFaults() []Promise {
	return []Promise{
		{Area: "Git", Fault: "The server is down, resets connections in the middle of a pack, or is away for long", Outcome: "The last revision stays and its drift is corrected; the age of the source is reported; nothing is pruned",
			Cases:   []string{"/gone/git", "/truncated/git", "/error/git", "/slow/git"},
			Tests:   []string{"cmd/internal/e2e.TestATroubledServerLeavesTheLastGoodState", "gitsource/gogit.TestABrokenServerKeepsTheLastSnapshot", "reconciler.TestASourceThatFailsLaterLeavesTheLastRevisionInForce"},
			Control: "last-good-revision"},
		{Area: "Git", Fault: "Status 401 or 403, a credential that expires", Outcome: "It is reported, retried with a back-off, and works again after a rotation without a restart",
			Tests:   []string{"cmd/internal/e2e.TestWrongCredentialsLeaveTheLastGoodState", "gitsource/gogit.TestCredentials"},
			Control: "credentials-for-each-fetch"},
		{Area: "Git", Fault: "A force push to another history", Outcome: "It is not followed until a person accepts it; the last state stays",
			Cases:   []string{"refused-commits"},
			Tests:   []string{"cmd/internal/e2e.TestAForcePushWaitsForAPerson", "gitsource/gogit.TestABranchIsFollowedForwardOnly"},
			Control: "fast-forward"},
		{Area: "Git", Fault: "The branch is deleted, the repository emptied, the path removed", Outcome: "Nothing is pruned",
			Tests:   []string{"cmd/internal/e2e.TestABrokenRepositoryLeavesTheLastGoodState", "reconciler.TestASourceThatCannotBeReadPrunesNothing"},
			Control: "stale-prunes-nothing"},
		{Area: "Git", Fault: "A commit removes more than the Sync's percentage of its objects, and at least ten, or all", Outcome: "All of its deletions wait for a confirmation",
			Tests:   []string{"cmd/internal/e2e.TestALargePruneWaitsForAPerson", "reconciler/plan.TestGuardHoldsWhatWouldDeleteTooMuch"},
			Control: "prune-percentage"},
		{Area: "Git", Fault: "A pack is corrupt, an object truncated, a tree not what Git writes", Outcome: "The fetch is refused; a damaged mirror is discarded and cloned anew",
			Cases:   []string{"/truncated/git"},
			Tests:   []string{"gitsource/gogit.TestADamagedMirrorIsClonedAnew", "gitsource/gogit.TestTreesThatNoHonestRepositoryHoldsAreRefused", "gitsource/gogit/internal/pack.FuzzPack"},
			Control: "invalid-trees"},
		{Area: "Git", Fault: "A repository of a gigabyte, of 200,000 files, with a blob of 100 MB, with deltas that inflate", Outcome: "It is refused before memory or disk grows",
			Cases:   []string{"refused-commits"},
			Tests:   []string{"gitsource/gogit.TestABombIsFoundBeforeItGoesOff", "gitsource/gogit.TestRepositoriesBeyondALimitAreRefused", "gitsource/gogit.TestABudgetIsSharedAndNeverExceeded"},
			Control: "disk-budget"},
		{Area: "Git", Fault: "Symbolic links out of the tree, submodules, pointers of LFS, invalid names of files and references", Outcome: "They are refused by name; nothing outside is read",
			Tests:   []string{"gitsource/gogit.TestTreesThatNoHonestRepositoryHoldsAreRefused", "gitsource/gogit.TestEntriesThatCannotBeReadOnlyTroubleWhoNeedsThem", "reconciler/declared/manifest.TestLinksAreResolvedWithinTheTree", "gitsource/gogit/internal/refs.FuzzRefName"},
			Control: "links-within-the-tree"},
		{Area: "Git", Fault: "A commit without a signature, with a wrong one, or by a revoked key",
			NotPromised: "Signatures of commits are not verified: the branch is protected at the forge, and followed by fast-forward only."},
		{Area: "Git", Fault: "The controller's clock is an hour off", Outcome: "Leases of others count by their changes, the own one by the time that has passed",
			Tests:   []string{"provision/engine/gate.TestALeaseThatIsRenewedHasALeaderWhateverItsClock", "cmd/internal/leaderelection.TestTheClockThatCountsMostDecides", "cmd/internal/bootstrap.TestALeaseIsInheritedOnlyWhenNobodyRenewsIt"},
			Control: "leases-by-change"},
	}
}

func renderFaults() []Promise {
	return []Promise{
		{Area: "Rendering", Fault: "Invalid YAML, keys twice, aliases that multiply, two objects of one name, unknown fields", Outcome: "One problem with file and line; nothing is deleted, other Syncs go on",
			Cases:   []string{"refused-commits"},
			Tests:   []string{"cmd/internal/e2e.TestOneBadFileStopsNoOther", "reconciler/declared.TestBombsAndFloodsAreLimited"},
			Control: "mistakes-prune-nothing"},
		{Area: "Rendering", Fault: "Helm charts, exec plugins, remote resources, file:// and commands in values", Outcome: "They are refused by name; no process and no socket is opened",
			Tests:   []string{"reconciler/declared.TestKustomizationsThatReachOutAreRefusedByName", "cmd/internal/child.TestAChildHasNothingAndCanOpenNothing"},
			Control: "remote-bases"},
		{Area: "Rendering", Fault: "A panic or an endless loop of the renderer", Outcome: "It ends at its deadline, and no other Sync waits for it",
			Tests:   []string{"cmd/internal/wire.TestASlowFolderEndsByItselfAndBlamesNoOther", "cmd/internal/child.TestASlotIsFreeAgainWhateverEndedItsChild", "reconciler/declared/render.TestABuildThatPanicsIsAnErrorAndTheNextOneRuns"},
			Control: "slots-are-freed"},
	}
}

func kubernetesFaults() []Promise {
	return []Promise{
		{Area: "API server", Fault: "It is away, or returns errors and timeouts, for a while", Outcome: "The engine disrupts nothing while its caches may be old; everything goes on afterwards",
			Cases:   []string{"/gone/kubernetes", "/error/kubernetes", "/timeout/kubernetes", "/slow/kubernetes"},
			Tests:   []string{"cmd/internal/e2e.TestOutagesOfTheWorldAreOutlived", "cmd/internal/e2e.TestALongOutageOfTheAPIServerLosesNothing", "provision/engine/freshness.TestAfterAnOutageEveryCacheMustCatchUpFirst"},
			Control: "fresh-caches"},
		{Area: "API server", Fault: "Status 429 with Retry-After: its priority levels are full", Outcome: "It is honoured; requests in flight are bounded; nothing is lost",
			Cases:   []string{"/throttled/kubernetes"},
			Tests:   []string{"reconciler/targets/kubernetes.TestAThrottledWriteIsRetriedAfterRetryAfter", "reconciler/targets/kubernetes.TestAnAPIServerThatRefusesForAWhileIsNeitherStormedNorIsAnythingLost", "reconciler/targets/internal/api.TestRefusalsAreClassifiedAndNameTheRemedy"},
			Control: "throttled-is-retried"},
		{Area: "API server", Fault: "Reads are older than the object that is to be deleted", Outcome: "Nothing is deleted or created by an old read: deletions name UID and version",
			Cases:   []string{"/replace/", "/keep/"},
			Tests:   []string{"reconciler/targets/kubernetes.TestADeletionPlannedForOneIncarnationSparesTheNext", "provision/engine.TestReadBack"},
			Control: "deletion-preconditions"},
		{Area: "API server", Fault: "A watch is closed, misses events, or is too old (410)", Outcome: "It lists again, and drift is found",
			Cases: []string{"/watches-closed/kubernetes"},
			Tests: []string{"reconciler/targets/kubernetes.TestAWatchThatIsTooOldListsAgain", "reconciler/targets/kubernetes.TestADeletionInAGapOfTheWatchIsDetectedAfterAnEventOfTheObject"}},
		{Area: "API server", Fault: "A definition is not established yet, is deleted with its objects, or comes after them", Outcome: "Definitions come first and are waited for; others go on; a definition with objects goes by a confirmation only",
			Tests:       []string{"cmd/internal/e2e.TestADefinitionAndItsObjectsComeInOneCommit", "reconciler/targets/kubernetes.TestADefinitionAndItsObjectsComeInOneCommit", "reconciler/targets/kubernetes.TestInstancesAndDataAreNotDeletedUnconfirmed"},
			NotPromised: "A conversion webhook that is down makes the objects of its kind unknown until it is back."},
		{Area: "API server", Fault: "An admission webhook hangs, or denies one of many objects; a quota or a role is too narrow", Outcome: "That object is reported, the others are applied, the inventory has all",
			Cases:   []string{"/webhook-hangs/kubernetes"},
			Tests:   []string{"cmd/internal/e2e.TestOneRefusedObjectStopsNoOther", "reconciler/targets/kubernetes.TestAWebhookThatIsDownConcernsItsObjectsOnly", "cmd/internal/e2e.TestNarrowRightsAreEnoughForWhatTheyName"},
			Control: "deletions-after-failures"},
		{Area: "API server", Fault: "A commit changes an immutable field", Outcome: "It is reported; the object is not created anew",
			Tests: []string{"reconciler/targets/kubernetes.TestAnImmutableFieldIsShownWithItsReason", "reconciler/targets/internal/api.TestRefusalsAreClassifiedAndNameTheRemedy"}, Control: "immutable-is-reported"},
		{Area: "API server", Fault: "Another manager rewrites a field every second", Outcome: "The conflict is reported, and writes back off",
			Tests:   []string{"reconciler/targets/kubernetes.TestTwoManagersWhoWantDifferentThingsAreHeldApart", "reconciler/targets/kubernetes.TestOthersTerritoryIsNotForced"},
			Control: "rival-back-off"},
		{Area: "API server", Fault: "A namespace stays Terminating, a finalizer is never removed", Outcome: "It is reported and stays recorded; the others go on",
			Tests: []string{"reconciler/targets/kubernetes.TestWhatIsBeingDeletedIsReportedAndRecreated", "reconciler/targets/kubernetes.TestADeletionUnderWayIsNotUndoneByARestart"}, Control: "finalized-stays-recorded"},
		{Area: "API server", Fault: "An object is too large for etcd; an inventory has thousands of objects", Outcome: "The object is named; the inventory is kept in parts",
			Tests: []string{"reconciler/targets/kubernetes.TestAnObjectThatIsTooLargeIsNamed", "cmd/internal/e2e.TestTheControllerStaysSmallWithThousandsOfObjects", "reconciler/targets/internal/api.TestRefusalsAreClassifiedAndNameTheRemedy"}, Control: "too-large-is-reported"},
		{Area: "API server", Fault: "A person deletes the inventory", Outcome: "It is made anew from labels; nothing is deleted by it without a confirmation, and nothing foreign adopted",
			Tests:   []string{"cmd/internal/e2e.TestALostInventoryIsMadeAnew", "reconciler/targets/kubernetes.TestALostInventoryIsRebuiltAndDeletesNothingUnconfirmed"},
			Control: "rebuilt-inventory"},
	}
}

func processFaults() []Promise {
	return []Promise{
		{Area: "Process", Fault: "The process is killed before or after any request of a first apply, an update, a prune, a scale-up, a scale-down, a comment", Outcome: "The next process finishes it: no orphan, no second comment",
			Cases:   []string{"first-apply/kill", "update-and-prune/kill", "pull-request/kill"},
			Tests:   []string{"cmd/internal/e2e.TestAFirstApplyThatIsKilledAnywhereIsFinished", "cmd/internal/e2e.TestAPruneThatIsKilledAnywhereIsFinished", "reconciler/targets/aws.TestAKillAfterAnyRequestHeals", "reconciler/report/forge/internal/comments.TestACrashAfterAnyCallLeavesOneCommentInTheEnd"},
			Control: "write-ahead"},
		{Area: "Process", Fault: "The process is killed between CreateFleet and the status of the NodeClaim", Outcome: "One instance for each NodeClaim within a minute",
			Tests: []string{"cmd/internal/e2e.TestTheEngineSurvivesRestarts"}},
		{Area: "Process", Fault: "Two leaders: the lease is taken over, a process is paused and continued", Outcome: "The one that lost it writes nothing afterwards",
			Cases:   []string{"two-replicas/pause|partition|lease-deleted|fail-over/"},
			Tests:   []string{"cmd/internal/e2e.TestALeaderThatWokeUpTooLateWritesNothing", "cmd/internal/leaderelection.TestGivingTheLeaseAwayClosesTheFence", "provision/engine.TestOnlyALeaderChangesWhatIsInAWS"},
			Control: "fence"},
	}
}

func awsFaults() []Promise {
	return []Promise{
		{Area: "AWS", Fault: "Each API is throttled", Outcome: "Retries are bounded, no NodeClaim is lost, what was not read is unknown",
			Tests:   []string{"reconciler/targets/aws.TestThrottlingOnEveryCallEndsInUnknown", "reconciler/targets/aws.TestTheWorldsOwnRetriesEndSoon", "cmd/internal/e2e.TestTheEngineOutlastsAWS"},
			Control: "unreadable-is-unknown"},
		{Area: "AWS", Fault: "There is no capacity of one or of all instance types, or a quota is used up", Outcome: "Another offering is used and the one that failed is left for three minutes; reported on pod and pool",
			Tests: []string{"cmd/internal/e2e.TestTheEngineOutlastsAWS"}},
		{Area: "AWS", Fault: "A right is missing, credentials expire or rotate, instance metadata is gone", Outcome: "What cannot be read is reported as unknown and not as in sync; a refresh mends it",
			Tests:   []string{"reconciler/targets/aws.TestCredentialsThatEndMakeEverythingUnknown", "reconciler/targets/aws.TestADeniedRequestLeavesTheRestKnown", "reconciler/controller.TestWhatIsUnknownIsNeverCalledInSync"},
			Control: "unreadable-is-unknown"},
		{Area: "AWS", Fault: "Reads lag behind writes, tags come late, NotFound after Terminate", Outcome: "Nothing is created twice or collected too early",
			Tests: []string{"reconciler/targets/aws.TestWhatAWSShowsLateIsMadeOnce", "cmd/internal/e2e.TestTheEngineOutlastsAWS"}},
		{Area: "AWS", Fault: "CreateFleet returns fewer or more instances than requested", Outcome: "Each of them belongs to a NodeClaim or is terminated",
			Tests: []string{"cmd/internal/e2e.TestTheEngineOutlastsAWS"}},
		{Area: "AWS", Fault: "Spot interruptions, rebalance recommendations and scheduled changes come twice, in another order, or as garbage", Outcome: "Handling them is idempotent; what cannot be read is dropped and logged",
			Tests: []string{"cmd/internal/e2e.TestTheEngineOutlastsAWS"}},
	}
}

func otherFaults() []Promise {
	return []Promise{
		{Area: "Nodes", Fault: "A node never registers, or never offers its GPUs", Outcome: "It is replaced at its deadline, and its pool backs off",
			Tests:   []string{"cmd/internal/e2e.TestSharedGPUsLive", "provision/gpu/readiness.TestANodeThatNeverOffersItsGPUsIsReplacedAtItsDeadline", "provision/gpu/startuptaint.TestAPoolIsHeldLongerEachTimeItFailsAgain"},
			Control: "pool-back-off"},
		{Area: "Nodes", Fault: "Many nodes are empty at once; pods come and go; images take ten minutes to pull",
			NotPromised: "When nodes are consolidated is Karpenter's decision, whose controllers run unchanged. What Poolwright adds is that none disrupts by an old cache, and a node is not given out before its GPUs are there.",
			Tests:       []string{"provision/engine.TestAGuardedControllerRunsOnlyWhileAllowed", "provision/gpu/readiness.TestANodeIsReleasedOnceItOffersItsGPUs"}},
		{Area: "Nodes", Fault: "One node of a pool is not ready, a budget has a schedule that cannot be parsed",
			NotPromised: "Budgets are evaluated by Karpenter's controllers, which allow nothing where one cannot be parsed; the API server and lint refuse it before.",
			Tests:       []string{"reconciler/declared/lint/gpulint.TestBadSamplesGiveTheFindingsOfTheirGoldens", "provision/simulate.TestANodeThatIsNotReadyTakesOfTheBudget"}},
		{Area: "Nodes", Fault: "A person terminates an instance, deletes a node, removes a tag; a commit removes a pool with nodes", Outcome: "Capacity is replaced; drift is reported; the pool waits for a confirmation",
			Cases:   []string{"prune-with-losses/nodes-arrive/"},
			Tests:   []string{"cmd/internal/e2e.TestTheEngineOutlastsAWS", "reconciler/targets/kubernetes.TestNothingIsDeletedWithWhichMoreGoesThanWasPlanned", "reconciler/targets/aws.TestADiscoveryTagComesAndGoesWithItsPart"},
			Control: "loss-recount"},
		{Area: "Forge", Fault: "The forge is down or throttles, a pull request is closed, its comment deleted, a plan is too long, two replicas comment", Outcome: "Applying goes on; the comment is cut and there is one of it",
			Cases:   []string{"pull-request/", "pull-request-two-replicas/"},
			Tests:   []string{"reconciler/report/forge/github.TestTwoReplicasThatCommentAtOnceLeaveOne", "reconciler/report/forge/github.TestALongCommentIsCutToWhatGitHubTakes", "reconciler/pullrequest.TestWhatAForgeThatDoesNotRespondCosts"},
			Control: "one-comment"},
		{Area: "Forge", Fault: "A fork's pull request, hostile YAML and markup, forged or repeated webhooks, bodies of 100 MB, slow senders", Outcome: "They are refused or shown as text; processor and memory stay flat",
			Tests:   []string{"reconciler/report.TestHostileContentStaysContent", "reconciler/report/forge/webhook.TestWhatIsNotVerifiedIsRefused", "reconciler/receiver.TestSlowSendersDoNotKeepOthersOut", "cmd/internal/wire.TestAThousandOpenPullRequestsLeaveTheLeaderAsItWas"},
			Control: "webhook-signatures"},
		{Area: "Host", Fault: "The disk is full or read-only, memory runs out, SIGTERM comes in the middle of a run, names are not resolved", Outcome: "It is reported, the lease is released, and it goes on afterwards. The kernel's kill for memory is that of the kill cases",
			Cases:   []string{"/disk-full/git", "/kill-after/", "two-replicas/terminate/"},
			Tests:   []string{"gitsource/gogit.TestAFullDiskIsSurvived", "gitsource/gogit.TestAFolderThatCannotBeWrittenToIsNotTheServersFault", "cmd/internal/e2e.TestABombOnTheFollowedBranchEndsOnlyItsChild", "cmd/internal/e2e.TestOfTwoReplicasOneActsAndTheOtherTakesOver"},
			Control: "disk-budget"},
	}
}
