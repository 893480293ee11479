package controls

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Test is the Go test that must find the control, as FOLDER.NAME, or empty where cases of a
// scenario must.
func (c Control) Test() string { return c.test }

// Fails runs the control's test with the precaution switched off, and reports whether that
// fails. An error is a test that could not be run.
func (c Control) Fails(ctx context.Context, dir string) (bool, error) {
	root, overlay, err := c.overlay(ctx, dir)
	if err != nil {
		return false, err
	}
	at := strings.LastIndex(c.test, ".")
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-buildvcs=false", "-overlay", overlay, "-count=1", "-timeout=10m",
		"-run", "^"+c.test[at+1:]+"$", "./"+c.test[:at])
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var reason bytes.Buffer
	cmd.Stderr = &reason
	out, err := cmd.Output() // its events and exit status are about the same
	var last event
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var e event
		if err := decoder.Decode(&e); err != nil {
			break // what is not of the test, such as an error of the compiler
		}
		if e.Test == c.test[at+1:] && (e.Action == "pass" || e.Action == "fail") {
			last = e
		}
	}
	if last.Action == "" {
		return false, fmt.Errorf("running %s without %s: it did not run: %w\n%s%s", c.test, c.Name, err, reason.Bytes(), out)
	}
	return last.Action == "fail", nil
}

// event is one of go test's, as go doc test2json describes them.
type event struct{ Action, Test string }

// foundByTests are precautions for which a Go test is the shortest case. The passages are as short
// as they can be, so that only a change of the precaution itself moves them.
func foundByTests() []Control {
	return slices.Concat(foundByTestsOfSources(), foundByTestsOfSignatures(), foundByTestsOfArtifacts(), foundByTestsOfDependencies(), foundByTestsOfTargets(), foundByTestsOfTheEngine(), foundByOtherTests())
}

