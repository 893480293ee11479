// Package githubapp makes the command github-app create, which registers a GitHub App by GitHub's manifest flow, and writes
// the Secret that a Sync comments on pull requests with.
//
// The private key goes into one new file that only its owner can read, and never to a terminal, a log or the browser. It
// listens on a loopback address only, for one browser, and takes no code but with the state that it sent to GitHub.
// Start reading at NewCommand.
package githubapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/reconciler/forgeclient"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// Environment is what the command has of the command line.
type Environment struct {
	Out, Err io.Writer
	Now      func() time.Time
}

// createFlags are the input of create.
type createFlags struct {
	name, file, secret, namespace string
	personal, contents            bool
	timeout                       time.Duration
}

// pollInterval is how often GitHub is queried whether the App is installed.
const pollInterval = 3 * time.Second

// NewCommand makes the command github-app.
func NewCommand(env Environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "github-app",
		Short: "Register a GitHub App to comment on pull requests as",
		Args:  cobra.NoArgs,
	}
	var f createFlags
	create := &cobra.Command{
		Use:   "create REPOSITORY",
		Short: "Register a GitHub App, and write the Secret for it",
		Long: `Register a GitHub App with the permissions that Poolwright needs to comment on pull requests, in the organization that owns the
repository, and write a manifest of the Secret with its private key.

It prints an address of this machine. The page there sends you to GitHub, where you create the App and install it on the
repository. The key goes into the file alone, which is new and readable by you only.`,
		Example: "  poolwright github-app create https://github.com/team/nodes --output-file forge.yaml\n  kubectl apply -f forge.yaml\n  rm forge.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			return f.create(ctx, env, args[0], pollInterval)
		},
	}
	create.Flags().StringVar(&f.name, "name", "", "name of the App, which nobody else at GitHub may have (default: poolwright-OWNER, cut to 34 characters)")
	create.Flags().StringVar(&f.file, "output-file", "github-app.yaml", "file for the Secret's manifest; it must not exist")
	create.Flags().StringVar(&f.secret, "secret", "forge", "name of the Secret")
	create.Flags().StringVarP(&f.namespace, "namespace", "n", "poolwright-system", "namespace of the Secret")
	create.Flags().BoolVar(&f.personal, "personal", false, "register the App in your own account: the owner of the repository is no organization")
	create.Flags().BoolVar(&f.contents, "contents", false, "let the App read the repository's content too, to clone it with the same Secret")
	create.Flags().DurationVar(&f.timeout, "timeout", time.Hour, "how long to wait for the browser; GitHub allows an hour")
	cmd.AddCommand(create)
	return cmd
}

// create registers an App. The file is made first, so that no key is without a place.
func (f *createFlags) create(ctx context.Context, env Environment, repository string, poll time.Duration) (err error) {
	registrar, err := forgeclient.NewRegistrar(repository, env.Now)
	if err != nil {
		return err
	}
	at, err := url.Parse(repository)
	if err != nil {
		return fmt.Errorf("reading the repository's address: %w", err)
	}
	owner, _, _ := strings.Cut(strings.Trim(at.Path, "/"), "/")
	out, err := newSecretFile(f.file, f.namespace, f.secret)
	if err != nil {
		return err
	}
	defer out.discard()
	p, err := newPage(ctx, registration{
		site: at.Scheme + "://" + at.Host, organization: owner, personal: f.personal, name: f.name, permissions: registrar.Permissions(f.contents),
	})
	if err != nil {
		return err
	}
	defer p.close()
	fmt.Fprintln(env.Out, p.address())
	fmt.Fprintln(env.Err, "open this address in a browser that is logged in at GitHub; waiting until the App is created (Ctrl-C to end)")
	code, err := p.code(ctx)
	if err != nil {
		return err
	}
	app, err := registrar.Complete(ctx, code)
	if err != nil {
		p.conclude("")
		return err
	}
	if err := out.write(app.ID, app.Key, 0); err != nil {
		p.conclude("")
		return fmt.Errorf("writing the key of App %d: %w; generate another at %s", app.ID, err, app.URL)
	}
	p.conclude(app.URL + "/installations/new")
	fmt.Fprintf(env.Err, "registered %s; its private key is in %s\ninstall it on the repository: %s/installations/new\n", app.URL, f.file, app.URL)
	id, err := installed(ctx, poll, func(ctx context.Context) (int64, error) { return registrar.Installation(ctx, app) }, env.Err)
	if err != nil {
		return fmt.Errorf("waiting for the installation of App %d: %w; once it is installed, put its number into githubAppInstallationID of %s", app.ID, err, f.file)
	}
	if err := out.write(app.ID, app.Key, id); err != nil {
		return fmt.Errorf("writing installation %d into %s: %w", id, f.file, err)
	}
	fmt.Fprintf(env.Err, "installed: %d; apply %s, delete it, and set spec.pullRequests of the Sync\n", id, f.file)
	return nil
}

// statusOf is the HTTP status with which the forge refused a request; 0 where there was no response.
func statusOf(err error) int {
	if refusal, ok := errors.AsType[*forge.Error](err); ok {
		return refusal.Code
	}
	return 0
}

// installed waits until there is an installation. What fails is tried again, since a person is at work, and printed where
// it has another status than the last; the last is part of the error.
func installed(ctx context.Context, poll time.Duration, find func(context.Context) (int64, error), failures io.Writer) (int64, error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	var last error
	for {
		id, err := find(ctx)
		switch {
		case err == nil && id > 0:
			return id, nil
		case ctx.Err() != nil: // The request may have failed by that.
		case err != nil && (last == nil || statusOf(err) != statusOf(last)):
			fmt.Fprintf(failures, "%v; it is tried again\n", err)
			last = err
		default:
			last = err
		}
		select {
		case <-ctx.Done():
			if last != nil {
				return 0, fmt.Errorf("%w, and the last request failed: %w", context.Cause(ctx), last)
			}
			return 0, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
