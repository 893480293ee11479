// Package sandbox runs a whole EKS-like environment on one machine: a real Kubernetes
// control plane, AWS emulated at the wire, kubelets emulated for every launched
// instance, and a real Gitea. Everything listens on loopback only, with keys and
// passwords of its own, and is gone after Stop, after Ctrl-C and after a crash
// of this process.
//
// It builds its programs from source the first time and keeps them, so it runs
// inside a clone of the repository. It refuses to read the user's own cloud
// credentials and kubeconfig: an environment is reached only by what Env returns. It
// starts no engine and no Poolwright; whoever tests those starts them, with Run
// or in-process.
//
// Start reading at Start; each part is a package below this one.
package sandbox

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/provision/sandbox/internal/kube"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// Config is what an environment is made of. Start from DefaultConfig.
type Config struct {
	// AWS is the emulated account. Its cluster's endpoint, authority and service
	// range are filled in by Start.
	AWS sandboxaws.Config
	// Nodes are the kubelets' and the device plugin's delays.
	Nodes nodes.Delays
	// SystemTaints are on the system node, which has none by default. With
	// CriticalAddonsOnly, as Karpenter's guide has it, only pods that tolerate that
	// run before a node is provisioned.
	SystemTaints []corev1.Taint
	// Fault and Notify are the node simulator's, as in [nodes.Config]. Both may be nil.
	Fault  func(nodes.Machine) nodes.Fault
	Notify func(nodes.Notice)
	// WithoutGit leaves Gitea out, for tests that need no repository; Environment.Git
	// is nil then.
	WithoutGit bool
	// Keep leaves the data folder with all logs behind after Stop.
	Keep bool
	// Progress receives, one line at a time, what takes long. Nil discards it.
	Progress io.Writer
}

// DefaultConfig is a cluster in a made-up account with delays near the real
// ones.
func DefaultConfig() Config { return Config{AWS: sandboxaws.DefaultConfig()} }

// Environment is a running environment.
type Environment struct {
	// AWS is the emulated cloud, to read its state and to inject faults.
	AWS *sandboxaws.Cloud
	// Git is the Git server, nil with Config.WithoutGit.
	Git *gitserver.Server
	// Nodes emulates the kubelets. Instances of AWS reach it by themselves.
	Nodes *nodes.Simulator
	// Dir is the private data folder; logs are below it.
	Dir string
	// Kubeconfig is the administrator's, Kubectl the binary that fits.
	Kubeconfig, Kubectl string

	config   Config
	access   access
	plane    *kube.ControlPlane
	group    *process.Group
	shutdown shutdown
}

// Start makes an environment and returns once pods can be scheduled and commits be
// pushed. The first time on a machine it builds the programs, which takes
// minutes. ctx bounds the start, not the life of the environment. When a part fails,
// everything that was started before is stopped again.
func Start(ctx context.Context, config Config) (*Environment, error) {
	w := &Environment{config: config}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the sandbox: %w", err), w.Stop())
	}
	return w, nil
}

// Stop ends everything: programs that Run started, so that they can shut down in a
// running cluster, then the environment. It leaves no process and, unless Config.Keep,
// no file. It may be called again, also from another goroutine.
func (w *Environment) Stop() error { return w.shutdown.run(w.group) }

// Done is closed when a part of the environment ends by itself; Err names it. The end
// of a program that Run started does not close it.
func (w *Environment) Done() <-chan struct{} { return w.group.Failed() }

// Err is the unexpected end of a part, with its last log lines, or nil.
func (w *Environment) Err() error { return w.group.Err() }

// Run starts a program in the environment, as a user would in a shell with Env: its
// environment holds nothing else of ours but PATH. Its output goes to
// <Dir>/logs/<name>.log. Its end is reported by the returned process only; Stop ends it
// first. A name may be used again after its program ended.
func (w *Environment) Run(name, binary string, args ...string) (*process.Process, error) {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir}
	for key, value := range w.Env() {
		env = append(env, key+"="+value)
	}
	p, err := w.group.Start(process.Spec{
		Name: name, Path: binary, Args: args, Env: env, Dir: w.Dir,
		Log: filepath.Join(w.Dir, "logs", name+".log"), Trial: true,
		// A controller gives its lease back when it has ended its work.
		Grace: 30 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	w.shutdown.addProgram(p)
	return p, nil
}

// REST returns a copy of the administrator's client configuration, without
// client-side rate limit.
func (w *Environment) REST() *rest.Config { return w.plane.REST() }

// Certificate is the API server's, with its key, for a proxy that clients take for it.
func (w *Environment) Certificate() (tls.Certificate, error) { return w.plane.Certificate() }

// Endpoint is the AWS endpoint's URL.
func (w *Environment) Endpoint() string { return w.access.endpoint }

// KillAPIServer takes the API server away at once, as an outage does. Its data
// stays in etcd.
func (w *Environment) KillAPIServer() error { return w.plane.KillAPIServer() }

// StartAPIServer brings it back at the same address and returns once it is
// ready.
func (w *Environment) StartAPIServer(ctx context.Context) error { return w.plane.StartAPIServer(ctx) }

// Env is all that a program needs of the environment and nothing of the user's: the
// names that kubectl and the AWS SDKs read. Those of files, of the profile and of the
// session take away what the user's shell or home may hold.
func (w *Environment) Env() map[string]string {
	return map[string]string{
		"KUBECONFIG":                  w.Kubeconfig,
		"AWS_ENDPOINT_URL":            w.Endpoint(),
		"AWS_REGION":                  w.config.AWS.Region,
		"AWS_DEFAULT_REGION":          w.config.AWS.Region,
		"AWS_ACCESS_KEY_ID":           w.access.keyID,
		"AWS_SECRET_ACCESS_KEY":       w.access.secret,
		"AWS_SESSION_TOKEN":           "",
		"AWS_PROFILE":                 "default",
		"AWS_CONFIG_FILE":             w.awsConfig(),
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_EC2_METADATA_DISABLED":   "true",
	}
}