// foundByTestsOfSources are those of what is read from Git and rendered.
func foundByTestsOfSources() []Control {
	return []Control{
		{
			Name: "last-good-revision", Summary: "While the source cannot be read, the last revision that could be stays in force.",
			file: "reconciler/fetch.go", old: "= l.lastGood(ctx); status != verified {\n",
			by:   "= l.lastGood(ctx); status != verified || stale != nil {\n\t\t\tif status == verified {\n\t\t\t\treturn Result{}, stale\n\t\t\t}\n",
			test: "reconciler.TestASourceThatFailsLaterLeavesTheLastRevisionInForce",
		}, {
			Name: "credentials-for-each-fetch", Summary: "Credentials are read before each fetch, so that a rotation needs no restart.",
			file: "gitsource/gogit/internal/remote/remote.go",
			old:  "reading the credentials: %w\", err)\n\t\t}\n",
			by:   "reading the credentials: %w\", err)\n\t\t}\n\t\tfirst := cred\n\t\tr.credentials = func(context.Context) (Credentials, error) { return first, nil }\n",
			test: "gitsource/gogit.TestCredentials",
		}, {
			Name: "host-keys", Summary: "An ssh server is used only with a host key that known_hosts lists.",
			file: "gitsource/gogit/internal/hostkey/hostkey.go", old: "func (k Known) Verify(address string, key ssh.PublicKey) error {\n", by: "func (k Known) Verify(address string, key ssh.PublicKey) error {\n\tif key != nil {\n\t\treturn nil\n\t}\n",
			test: "gitsource/gogit.TestAHostKeyIsVerifiedBeforeAnythingIsSent",
		}, {
			Name: "fast-forward", Summary: "A branch is followed by fast-forward only.",
			file: "gitsource/gogit/check.go", old: "if descends || err != nil &&", by: "if descends || !descends || err != nil &&",
			test: "gitsource/gogit.TestABranchIsFollowedForwardOnly",
		}, {
			Name: "stale-prunes-nothing", Summary: "A revision that stays because a newer one cannot be read prunes nothing.",
			file: "reconciler/plan.go", old: "unsure := len(problems) > 0 || result.SourceError != nil", by: "unsure := len(problems) > 0",
			test: "reconciler.TestASourceThatCannotBeReadPrunesNothing",
		}, {
			Name: "prune-percentage", Summary: "More deletions than the Sync's percentage wait for a confirmation.",
			file: "reconciler/plan/policy.go", old: "if !all && (deletions < pruneFloor", by: "if all || !all || (deletions < pruneFloor",
			test: "reconciler/plan.TestGuardHoldsWhatWouldDeleteTooMuch",
		}, {
			Name: "invalid-trees", Summary: "A tree with names that Git does not check out is refused.",
			file: "gitsource/gogit/internal/tree/walker.go", old: "strings.EqualFold(name, \".git\"),", by: "name == \"\\x00\",",
			test: "gitsource/gogit.TestTreesThatNoHonestRepositoryHoldsAreRefused",
		}, {
			Name: "disk-budget", Summary: "What would exceed the budget of the caches in bytes is refused before it is written.",
			file: "gitsource/gogit/internal/disk/budget.go", old: "if d.used+n > limit {\n\t\treturn", by: "if d.used+n > limit && d == nil {\n\t\treturn",
			test: "gitsource/gogit.TestABudgetIsSharedAndNeverExceeded",
		}, {
			Name: "cache-budget", Summary: "Renderings that are kept have a budget in bytes.",
			file: "reconciler/rendercache/rendercache.go", old: "func (r entry) bytes() int64 {\n", by: "func (r entry) bytes() int64 {\n\tif r.encoded != nil {\n\t\treturn 0\n\t}\n",
			test: "reconciler/rendercache.TestAThousandHostileProposalsLeaveTheMemoryAsItWas",
		}, {
			Name: "links-within-the-tree", Summary: "A symbolic link cannot leave the tree.",
			file: "gitsource/gogit/internal/tree/fs.go", old: "if len(at) == 1 {\n", by: "if len(at) == 1 {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif len(at) == 0 {\n",
			test: "gitsource/gogit.TestEntriesThatCannotBeReadFailOnlyWhoNeedsThem",
		}, {
			Name: "leases-by-change", Summary: "A lease that is renewed has a leader, whatever its holder's clock shows.",
			file: "provision/engine/gate/lease.go", old: "!ok || !before.renewed.Equal(now.renewed)", by: "!ok && !before.renewed.Equal(now.renewed)",
			test: "provision/engine/gate.TestALeaseThatIsRenewedHasALeaderWhateverItsClock",
		}, {
			Name: "problems-prune-nothing", Summary: "A revision with a problem prunes nothing.",
			file: "reconciler/plan.go", old: "problems := has.Problems\n", by: "problems := has.Problems[:0]\n",
			test: "reconciler.TestRunOnce",
		}, {
			Name: "remote-bases", Summary: "Nothing that a kustomization names is fetched from elsewhere.",
			file: "reconciler/declared/render/survey.go", old: "if remote.MatchString(strings.TrimSpace(given)) {", by: "if given == \"\" && remote.MatchString(given) {",
			test: "reconciler/declared.TestKustomizationsThatReachOutAreRefusedByName",
		},
	}
}

// foundByTestsOfSignatures are those of what has to be signed.
func foundByTestsOfSignatures() []Control {
	return []Control{{
		Name: "signatures", Summary: "Where a Sync requires signatures, only a revision that is signed as it requires is applied.",
		file: "gitsource/gogit/check.go", old: "if v == nil || v.verified[", by: "if v == nil || len(v.mode) > 0 || v.verified[",
		test: "gitsource/gogit.TestOnlySignedRevisionsAreFollowed",
	}}
}

// foundByTestsOfArtifacts are those of what a source of Flux has served.
func foundByTestsOfArtifacts() []Control {
	return []Control{
		{
			Name: "artifact-digest", Summary: "An artifact is unpacked only where it has the digest that its source reports.",
			file: "gitsource/artifact/get.go", old: "; got != expected {", by: "; got != expected && expected == \"\" {",
			test: "gitsource/artifact.TestNothingIsUnpackedBeforeItsDigestIsChecked",
		}, {
			Name: "artifact-redirect", Summary: "The server of an artifact redirects to no other server.",
			file: "gitsource/artifact/get.go", old: "from := via[0].URL\n", by: "from := to.URL\n",
			test: "gitsource/artifact.TestTheServerCannotLeadAnywhereElse",
		},
	}
}

