// Package kube runs a real Kubernetes control plane of one's own on loopback:
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each a
// child process, set up as EKS sets them up where a user can observe it (RBAC, service
// account tokens, node restriction, every default controller).
//
// Each start draws new authorities, keys and ports. The package refuses to
// listen anywhere but on 127.0.0.1 and to connect to anything without a certificate,
// etcd included. It emulates no nodes: pods stay pending until another package posts some.
// Start reading at Start.
package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/poolwright/poolwright/provision/sandbox/internal/build"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// Config is with what and where to run. All fields but Version are required.
type Config struct {
	// Binaries holds etcd, kube-apiserver and the others by their names.
	Binaries build.Built
	// Group owns the processes; stopping it stops the control plane.
	Group *process.Group
	// Dir takes data, keys, logs and the kubeconfig. It must be private.
	Dir string
	// Version is what the API server shows at /version, such as "1.32"; what it
	// serves is what it is. Empty means that it shows its own.
	Version string
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	config     Config
	ids        *identities
	ports      ports
	kubeconfig string
	rest       *rest.Config
	api        *process.Process
}

// Start runs the control plane and returns once the API server is ready, the
// namespace "default" has its service account, so that pods can be created, and
// scheduler and controllers are healthy.
func Start(ctx context.Context, config Config) (*ControlPlane, error) {
	ids, err := newIdentities(filepath.Join(config.Dir, "pki"), time.Now())
	if err != nil {
		return nil, fmt.Errorf("making the cluster's keys: %w", err)
	}
	c := &ControlPlane{config: config, ids: ids, kubeconfig: filepath.Join(config.Dir, "kubeconfig")}
	if err := c.startStorage(ctx); err != nil {
		return nil, err
	}
	if err := c.startAPI(ctx); err != nil {
		return nil, err
	}
	if err := c.startControllers(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// startStorage starts etcd.
func (c *ControlPlane) startStorage(ctx context.Context) error {
	probe, err := c.etcdProbe()
	if err != nil {
		return err
	}
	return process.WithPorts(func() error {
		flags := etcdFlags(c.ids, filepath.Join(c.config.Dir, "etcd"), c.ports)
		_, err := c.run(ctx, "etcd", flags, func(ctx context.Context) error { return probe(ctx, loopback(c.ports.etcd)+"/readyz") })
		return err
	}, &c.ports.etcd, &c.ports.etcdPeer)
}

// startAPI starts the API server on a new port and writes the kubeconfig.
func (c *ControlPlane) startAPI(ctx context.Context) error {
	return process.WithPorts(func() error {
		if err := c.ids.kubeconfig(c.kubeconfig, "kubernetes-admin", c.Endpoint(), c.ids.admin); err != nil {
			return err
		}
		var err error
		if c.rest, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
			return fmt.Errorf("reading back the kubeconfig: %w", err)
		}
		c.rest.QPS = -1 // the server has fair queues of its own; a test must not measure our brake
		return c.runAPI(ctx)
	}, &c.ports.api)
}

func (c *ControlPlane) runAPI(ctx context.Context) error {
	probe, err := readyProbe(c.rest)
	if err != nil {
		return err
	}
	api, err := c.run(ctx, "kube-apiserver", apiFlags(c.ids, c.ports), probe)
	if err != nil {
		return err
	}
	c.api = api
	return nil
}

// startControllers starts the controller manager and the scheduler side by
// side, then waits for both.
func (c *ControlPlane) startControllers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return c.startClient(ctx, "kube-controller-manager", c.ids.manager, &c.ports.manager, managerFlags)
	})
	group.Go(func() error {
		return c.startClient(ctx, "kube-scheduler", c.ids.sched, &c.ports.scheduler, schedulerFlags)
	})
	group.Go(func() error { return waitUsable(ctx, c.rest) })
	return group.Wait()
}

// startClient starts one that has its own kubeconfig and a port for its health.
func (c *ControlPlane) startClient(ctx context.Context, name string, credentials pair, port *int,
	flags func(*identities, string, int) []string,
) error {
	file := c.ids.path(name + ".kubeconfig")
	if err := c.ids.kubeconfig(file, "system:"+name, c.Endpoint(), credentials); err != nil {
		return err
	}
	return process.WithPorts(func() error {
		_, err := c.run(ctx, name, flags(c.ids, file, *port), c.healthProbe(*port))
		return err
	}, port)
}

// grace is short because the API server otherwise waits for its last watcher,
// which may be somebody's `kubectl get --watch`. Nothing here needs longer.
const grace = 3 * time.Second

// run starts one part and waits until probe is content. A part that fails to
// become ready is stopped.
func (c *ControlPlane) run(ctx context.Context, name string, flags []string, probe func(context.Context) error) (*process.Process, error) {
	p, err := c.config.Group.Start(process.Spec{
		Name: name, Path: c.config.Binaries.Tool(name), Args: flags, Dir: c.config.Dir,
		Env: []string{"HOME=" + c.config.Dir, "TMPDIR=" + c.config.Dir, "SANDBOX_KUBERNETES_VERSION=" + c.config.Version},
		Log: logFile(c.config.Dir, name), Trial: true, Grace: grace,
	})
	if err != nil {
		return nil, err
	}
	if err := p.Ready(ctx, probe); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	c.config.Group.Trust(p)
	return p, nil
}

// KillAPIServer takes the API server away at once, as an outage does; etcd,
// scheduler and controllers stay. Clients get broken, then refused connections.
func (c *ControlPlane) KillAPIServer() error { return c.api.Kill() }

// StartAPIServer brings a stopped API server back at the same address and
// returns once it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	if err := c.runAPI(ctx); err != nil {
		return fmt.Errorf("restarting the API server: %w", err)
	}
	return nil
}

// Endpoint is the API server's URL.
func (c *ControlPlane) Endpoint() string { return loopback(c.ports.api) }

// CA is the PEM certificate of the cluster's authority.
func (c *ControlPlane) CA() []byte { return append([]byte(nil), c.ids.cluster.pem...) }

// Certificate is the API server's, with its key.
func (c *ControlPlane) Certificate() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.ids.path("serving.crt"), c.ids.path("serving.key"))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading the API server's certificate: %w", err)
	}
	return pair, nil
}

// Kubeconfig is the path of the administrator's kubeconfig, mode 0600.
func (c *ControlPlane) Kubeconfig() string { return c.kubeconfig }

// REST returns a copy of the administrator's client configuration, without
// client-side rate limit.
func (c *ControlPlane) REST() *rest.Config { return rest.CopyConfig(c.rest) }
