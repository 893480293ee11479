package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/provision/sandbox/internal/build"
	"github.com/poolwright/poolwright/provision/sandbox/internal/kube"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// programs are the binaries of an environment.
type programs struct {
	reaper, plane, forge build.Built
}

// start does the steps in order; Start undoes them on failure.
func (w *Environment) start(ctx context.Context) error {
	if w.config.Progress == nil {
		w.config.Progress = io.Discard
	}
	binaries, err := w.build(ctx)
	if err != nil {
		return err
	}
	if err := w.makeFolder(binaries.reaper); err != nil {
		return err
	}
	if err := w.serveAWS(); err != nil {
		return err
	}
	servers, started := errgroup.WithContext(ctx)
	servers.Go(func() error { return w.startPlane(started, binaries.plane) })
	servers.Go(func() error { return w.startGit(started, binaries.forge) })
	if err := servers.Wait(); err != nil {
		return err
	}
	return w.startNodes(ctx)
}

// build makes what is missing in the cache.
func (w *Environment) build(ctx context.Context) (programs, error) {
	builder, err := w.builder()
	if err != nil {
		return programs{}, err
	}
	var p programs
	if p.reaper, err = builder.Ensure(ctx, build.Reaper()); err != nil {
		return programs{}, err
	}
	if p.plane, err = builder.Ensure(ctx, build.ControlPlane()); err != nil {
		return programs{}, err
	}
	if w.config.WithoutGit {
		return p, nil
	}
	p.forge, err = builder.Ensure(ctx, build.Forge())
	return p, err
}

// builder finds the clone around the working directory, then around this program, which
// make puts into the clone's bin folder.
func (w *Environment) builder() (*build.Builder, error) {
	builder, err := build.New(".", w.config.Progress)
	if err == nil {
		return builder, nil
	}
	if self, selfErr := os.Executable(); selfErr == nil {
		if builder, selfErr := build.New(filepath.Dir(self), w.config.Progress); selfErr == nil {
			return builder, nil
		}
	}
	return nil, err
}

// makeFolder makes the private data folder and the group that removes it.
func (w *Environment) makeFolder(reaper build.Built) error {
	dir, err := os.MkdirTemp("", "poolwright-sandbox-")
	if err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	w.Dir = dir
	group, err := process.NewGroup(reaper.Path, dir)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	w.group = group
	if w.config.Keep {
		return group.Keep()
	}
	return nil
}

// access is how AWS's SDKs reach the emulated cloud. It checks no signature;
// random keys make sure that a user's real ones are never sent to it by
// accident.
type access struct{ endpoint, keyID, secret string }

// newAccess draws keys in the shape of AWS's own: AKIA with 16 capitals and
// digits, and 40 characters.
func newAccess(address string) (access, error) {
	random := make([]byte, 46)
	if _, err := rand.Read(random); err != nil {
		return access{}, fmt.Errorf("drawing AWS keys: %w", err)
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	id := []byte("AKIA")
	for _, b := range random[:16] {
		id = append(id, letters[b&31])
	}
	return access{endpoint: "http://" + address, keyID: string(id), secret: base64.RawURLEncoding.EncodeToString(random[16:])}, nil
}

// serveAWS makes the cloud and puts it on a loopback port. The cluster is set later,
// when its endpoint is known.
func (w *Environment) serveAWS() error {
	w.config.AWS.Cluster.ServiceCIDR = kube.ServiceRange
	var err error
	if w.AWS, err = sandboxaws.New(w.config.AWS); err != nil {
		return err
	}
	address, stop, err := listenAndServe(w.AWS)
	if err != nil {
		return err
	}
	w.shutdown.add(stop)
	if w.access, err = newAccess(address); err != nil {
		return err
	}
	// A profile of this name must exist: the aws command takes an empty
	// AWS_PROFILE for the name of one.
	if err := os.WriteFile(w.awsConfig(), []byte("[default]\nregion = "+w.config.AWS.Region+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the AWS config file: %w", err)
	}
	return nil
}

// listenAndServe puts an account on a loopback port, until stop is called.
func listenAndServe(account http.Handler) (address string, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listening for AWS: %w", err)
	}
	server := &http.Server{
		Handler: account, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // broken connections of killed clients are the sandbox's daily bread
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return listener.Addr().String(), func() error {
		err := server.Close() // long polls of SQS would outlast a polite end
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}, nil
}

func (w *Environment) awsConfig() string { return filepath.Join(w.Dir, "aws-config") }

func (w *Environment) startPlane(ctx context.Context, binaries build.Built) error {
	begin := time.Now()
	plane, err := kube.Start(ctx, kube.Config{
		Binaries: binaries, Group: w.group, Dir: filepath.Join(w.Dir, "kube"), Version: w.config.AWS.Cluster.Version,
	})
	if err != nil {
		return err
	}
	w.plane, w.Kubeconfig, w.Kubectl = plane, plane.Kubeconfig(), binaries.Tool("kubectl")
	w.reportProgress("control plane ready after %s", begin)
	cluster := w.config.AWS.Cluster
	cluster.Endpoint, cluster.CA = plane.Endpoint(), plane.CA()
	w.config.AWS.Cluster = cluster
	return w.AWS.SetCluster(cluster)
}

func (w *Environment) startGit(ctx context.Context, forge build.Built) error {
	if w.config.WithoutGit {
		return nil
	}
	begin := time.Now()
	server, err := gitserver.Start(ctx, gitserver.Config{
		Binary: forge.Path, Assets: forge.Dir, Group: w.group, Dir: filepath.Join(w.Dir, "gitea"),
	})
	if err != nil {
		return err
	}
	w.Git = server
	w.reportProgress("git server ready after %s", begin)
	return nil
}

func (w *Environment) reportProgress(format string, begin time.Time) {
	fmt.Fprintf(w.config.Progress, format+"\n", time.Since(begin).Round(100*time.Millisecond))
}