// foundByTestsOfDependencies are those of Syncs that wait for others.
func foundByTestsOfDependencies() []Control {
	return []Control{
		{
			Name: "dependencies-first", Summary: "A revision is neither loaded nor applied before the Syncs that its Sync depends on are ready.",
			file: "reconciler/fetch.go", old: "l.dependencies(ctx, snapshot.Revision, snapshot.TreeID); err != nil {", by: "l.dependencies(ctx, snapshot.Revision, snapshot.TreeID); err != nil && ctx == nil {",
			test: "reconciler.TestARevisionThatWaitsIsNeitherLoadedNorApplied",
		}, {
			Name: "only-drift-while-waiting", Summary: "While a revision waits for other Syncs, nothing but drift is put back.",
			file: "reconciler/plan.go", old: "\tcase l.waiting:\n", by: "\tcase l.waiting && r == nil:\n",
			test: "reconciler.TestARevisionThatIsAppliedInPartWaitsWithTheRest",
		},
	}
}

// foundByTestsOfTargets are those of what is written to the API server and to AWS.
func foundByTestsOfTargets() []Control {
	return []Control{
		{
			Name: "fresh-caches", Summary: "After an outage the engine does nothing before its caches have caught up.",
			file: "provision/engine/freshness/fresh.go", old: "\tif suspect {\n", by: "\tif suspect && live == nil {\n",
			test: "provision/engine/freshness.TestAfterAnOutageEveryCacheMustCatchUpFirst",
		}, {
			Name: "throttled-is-retried", Summary: "A request that the API server throttles is retried, and blames nobody.",
			file: "reconciler/targets/internal/api/refusal.go", old: "state.Fail(state.Retry, \"TooManyRequests\"", by: "state.Fail(state.Stalled, \"TooManyRequests\"",
			test: "reconciler/targets/internal/api.TestRefusalsAreClassifiedAndNameTheRemedy",
		}, {
			Name: "immutable-is-reported", Summary: "A change of an immutable field is reported with its remedy.",
			file: "reconciler/targets/internal/api/refusal.go", old: "reason, why = \"Immutable\", why", by: "reason, why = \"Invalid\", why",
			test: "reconciler/targets/internal/api.TestRefusalsAreClassifiedAndNameTheRemedy",
		}, {
			Name: "too-large-is-reported", Summary: "An object that is too large for the API server is reported as that.",
			file: "reconciler/targets/internal/api/refusal.go", old: "apierrors.IsRequestEntityTooLargeError(err) ||", by: "err == nil &&",
			test: "reconciler/targets/internal/api.TestRefusalsAreClassifiedAndNameTheRemedy",
		}, {
			Name: "missed-events", Summary: "What is not there any more after a watch that was too old counts as deleted.",
			file: "reconciler/targets/kubernetes/internal/reflector/reflector.go", old: "\t\t\tto.Listed(all)\n", by: "\t\t\tif ctx == nil {\n\t\t\t\tto.Listed(all)\n\t\t\t}\n",
			test: "reconciler/targets/kubernetes.TestADeletionInAGapOfTheWatchIsDetectedAfterAnEventOfTheObject",
		}, {
			Name: "others-fields", Summary: "A field that another manager owns is not taken over from it.",
			file: "reconciler/targets/kubernetes/apply.go", old: "Force: before.Owner == (owner.Reference{})", by: "Force: before.Owner == (owner.Reference{}) || ctx != nil",
			test: "reconciler/targets/kubernetes.TestOthersTerritoryIsNotForced",
		}, {
			Name: "ignored-fields", Summary: "An update does not write what the Sync ignores.",
			file: "reconciler/targets/kubernetes/apply.go", old: "j.preconditions(omitted.Object, ", by: "j.preconditions(body, ",
			test: "reconciler/targets/kubernetes.TestAnIgnoredFieldThatIsNotDeclaredStaysInAMapThatIsAppliedAsAWhole",
		}, {
			Name: "ignored-owners", Summary: "What the Sync ignores is given up where an earlier apply owns it.",
			file: "reconciler/targets/kubernetes/ignored.go", old: "if len(released) == 0 {", by: "if len(released) >= 0 {",
			test: "reconciler/targets/kubernetes.TestAFieldThatIsIgnoredLaterIsGivenUp",
		}, {
			Name: "ignored-guards", Summary: "No rule of a Sync ignores guards, roles and values of Secrets.",
			file: "reconciler/targets/kubernetes/internal/ignore/ignore.go", old: "why, always := guarded(item, p)\n", by: "why, always := guarded(state.Item{Object: item.Object}, p)\n",
			test: "reconciler/targets/kubernetes/internal/ignore.TestGuardsAreNotIgnored",
		}, {
			Name: "definitions-first", Summary: "Definitions and namespaces are applied before what needs them.",
			file: "reconciler/targets/kubernetes/internal/kinds/defined.go", old: "case \"CustomResourceDefinition\", \"Namespace\":", by: "case \"\\x00\":",
			test: "reconciler/targets/kubernetes/internal/kinds.TestWavesPutFirstWhatOthersNeed",
		}, {
			Name: "deletions-after-failures", Summary: "Nothing is deleted that may be needed because a creation or an update failed.",
			file: "reconciler/apply/deletions.go", old: "case Failed, Conflict, NotAttempted:", by: "case Conflict, NotAttempted:",
			test: "reconciler/apply.TestADeletionWaitsOnlyForWhatMayNeedWhatGoes",
		},
	}
}

