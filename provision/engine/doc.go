// Package engine embeds Karpenter: its core and its AWS provider run as part of
// this process, on a manager that the caller owns, with settings that the caller
// passes as a struct. Whatever Karpenter keeps for itself when it runs alone (its
// flags, its environment variables, its process exits, its panics, its global
// logger) ends in this package: each becomes a field, or an error with the remedy.
//
// The order of a start is
//
//	settings := engine.DefaultSettings()      // filled from the Cluster object
//	eng, err := engine.New(engine.Config{Settings: settings, REST: restConfig, Log: logger})
//	mgr, err := ctrl.NewManager(eng.RESTConfig(), eng.ManagerOptions(own))
//	err = eng.AddTo(ctx, mgr)                 // same ctx as mgr.Start
//	err = mgr.Start(ctx)
//
// with InstallCRDs and the gates of package gate before it. Engine.AddTo is the
// place to start reading; corecontrollers.go and awscontrollers.go are the list of the
// controllers that run.
//
// What it refuses: settings that Karpenter would misread (Settings.Validate), an
// AWS endpoint that is not the real one and not loopback (LoadAWS), a second
// engine in the same process, and, while it runs, disruption and instance garbage
// collection on a view of the cluster that is not proven fresh (package freshness).
//
// Where stock Karpenter could end the process and why it cannot here:
//   - parsing of os.Args: New empties Karpenter's list of option parsers, and
//     nothing here calls it;
//   - os.Exit and panics of the provider's start: providers.go does that work and
//     returns errors; AddTo turns what is left into an error by recover;
//   - log.Fatalf on a malformed AMI alias: alias.go rewrites such an alias before
//     any Karpenter code gets the object, both on the way into the cache and in
//     every response to a write. The CRD's validation alone does not keep it out:
//     it accepts "al2023@a@b".
//   - panics in reconcilers: controller-runtime recovers and counts them; those
//     that Karpenter's own goroutines would meet in the AWS provider end in
//     recoveringprovider.go.
package engine