// testOfCollection is that of what decides whether an instance is terminated.
const testOfCollection = "provision/engine.TestInstancesWithoutALiveNodeClaimAreTerminatedWhateverTheCachesHold"

// foundByTestsOfTheEngine are those of the engine's own pace, and of its garbage collection.
func foundByTestsOfTheEngine() []Control {
	return []Control{
		{
			Name: "taint-before-validation", Summary: "An empty node without the taint of its disruption stays, since pods may still be bound to it.",
			file: "provision/engine/emptiness/client.go", old: "if !tainted(node) {", by: "if !tainted(node) && name == \"\" {",
			test: "provision/engine/emptiness.TestAnEmptyNodesClaimIsDeletedOnlyAfterTheValidation",
		}, {
			Name: "validated-claim", Summary: "Only the NodeClaim whose node was validated is deleted, and never another of its name.",
			file: "provision/engine/emptiness/client.go", old: "append(options, client.Preconditions{UID: &claim.UID})...", by: "options...",
			test: "provision/engine/emptiness.TestOnlyTheValidatedClaimIsDeleted",
		}, {
			Name: "unscheduled-batch", Summary: "A batch of pending pods ends when it was scheduled, and not when it was read.",
			file: "provision/engine/batcher/provisioner.go", old: "\tscheduled, err := p.schedule(ctx)\n", by: "\tscheduled, err := p.schedule(ctx)\n\tp.batcher.done(batch)\n",
			test: "provision/engine/batcher.TestABatchEndsWhenItWasScheduled",
		}, {
			Name: "evaluated-pools", Summary: "A batch waits until the NodeOverlays of all NodePools are evaluated.",
			file: "provision/engine/batcher/evaluated.go", old: "if now.Sub(since) < evaluationTimeout {", by: "if now.Sub(since) < 0 {",
			test: "provision/engine/batcher.TestABatchWaitsForNodePoolsThatAreNotEvaluated",
		}, {
			Name: "evaluated-overlays", Summary: "A batch waits until the NodeOverlays are evaluated as they are now.",
			file: "provision/engine/batcher/overlays.go", old: "if e.clock.Since(e.since) < evaluationTimeout {", by: "if e.clock.Since(e.since) < 0 {",
			test: "provision/engine/batcher.TestABatchWaitsForNodeOverlaysThatAreNotEvaluated",
		}, {
			Name: "finished-evaluation", Summary: "A batch waits until the evaluation that has written the conditions of NodeOverlays is over.",
			file: "provision/engine/batcher/overlays.go", old: " && e.finished(overlay)", by: " && (overlay != nil || e.finished(overlay))",
			test: "provision/engine/batcher.TestABatchWaitsForTheEndOfTheEvaluationThatWritesTheConditions",
		}, {
			Name: "live-claims", Summary: "An instance whose NodeClaim is not in the cache is not terminated, since NodeClaims are listed from the API server.",
			file: "provision/engine/garbagecollection/garbagecollection.go", old: "return c.live.List(ctx, claims, options...)", by: "return c.Client.List(ctx, claims, options...)",
			test: testOfCollection,
		}, {
			Name: "collection-past-caches", Summary: "Instances without a NodeClaim are terminated before the caches are proven fresh after a failed request.",
			file: "provision/engine/collection.go", old: "\t\treturn e.config.AllowGarbageCollection\n",
			by:   "\t\treturn func(ctx context.Context) error {\n\t\t\tif err := e.freshness.Check(ctx); err != nil {\n\t\t\t\treturn err\n\t\t\t}\n\t\t\treturn e.config.AllowGarbageCollection(ctx)\n\t\t}\n",
			test: testOfCollection,
		}, {
			Name: "collection-without-overlays", Summary: "Instances without a NodeClaim are terminated before the NodeOverlays are evaluated.",
			file: "provision/engine/instancetypes/instancetypes.go", old: "context.WithValue(ctx, without{}, true)", by: "ctx",
			test: testOfCollection,
		}, {
			Name: "repair-back-off", Summary: "A NodePool in which replacements of unhealthy nodes become unhealthy soon, too, backs off.",
			file: "provision/engine/repairbackoff/repairbackoff.go", old: "return !ok || p.backoff.Active(now)", by: "return !ok || false && p.backoff.Active(now)",
			test: "provision/engine/repairbackoff.TestADriverThatFailsOnEachNewNodeDoesNotReplaceAllNodes",
		}, {
			Name: "recorded-repairs", Summary: "The repair of an unhealthy node is recorded on its NodePool, which outlasts a restart, before it begins.",
			file: "provision/engine/repairbackoff/repairbackoff.go", old: "return changed, m.cfg.Writer.Patch(ctx, changed, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))", by: "return changed, nil",
			test: "provision/engine/repairbackoff.TestADriverThatFailsOnEachNewNodeDoesNotReplaceAllNodes",
		}, {
			Name: "launching-claims", Summary: "An instance that may be the one of a NodeClaim without a provider ID is not terminated.",
			file: "provision/engine/garbagecollection/garbagecollection.go", old: "return mayBeOf(instance, c)", by: "return false && mayBeOf(instance, c)",
			test: testOfCollection,
		},
	}
}

// foundByOtherTests are all others.
func foundByOtherTests() []Control {
	return []Control{
		{
			Name: "fence-closes", Summary: "A lease that is given away or lost closes the fence at once.",
			file: "cmd/internal/leaderelection/fence.go", old: "\tf.validFor = 0\n\tf.term++", by: "\tf.term++",
			test: "cmd/internal/leaderelection.TestGivingTheLeaseAwayClosesTheFence",
		}, {
			Name: "pool-back-off", Summary: "A pool whose nodes fail again and again backs off.",
			file: "provision/gpu/startuptaint/backoff.go", old: "r.failures > 1 && !now.Before(r.until)", by: "r.failures > 1000 && !now.Before(r.until)",
			test: "provision/gpu/startuptaint.TestAPoolIsHeldLongerEachTimeItFailsAgain",
		}, {
			Name: "bounded-events", Summary: "Events that wait for their receiver are limited in number, and the oldest give way.",
			file: "reconciler/notification/queue.go", old: "if len(q.events) == queueLength {", by: "if len(q.events) == queueLength+1<<20 {",
			test: "reconciler/notification.TestInALongOutageTheNewestEventsAreKept",
		}, {
			Name: "comment-length", Summary: "A comment is cut to what its forge takes.",
			file: "reconciler/report/forge/internal/comments/fit.go", old: "if len(body) <= limit {", by: "if len(body) <= limit || limit > 0 {",
			test: "reconciler/report/forge/internal/comments.TestALongTextIsCutAtALineAndClosed",
		}, {
			Name: "webhook-signatures", Summary: "A webhook counts only with a signature by the Sync's secret.",
			file: "reconciler/report/forge/webhook/webhook.go", old: "if hmac.Equal(mac.Sum(nil), signature) {", by: "if hmac.Equal(mac.Sum(nil), signature) || len(signature) > 0 {",
			test: "reconciler/report/forge/webhook.TestWhatIsNotVerifiedIsRefused",
		}, {
			Name: "unreadable-is-unknown", Summary: "What AWS does not let be read is unknown, and not as declared.",
			file: "reconciler/targets/aws/observe.go", old: "\t\tfound.Unknown = live.Err.Error()\n\t\treturn found, true\n\t}\n\tfound.Warnings", by: "\t\treturn found, true\n\t}\n\tfound.Warnings",
			test: "reconciler/targets/aws.TestThrottlingOnEveryCallEndsInUnknown",
		}, {
			Name: "quota-guard", Summary: "What needs more of a quota than it has left waits under `spec.guard.quota: Hold`.",
			file: "reconciler/syncpolicy/syncpolicy.go", old: "plan.Guard(int(percent), confirmation), quotaGuard(sync))", by: "plan.Guard(int(percent), confirmation))",
			test: "reconciler/targets/aws.TestWhatExceedsTheAccountsQuotaWaitsUntilItIsRaisedOrConfirmed",
		}, {
			Name: "whole-offerings", Summary: "Which zones offer which instance types is taken from a list whose last page was read.",
			file: "provision/engine/offerings/offerings.go", old: "if aws.ToString(out.NextToken) == \"\" {\n\t\tfor", by: "if out != nil {\n\t\tfor",
			test: "provision/engine/offerings.TestAListThatBreaksOffLeavesTheLastWholeOne",
		}, {
			Name: "late-reads", Summary: "What AWS refuses because it does not show an earlier write yet is tried again.",
			file: "reconciler/targets/aws/internal/iam/rolewrite.go", old: "case awserr.Exists(err):", by: "case awserr.Exists(err) && ctx == nil:",
			test: "reconciler/targets/aws/internal/iam.TestWhatAWSDoesNotFindYetIsTriedAgain",
		}, {
			Name: "rival-back-off", Summary: "An object that another manager rewrites is left alone for longer and longer.",
			file: "reconciler/targets/kubernetes/internal/drift/flap.go", old: "return one.until.Sub(f.clock.Now())", by: "return 0",
			test: "reconciler/targets/kubernetes.TestTwoManagersOfOneFieldAreHeldApart",
		}, {
			Name: "rebuilt-inventory", Summary: "What is known by its label alone is not deleted without a confirmation.",
			file: "reconciler/targets/kubernetes/deletion_losses.go", old: "if rec.FromLabel && item.Impact == \"\" {", by: "if rec.FromLabel && item.Impact == \"\\x00\" {",
			test: "reconciler/targets/kubernetes.TestALostInventoryIsRebuiltAndDeletesNothingUnconfirmed",
		}, {
			Name: "finalized-stays-recorded", Summary: "An object that a finalizer keeps stays in the inventory until it is gone.",
			file: "reconciler/targets/kubernetes/remove.go", old: "if !deletedAsynchronously(j.Before) {", by: "if deletedAsynchronously(j.Before) || true {",
			test: "reconciler/targets/kubernetes.TestADeletionUnderWayIsNotUndoneByARestart",
		},
	}
}
